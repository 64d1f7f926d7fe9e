"""Moments are written as `datetime` writes them."""

from datetime import UTC, datetime

import pytest

from holdfast.format.moments import epoch, format_moment


@pytest.mark.parametrize(
    "seconds", [0, 0.0004, 1.9996, 1794967200.123, 1713497408.143, -1.5, -41_000_000_000]
)
def test_a_moment_is_written_as_the_standard_library_does(seconds: float) -> None:
    expected = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")

    assert format_moment(seconds) == expected.replace("+00:00", "Z")


def test_a_year_has_four_digits() -> None:
    """What retention asks GitHub for may lie a thousand years back, if someone keeps all for ever."""
    assert format_moment(-41_000_000_000).startswith("0670-")


def test_a_moment_is_read_back() -> None:
    assert epoch(format_moment(1794967200.125)) == 1794967200.125
