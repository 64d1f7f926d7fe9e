import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.ratelimit.window import MOST_ENTRIES, SlidingWindow

NOW = 1_800_000_000.0


def test_only_the_span_counts() -> None:
    window = SlidingWindow(3600).add(NOW).add(NOW + 30, 2).add(NOW + 100, 4)

    assert window.total(NOW + 100) == 7
    assert window.total(NOW + 100, 60) == 4
    assert window.total(NOW + 3600) == 6
    assert window.total(NOW + 3700) == 0


def test_wait_ends_when_enough_is_forgotten() -> None:
    window = SlidingWindow(60).add(NOW).add(NOW + 10).add(NOW + 20)

    assert window.wait_for(1, 4, NOW + 20) == 0.0
    assert window.wait_for(1, 3, NOW + 20) == 40.0
    assert window.wait_for(2, 3, NOW + 20) == 50.0


def test_need_beyond_the_capacity_waits_until_all_is_forgotten() -> None:
    window = SlidingWindow(60).add(NOW).add(NOW + 20)

    assert window.wait_for(100, 3, NOW + 20) == 60.0
    assert window.wait_for(100, 3, NOW + 80) == 0.0


def test_what_needs_nothing_never_waits() -> None:
    assert SlidingWindow(60).add(NOW, 50).wait_for(0, 3, NOW) == 0.0


@given(st.lists(st.floats(0, 5), max_size=2 * MOST_ENTRIES))
def test_memory_is_bounded_and_never_forgets_too_early(gaps: list[float]) -> None:
    window, at, times = SlidingWindow(3600), NOW, []
    for gap in gaps:
        at += gap
        times.append(at)
        window = window.add(at)

    assert len(window.entries) <= MOST_ENTRIES
    for now in (at, at + 1000, at + 3599):
        assert window.total(now) >= sum(time > now - 3600 for time in times)
    assert window.total(at + 3600) == 0


@pytest.mark.slow
def test_many_entries_are_thinned_without_losing_any() -> None:
    window = SlidingWindow(3600)
    for second in range(3000):
        window = window.add(NOW + second)

    assert len(window.entries) <= MOST_ENTRIES
    assert window.total(NOW + 2999) == 3000
    assert window.total(NOW + 2999, 60) == 60
