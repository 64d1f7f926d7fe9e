"""Small pictures as values that a template draws: lines, bars and gauges, in the units of their view box."""

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 600, 120


@dataclass(frozen=True, slots=True)
class Line:
    """A line over time: `points` for an SVG polyline, `area` closed at the bottom, and its highest value."""

    points: str
    area: str
    highest: float
    newest: float


def draw_line(values: Sequence[tuple[float, float]], *, most: float | None = None) -> Line | None:
    """Return a line through (moment, value); None if there are not two moments yet.

    >>> draw_line([(0, 0), (10, 5)]).points
    '0.0,120.0 600.0,0.0'
    """
    if len(values) < 2 or values[-1][0] <= values[0][0]:
        return None
    first, last = values[0][0], values[-1][0]
    highest = max(value for _, value in values)
    scale = most or highest or 1.0
    points = [
        f"{(at - first) / (last - first) * WIDTH:.1f},{HEIGHT - min(value / scale, 1.0) * HEIGHT:.1f}"
        for at, value in values
    ]
    line = " ".join(points)
    return Line(line, f"0,{HEIGHT} {line} {WIDTH},{HEIGHT}", highest, values[-1][1])


@dataclass(frozen=True, slots=True)
class Gauge:
    """What is left of a limit; `share` is None where the limit is not known."""

    name: str
    left: int
    limit: int | None
    resets_at: float | None = None

    @property
    def is_low(self) -> bool:
        """Whether less than a tenth is left."""
        return self.limit is not None and self.left * 10 < self.limit


@dataclass(frozen=True, slots=True)
class Dot:
    """One checkpoint on a timeline, from 0 to 1000 across."""

    x: float
    label: str
    kind: str
    href: str


def place_dots(moments: Sequence[float | None]) -> list[float]:
    """Return where on a line of 1000 each moment lies; those without a time lie in the order they came.

    >>> place_dots([0.0, 5.0, 10.0]), place_dots([None, None])
    ([0.0, 500.0, 1000.0], [0.0, 1000.0])
    """
    known = [moment for moment in moments if moment is not None]
    if len(known) < len(moments) or not known or max(known) == min(known):
        steps = max(len(moments) - 1, 1)
        return [number * 1000 / steps for number in range(len(moments))]
    first, span = min(known), max(known) - min(known)
    return [round((moment - first) / span * 1000, 1) for moment in moments if moment is not None]
