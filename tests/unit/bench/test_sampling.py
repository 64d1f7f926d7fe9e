"""The arithmetic of the benchmark: orders, medians, ratios, percentiles and powers."""

import pytest
from benchmarks.sampling import Sample, fit_exponent, interleave, percentile, quartiles


def test_each_round_begins_with_the_next_contestant() -> None:
    order: list[str] = []

    def measure(name: str) -> float:
        order.append(name)
        return 1.0

    interleave({name: lambda name=name: measure(name) for name in "abc"}, rounds=3)  # type: ignore[misc]

    assert "".join(order) == "abcbcacab"


def test_repeats_stay_together_in_their_round() -> None:
    values = iter([1.0, 2.0, 3.0, 4.0])

    samples = interleave({"only": lambda: next(values)}, rounds=2, repeats=2)

    assert samples["only"].rounds == ((1.0, 2.0), (3.0, 4.0))


def test_a_ratio_compares_rounds_that_ran_together() -> None:
    """A machine that is ten times as slow in one round changes both, and so neither."""
    own = Sample(((2.0, 2.0), (20.0, 20.0), (2.0, 2.0)))
    other = Sample(((1.0, 1.0), (10.0, 10.0), (1.0, 1.0)))

    assert own.ratio_to(other) == 2.0


def test_a_median_and_a_spread_are_of_every_measurement() -> None:
    sample = Sample(((1.0, 2.0, 3.0), (4.0, 5.0)))

    assert sample.median == 3.0
    assert sample.spread == (2.0, 4.0)
    assert sample.round_medians == [2.0, 4.5]


@pytest.mark.parametrize(("percent", "expected"), [(0, 1.0), (50, 2.0), (95, 4.0), (100, 4.0)])
def test_a_percentile_is_a_value_that_was_measured(percent: float, expected: float) -> None:
    assert percentile([4.0, 2.0, 1.0, 3.0], percent) == expected


def test_a_single_value_has_no_spread() -> None:
    assert quartiles([7.0]) == (7.0, 7.0)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_power_of_a_growth_is_found(power: float) -> None:
    sizes = [50.0, 100.0, 400.0]

    assert fit_exponent(sizes, [3.0 * size**power for size in sizes]) == pytest.approx(power)
