"""Draws a report."""

from pathlib import Path

from benchmarks.report import Report


def draw(report: Report, folder: Path) -> list[Path]:
    return []
