"""Draws the figures that the documentation shows: bars as SVG, legible on a light and on a dark page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from benchmarks.drawing import STYLE, WIDTH
from benchmarks.report import Figure, Report
from benchmarks.sections import acknowledgement, bytes_sent, hour, network, requests
from benchmarks.table import format_number

_LEFT, _RIGHT, _TOP, _ROW, _BAR = 190, 110, 58, 28, 18


@dataclass(frozen=True)
class Picture:
    """One row of bars: which figure it shows, and what it says about them."""

    file_name: str
    title: str
    note: str
    section: str
    work: str
    figure: str


PICTURES = (
    Picture(
        "acknowledgement.svg",
        "A save of 50 KB is on disk after",
        "median, milliseconds; all on the same disk, by turns; shorter is better",
        acknowledgement.NAME,
        "50 KB",
        "median",
    ),
    Picture(
        "requests.svg",
        "Requests for each checkpoint, one at a time",
        "GitHub allows 5,000 requests an hour, and 500 that create content; shorter is better",
        requests.NAME,
        requests.ONE_AT_A_TIME,
        "requests",
    ),
    Picture(
        "burst.svg",
        "Requests for each checkpoint, in a burst of 100",
        "each checkpoint written, read back and indexed; shorter is better",
        requests.NAME,
        requests.BURST,
        "requests",
    ),
    Picture(
        "bytes.svg",
        "Bytes sent for a checkpoint of 200 KB, of which 5 KB change",
        "kilobytes, with the index and latest.json; one at a time; shorter is better",
        bytes_sent.NAME,
        bytes_sent.LARGE,
        "KB sent for each",
    ),
    Picture(
        "network.svg",
        "Checkpoints stored and verified a second, 100 ms from GitHub",
        "a burst of one run; longer is better",
        network.NAME,
        network.FAR,
        "checkpoints a second",
    ),
    Picture(
        "hour.svg",
        "Checkpoints an hour that one token carries without a refusal",
        "GitHub's limits on content: 80 a minute, 500 an hour; Holdfast was offered 10,000; longer is better",
        hour.NAME,
        hour.WORK,
        "checkpoints an hour",
    ),
)


def draw(report: Report, folder: Path) -> list[Path]:
    """Draw every picture whose figures were measured, and return where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for picture in PICTURES:
        found = report.find(section=picture.section, work=picture.work, name=picture.figure)
        if found:
            path = folder / picture.file_name
            path.write_text(format_bars(picture.title, picture.note, list(found.values())), encoding="utf-8")
            drawn.append(path)
    return drawn


def format_bars(title: str, note: str, figures: Sequence[Figure]) -> str:
    """Return the picture as SVG."""
    height = _TOP + _ROW * len(figures) + 8
    most = max(figure.value for figure in figures)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<text class="title" x="0" y="18">{escape(title)}</text>',
        f'<text class="note" x="0" y="38">{escape(note)}</text>',
    ]
    for number, figure in enumerate(figures):
        lines += _format_bar(figure, most, _TOP + _ROW * number)
    return "\n".join([*lines, "</svg>", ""])


def _format_bar(figure: Figure, most: float, top: int) -> list[str]:
    length = max(1.5, figure.value / most * (WIDTH - _LEFT - _RIGHT))
    kind = "own" if figure.contestant.startswith("Holdfast") else "other"
    middle = top + _BAR - 4
    number = f"{format_number(figure.value)} {figure.unit}".strip()
    return [
        f'<text x="{_LEFT - 10}" y="{middle}" text-anchor="end">{escape(figure.contestant)}</text>',
        f'<rect class="{kind}" x="{_LEFT}" y="{top}" width="{length:.1f}" height="{_BAR}" rx="2"/>',
        f'<text x="{_LEFT + length + 8:.1f}" y="{middle}">{escape(number)}</text>',
    ]
