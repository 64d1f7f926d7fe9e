"""x"""

from benchmarks.report import Report
from benchmarks.workshop import Workshop

NAME = "reading"


def run(workshop: Workshop, report: Report, is_quick: bool) -> None: ...
