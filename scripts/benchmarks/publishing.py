"""Writes what docs/benchmarks.md shows of a run: pictures, the table of bars, and all figures as JSON."""

import json
from pathlib import Path

from benchmarks.pictures import draw
from benchmarks.report import Bar, Report
from benchmarks.table import format_limit, format_measured

PAGE = Path("docs", "benchmarks.md")
PICTURES = Path("docs", "pictures")
RESULTS = PICTURES / "bench.json"
BEGIN, END = "<!-- bench: written by scripts/bench --publish -->", "<!-- end of bench -->"


def publish(report: Report, root: Path) -> list[Path]:
    """Write everything below `root`, and return where it is."""
    results, page = root / RESULTS, root / PAGE
    drawn = draw(report, root / PICTURES)
    results.write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    page.write_text(replace_between(text, format_section(report)), encoding="utf-8")
    return [*drawn, results, page]


def format_section(report: Report) -> str:
    """Return the machine, every bar with what was measured, and the notes, as Markdown."""
    machine = report.machine
    disk = machine["spools and local peers on"]
    system = f"{machine['system']}, Python {machine['python']}, SQLite {machine['sqlite']}, spools on {disk}"
    lines = [
        f"Measured on {machine['cores']} cores ({machine['processor']}), {system}.",
        "",
        "| | measured | bar | |",
        "|---|---:|---:|---|",
        *map(_format_row, report.bars),
        "",
        *(f"- {note}." for note in report.notes),
    ]
    return "\n".join(lines).rstrip()


def replace_between(text: str, section: str) -> str:
    """Return `text` with what stands between the two marks replaced.

    >>> replace_between(f"a {BEGIN} old {END} b", "new").replace(BEGIN, "(").replace(END, ")")
    'a (\\nnew\\n) b'
    """
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"the page has no place for the table: no {BEGIN} followed by {END}")
    return f"{before}{BEGIN}\n{section}\n{END}{after}"


def _format_row(bar: Bar) -> str:
    verdict = "" if bar.is_cleared else "**missed**"
    return f"| {bar.promise} | {format_measured(bar)} | {format_limit(bar)} | {verdict} |"
