"""Bytes sent for a run of which little changes with each checkpoint, beside the whole state each time."""

import random
from collections.abc import Iterator, Sequence

from benchmarks.contestants import COMMIT, CONTENTS, PYGITHUB, SEALED, Job, contestant
from benchmarks.report import Bar, Figure, Report
from benchmarks.sampling import fit_exponent
from benchmarks.states import State
from benchmarks.workshop import Workshop

NAME = "bytes"
LARGE = "200 KB of which 5 KB change, one at a time"
SMALL = "5 KB, all of it new, one at a time"
LINEAR = 1.05

_WORDS = tuple(f"{random.Random(number).random():.15f}" for number in range(400))


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Count what goes up. Up to 100 the index lists every checkpoint: growth is told from there on."""
    marks = (100, 150, 200) if is_quick else (100, 300, 1000)
    for name in (COMMIT, CONTENTS):
        _save(workshop, report, SMALL, name, _small_states(), marks)
    for name in (COMMIT, SEALED):
        _save(workshop, report, LARGE, name, _large_states(), marks)
    # The loop sends the same with each checkpoint, but for its index: a few show how much.
    _save(workshop, report, LARGE, PYGITHUB, _large_states(), (10, 20))
    _add_bars(report)


def _save(
    workshop: Workshop, report: Report, work: str, name: str, states: Iterator[State], marks: Sequence[int]
) -> None:
    sent: list[float] = []
    with workshop.github() as github, contestant(name, github, workshop) as saver:
        saver.save_all([Job("run-before", 1, {})])
        github.clear_traffic()
        for number in range(1, max(marks) + 1):
            saver.save_all([Job("run-1", number, next(states))])
            if number in marks:
                sent.append(github.traffic().bytes_sent)
    report.figures += [
        Figure(NAME, work, name, "KB sent for each", sent[-1] / marks[-1] / 1000, "KB"),
        Figure(NAME, work, name, "exponent", fit_exponent(marks, sent)),
        Figure(NAME, work, name, "of", marks[-1]),
    ]


def _large_states() -> Iterator[State]:
    source = random.Random(NAME)
    kept = {f"phase_{number}": {"output": _text(source, 39_000)} for number in range(5)}
    while True:
        yield {"phase_outputs": kept, "current_phase_state": {"partial_output": _text(source, 5_000)}}


def _small_states() -> Iterator[State]:
    source = random.Random(NAME)
    while True:
        yield {"phase_outputs": {"phase_1": {"output": _text(source, 5_000)}}}


def _text(source: random.Random, size_bytes: int) -> str:
    return " ".join(source.choices(_WORDS, k=size_bytes // 18))


def _add_bars(report: Report) -> None:
    each = report.find(section=NAME, work=LARGE, name="KB sent for each")
    for name, mode in ((COMMIT, "commit mode"), (SEALED, "commit mode, sealed")):
        share = each[name].value / each[PYGITHUB].value
        report.bars.append(Bar(NAME, f"bytes beside the PyGithub loop's, {LARGE}, {mode}", share, 0.1))
    for work in (LARGE, SMALL):
        found = report.find(section=NAME, work=work, name="exponent")
        worst = max(figure.value for name, figure in found.items() if name != PYGITHUB)
        report.bars.append(
            Bar(NAME, f"total bytes grow as this power of the checkpoints, {work}", worst, LINEAR)
        )
