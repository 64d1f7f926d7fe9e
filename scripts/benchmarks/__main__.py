"""The command: which sections, how thoroughly, and where the results go."""

import argparse
import json
import logging
import sys
import time
from pathlib import Path

import structlog
from rich.console import Console

from benchmarks.machine import describe, is_busy
from benchmarks.pictures import draw
from benchmarks.publishing import publish
from benchmarks.report import Report
from benchmarks.sections import SECTIONS
from benchmarks.table import show_bars, show_machine, show_section
from benchmarks.workshop import Workshop


def main() -> int:
    """Measure, show, and store. Returns 1 if a bar was missed."""
    arguments = _parse()
    # A log line for each request would be measured, too.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    console = Console(stderr=False, soft_wrap=False)
    started = time.monotonic()
    with Workshop() as workshop:
        report = Report(describe(workshop.disk, workshop.memory))
        show_machine(console, report.machine)
        if is_busy():
            report.notes.append("the machine was busy with something else, which hides differences")
        for name in arguments.sections or SECTIONS:
            section = SECTIONS[name]
            began = time.monotonic()
            section.run(workshop, report, arguments.quick)
            show_section(console, section.title, report.of(name))
            console.print(f"{name} took {time.monotonic() - began:.0f} s", style="dim")
    show_bars(console, report.bars)
    for note in report.notes:
        console.print(f"Note: {note}")
    console.print(f"All in all {time.monotonic() - started:.0f} s.")
    if arguments.json:
        arguments.json.write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="utf-8")
    if arguments.pictures:
        for picture in draw(report, arguments.pictures):
            console.print(f"Wrote {picture}")
    if arguments.publish:
        for path in publish(report, Path(__file__).resolve().parents[2]):
            console.print(f"Wrote {path}")
    return 0 if all(bar.is_cleared for bar in report.bars) else 1


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measure Holdfast beside what people use today: side by side, by turns, in one run. "
        "Every absolute number is this machine's own; the ratios are what counts.",
        epilog="example: scripts/bench acknowledgement requests --quick --json results.json",
    )
    parser.add_argument("sections", nargs="*", metavar="NAME", help=f"only these: {', '.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help="a rough answer in about a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there, too")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="draw pictures (SVG) into this folder")
    parser.add_argument(
        "--publish",
        action="store_true",
        help="draw the pictures of docs/benchmarks.md and write its table and the JSON, too",
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"no such section: {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    if arguments.publish and (arguments.quick or arguments.sections):
        parser.error("only a whole run is published; leave out --quick and the names")
    if arguments.publish and is_busy():
        # Where all wait for the same disk, every ratio is near one, and bars are cleared that are not.
        parser.error("the machine is busy, which hides differences; publish when nothing else runs on it")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
