"""Repeats, orders and sums up measurements, so that noise hits all contestants alike."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles


@dataclass(frozen=True)
class Sample:
    """What was measured of one contestant, round by round."""

    rounds: tuple[tuple[float, ...], ...]

    @property
    def values(self) -> list[float]:
        """Every measurement, whatever its round."""
        return [value for values in self.rounds for value in values]

    @property
    def round_medians(self) -> list[float]:
        """The median of each round."""
        return [median(values) for values in self.rounds]

    @property
    def median(self) -> float:
        """The median of every measurement."""
        return median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """The first and the third quartile of every measurement."""
        return quartiles(self.values)

    def percentile(self, percent: float) -> float:
        """Return the value that `percent` of the measurements do not exceed."""
        return percentile(self.values, percent)

    def ratio_to(self, other: "Sample") -> float:
        """Return the median, over the rounds, of how many times the other's measurement ours is."""
        pairs = zip(self.round_medians, other.round_medians, strict=True)
        return median(own / their for own, their in pairs)


def interleave(
    contestants: Mapping[str, Callable[[], float]], *, rounds: int, repeats: int = 1
) -> dict[str, Sample]:
    """Measure everyone `repeats` times in each round, each round beginning with another one."""
    names = list(contestants)
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            found[name].append(tuple(contestants[name]() for _ in range(repeats)))
    return {name: Sample(tuple(values)) for name, values in found.items()}


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of all values do not exceed.

    >>> percentile([4, 1, 3, 2], 75)
    3
    """
    ordered = sorted(values)
    rank = math.ceil(len(ordered) * percent / 100)
    return ordered[max(rank, 1) - 1]


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """Return the first and the third quartile; of a single value, that value twice."""
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = quantiles(values, n=4, method="inclusive")
    return first, third


def fit_exponent(sizes: Sequence[float], totals: Sequence[float]) -> float:
    """Return the power of the size that the totals grow with, by least squares on logarithms.

    >>> round(fit_exponent([1, 10, 100], [5, 50, 500]), 6)
    1.0
    """
    x = [math.log(size) for size in sizes]
    y = [math.log(total) for total in totals]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    covariance = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return covariance / sum((a - mean_x) ** 2 for a in x)
