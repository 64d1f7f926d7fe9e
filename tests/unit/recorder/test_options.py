"""Numbers that programs hand in."""

from typing import Any

import pytest

from holdfast.errors import InvalidCheckpoint
from holdfast.recorder.options import check_number


class Scalar:
    """A number as numpy has them: no float, but it gives one."""

    def item(self) -> float:
        return 0.5


@pytest.mark.parametrize(("value", "meant"), [(2, 2), (0.5, 0.5), (Scalar(), 0.5)])
def test_number_is_taken_as_it_is_meant(value: Any, meant: float) -> None:
    assert check_number("usd", value) == meant


@pytest.mark.parametrize("value", ["2", True, None, float("nan")])
def test_what_is_no_number_is_refused_with_its_name(value: Any) -> None:
    with pytest.raises(InvalidCheckpoint, match="usd: Input should be a valid number"):
        check_number("usd", value)
