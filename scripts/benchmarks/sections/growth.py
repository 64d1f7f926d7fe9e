"""How requests, bytes and time grow with the number of checkpoints in one run."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.contestants import BATCHES, COMMIT, CONTENTS, PYGITHUB, Contestant, Job, contestant
from benchmarks.report import Bar, Figure, Report
from benchmarks.sampling import fit_exponent
from benchmarks.states import make_state
from benchmarks.workshop import GitHubProcess, Workshop

NAME = "growth"
# A fit over so few points is no more exact than this.
LINEAR = 1.1
_ONE_BY_ONE = "one at a time, 5 KB"
_BURSTS = "in one burst, 5 KB"

_REASON = (
    "growth: it is told from 100 checkpoints on. Up to there index.json lists all of them, as the "
    "specification says, so that bytes grow faster than the checkpoints; from there on older ones lie in "
    "segments that are written once. A loop's index goes on growing"
)


@dataclass(frozen=True)
class Totals:
    """What the first `checkpoints` of a run cost together."""

    checkpoints: int
    requests: int
    bytes_sent: int
    seconds: float


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Fit the power of the number that the totals grow with: 1 is linear."""
    # Up to 100 the index lists every checkpoint, as the specification says; what counts is how it goes on.
    marks = (100, 150, 200) if is_quick else (100, 200, 400)
    for name in (PYGITHUB, CONTENTS, COMMIT):
        with workshop.github() as github, contestant(name, github, workshop) as saver:
            totals = _save_one_by_one(github, saver, marks)
        _add(report, _ONE_BY_ONE, name, totals)
    sizes = (50, 200) if is_quick else (50, 200, 800)
    for name in (CONTENTS, BATCHES, COMMIT):
        _add(report, _BURSTS, name, [_save_burst(workshop, name, size) for size in sizes])
    _add_bars(report)
    report.notes.append(_REASON)


def _save_one_by_one(github: GitHubProcess, saver: Contestant, marks: Sequence[int]) -> list[Totals]:
    state = make_state("5 KB")
    saver.save_all([Job("run-before", 1, state)])
    github.clear_traffic()
    found = []
    before = time.perf_counter()
    for number in range(1, max(marks) + 1):
        saver.save_all([Job("run-1", number, state)])
        if number in marks:
            seconds = time.perf_counter() - before
            traffic = github.traffic()
            found.append(Totals(number, traffic.requests, traffic.bytes_sent, seconds))
    return found


def _save_burst(workshop: Workshop, name: str, checkpoints: int) -> Totals:
    state = make_state("5 KB")
    with workshop.github() as github, contestant(name, github, workshop) as saver:
        saver.save_all([Job("run-before", 1, state)])
        github.clear_traffic()
        before = time.perf_counter()
        saver.save_all([Job("run-1", number, state) for number in range(1, checkpoints + 1)])
        seconds = time.perf_counter() - before
        traffic = github.traffic()
    return Totals(checkpoints, traffic.requests, traffic.bytes_sent, seconds)


def _add(report: Report, work: str, name: str, totals: Sequence[Totals]) -> None:
    counts = [each.checkpoints for each in totals]
    columns: dict[str, list[float]] = {
        "requests": [each.requests for each in totals],
        "bytes": [each.bytes_sent for each in totals],
        "time": [each.seconds for each in totals],
    }
    for figure, values in columns.items():
        exponent = fit_exponent(counts, values)
        report.figures.append(Figure(NAME, work, name, f"exponent of {figure}", exponent))
    last = totals[-1]
    report.figures += [
        Figure(NAME, work, name, "of", last.checkpoints),
        Figure(NAME, work, name, "bytes each", last.bytes_sent / last.checkpoints / 1000, "KB"),
        Figure(NAME, work, name, "time each", last.seconds * 1000 / last.checkpoints, "ms"),
    ]


def _add_bars(report: Report) -> None:
    """Hold the fastest growing total of any of our modes against a straight line."""
    for work in (_ONE_BY_ONE, _BURSTS):
        for figure in ("requests", "bytes", "time"):
            found = report.find(section=NAME, work=work, name=f"exponent of {figure}")
            worst = max(each.value for name, each in found.items() if name != PYGITHUB)
            promise = f"total {figure} grow as this power of the checkpoints, {work}"
            report.bars.append(Bar(NAME, promise, worst, LINEAR))
