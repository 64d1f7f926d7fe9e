"""What a process took as time went by: memory, open files, threads; in figures, and as a picture."""

import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.drawing import STYLE, WIDTH

MOST_GROWTH = 0.05
WARM_UP = 0.25
_LINES = """\
polyline { fill: none; stroke: #1a7f37; stroke-width: 1.5 }
.away { fill: #8c959f; opacity: 0.35 }"""
_LEFT, _TOP, _PANEL, _GAP = 150, 58, 70, 26


@dataclass(frozen=True)
class Course:
    """How one figure went: at the start, early after the warm-up, late, and at most."""

    start: float
    early: float
    late: float
    most: float

    @property
    def growth(self) -> float:
        """Return by which share it grew after the warm-up."""
        return self.late / self.early - 1

    def figures(self) -> dict[str, float]:
        """Return it for a person to read."""
        return {**asdict(self), "growth": round(self.growth, 4)}


@dataclass
class Samples:
    """How a process fared, and when GitHub was away meanwhile."""

    elapsed_s: list[float] = field(default_factory=list)
    memory_mb: list[float] = field(default_factory=list)
    files: list[float] = field(default_factory=list)
    threads: list[float] = field(default_factory=list)
    saved: list[int] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    outages: list[tuple[float, float]] = field(default_factory=list)

    def look(self, pid: int, elapsed_s: float, saved: int, depth: int) -> None:
        """Note how the process fares after so many checkpoints."""
        process = Path(f"/proc/{pid}")
        pages = int((process / "statm").read_text().split()[1])
        self.elapsed_s.append(round(elapsed_s, 1))
        self.memory_mb.append(round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1))
        self.files.append(len(list((process / "fd").iterdir())))
        self.threads.append(len(list((process / "task").iterdir())))
        self.saved.append(saved)
        self.depth.append(depth)

    def courses(self) -> dict[str, Course]:
        """Return how memory, files and threads went. What was there at a moment is noise: medians count."""
        values = {"memory (MB)": self.memory_mb, "open files": self.files, "threads": self.threads}
        return {name: _course(each) for name, each in values.items()}


def _course(values: Sequence[float]) -> Course:
    # The last sample was taken when all was drained and every client had gone.
    warm = values[int(len(values) * WARM_UP) : -1] or values
    third = max(1, len(warm) // 3)
    early, late = statistics.median(warm[:third]), statistics.median(warm[-third:])
    return Course(values[0], round(early, 1), round(late, 1), max(values))


def draw_samples(samples: Samples, path: Path) -> None:
    """Draw how memory, files, threads and the spool went, one above the other; the samples lie beside it."""
    end_s = samples.elapsed_s[-1]
    panels = [("spool", [float(depth) for depth in samples.depth])]
    panels = [
        ("memory (MB)", samples.memory_mb),
        ("open files", samples.files),
        ("threads", samples.threads),
        *panels,
    ]
    height = _TOP + len(panels) * (_PANEL + _GAP)
    title = f"A sidecar at work for {end_s / 60:.0f} minutes, {samples.saved[-1]:,} checkpoints"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{title}</title>",
        f"<style>{STYLE}\n{_LINES}</style>",
        f'<text class="title" x="0" y="18">{title}</text>',
        '<text class="note" x="0" y="38">grey: GitHub is away; the numbers are the most and the last</text>',
    ]
    for number, (name, values) in enumerate(panels):
        lines += _draw_panel(name, values, samples, _TOP + number * (_PANEL + _GAP))
    path.write_text("\n".join([*lines, "</svg>", ""]), encoding="utf-8")
    path.with_suffix(".json").write_text(json.dumps(asdict(samples)) + "\n", encoding="utf-8")


def _draw_panel(name: str, values: Sequence[float], samples: Samples, top: int) -> list[str]:
    width, end_s, most = WIDTH - _LEFT, samples.elapsed_s[-1] or 1.0, max(*values, 1.0)

    def x(elapsed_s: float) -> float:
        return _LEFT + elapsed_s / end_s * width

    points = " ".join(
        f"{x(elapsed_s):.1f},{top + _PANEL * (1 - value / most):.1f}"
        for elapsed_s, value in zip(samples.elapsed_s, values, strict=True)
    )
    away = [
        f'<rect class="away" x="{x(start):.1f}" y="{top}" width="{x(end) - x(start):.1f}" height="{_PANEL}"/>'
        for start, end in samples.outages
    ]
    return [
        *away,
        f'<text x="0" y="{top + 28}">{name}</text>',
        f'<text class="note" x="0" y="{top + 46}">most {most:g}, end {values[-1]:g}</text>',
        f'<polyline points="{points}"/>',
    ]
