import gc
import sys

import pytest

from holdfast.sidecar.serving import even_interpreter


def tuning() -> tuple[float, tuple[int, int, int], int]:
    return sys.getswitchinterval(), gc.get_threshold(), gc.get_freeze_count()


@pytest.mark.slow
def test_threads_take_turns_sooner_and_garbage_is_collected_less_often() -> None:
    interval_s, thresholds, _ = tuning()

    with even_interpreter():
        assert sys.getswitchinterval() < interval_s
        assert gc.get_threshold() > thresholds
        assert gc.get_freeze_count() > 0


@pytest.mark.slow
def test_the_interpreter_is_left_as_it_was() -> None:
    before = tuning()

    with pytest.raises(RuntimeError), even_interpreter():
        raise RuntimeError

    assert tuning() == before
