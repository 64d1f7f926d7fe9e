"""What a benchmark run found out: figures of contestants, and bars that Holdfast must clear."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.sampling import Sample


@dataclass(frozen=True)
class Figure:
    """One measured number of one contestant at one work.

    `ratio` is how many times the baseline's number it is; `low` and `high` are quartiles.
    """

    section: str
    work: str
    contestant: str
    name: str
    value: float
    unit: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Bar:
    """A line that the measured value must stay below, or reach if `is_minimum`."""

    section: str
    promise: str
    measured: float
    limit: float
    unit: str = ""
    is_minimum: bool = False

    @property
    def is_cleared(self) -> bool:
        """Whether the measured value is on the right side of the limit."""
        return self.measured >= self.limit if self.is_minimum else self.measured <= self.limit


@dataclass
class Report:
    """Everything that was measured, in the order in which it was."""

    machine: dict[str, str]
    figures: list[Figure] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add_samples(
        self,
        samples: dict[str, Sample],
        *,
        section: str,
        work: str,
        name: str,
        unit: str,
        baseline: str,
        scale: float = 1.0,
    ) -> None:
        """Add the median of every contestant, with its spread and how it compares to the baseline."""
        for contestant, sample in samples.items():
            low, high = sample.spread
            self.figures.append(
                Figure(
                    section,
                    work,
                    contestant,
                    name,
                    sample.median * scale,
                    unit,
                    sample.ratio_to(samples[baseline]),
                    low * scale,
                    high * scale,
                )
            )

    def add_values(
        self, values: dict[str, float], *, section: str, work: str, name: str, unit: str, baseline: str
    ) -> None:
        """Add one number of every contestant, and how it compares to the baseline."""
        base = values.get(baseline, 0.0)
        for contestant, value in values.items():
            ratio = value / base if base else None
            self.figures.append(Figure(section, work, contestant, name, value, unit, ratio))

    def of(self, section: str) -> "Report":
        """Return the part of this report that one section made."""
        return Report(
            self.machine,
            [figure for figure in self.figures if figure.section == section],
            [bar for bar in self.bars if bar.section == section],
        )

    def find(self, *, section: str, work: str, name: str) -> dict[str, Figure]:
        """Return one figure of every contestant that has it."""
        return {
            figure.contestant: figure
            for figure in self.figures
            if (figure.section, figure.work, figure.name) == (section, work, name)
        }

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "machine": self.machine,
            "notes": self.notes,
            "bars": [{**asdict(bar), "is_cleared": bar.is_cleared} for bar in self.bars],
            "figures": [_without_nothing(asdict(figure)) for figure in self.figures],
        }


def unique(values: Iterable[str]) -> list[str]:
    """Return the values without repetitions, in their order."""
    return list(dict.fromkeys(values))


def _without_nothing(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
