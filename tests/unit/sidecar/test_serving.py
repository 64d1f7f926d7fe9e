import gc
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from holdfast.errors import InvalidSettings
from holdfast.sidecar.serving import even_interpreter, practise

PRACTISE = """
import sys
from holdfast.library import Holdfast
from holdfast.settings import Settings
from holdfast.sidecar.serving import practise

settings = {"HOLDFAST_REPO": "a/b", "HOLDFAST_TOKEN": "token", "HOLDFAST_DATA_DIR": sys.argv[1]}
holdfast = Holdfast(Settings.from_environment(settings))
practise(holdfast)
loaded = set(sys.modules)
holdfast.draft(b'{"run_id":"one","trigger":"manual","state":{"note":"x"}}')
print(sorted(set(sys.modules) - loaded), "structlog" in loaded, holdfast.status()["spool"]["depth"])
"""


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


@pytest.mark.slow
def test_the_first_request_finds_everything_loaded_and_nothing_saved(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-c", PRACTISE, str(tmp_path)], capture_output=True, text=True, check=True
    )

    assert told.stdout.split() == ["[]", "True", "0"]


@pytest.mark.parametrize("error", [InvalidSettings(["no key"]), PermissionError("no folder")])
def test_practice_that_fails_leaves_it_to_the_first_who_saves(error: Exception) -> None:
    holdfast = Mock()
    holdfast.draft.side_effect = error

    practise(holdfast)

    holdfast.draft.assert_called_once()
