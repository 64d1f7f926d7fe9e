"""How many checkpoints a second get from the caller into the repository, verified, near and far."""

import time
from collections.abc import Callable
from contextlib import ExitStack

from benchmarks.contestants import ALL, COMMIT, CONTENTS, PYGITHUB, Contestant, Job, contestant
from benchmarks.report import Bar, Figure, Report
from benchmarks.sampling import Sample, interleave
from benchmarks.states import State, make_state
from benchmarks.workshop import Workshop

NAME = "network"
FAR_S = 0.1
NEAR, FAR = "0 ms network, burst of 1 run, 5 KB", "100 ms network, burst of 1 run, 5 KB"
BURST = 100


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Measure bursts of a hundred; a loop is as fast with a few, so it gets a few."""
    near = _measure(workshop, 0.0, rounds=2 if is_quick else 5, of_a_loop=10)
    far = _measure(workshop, FAR_S, rounds=1 if is_quick else 2, of_a_loop=3 if is_quick else 8)
    _add(report, NEAR, near)
    _add(report, FAR, far)
    report.notes.append("network: loops store 3 to 10 checkpoints a round, Holdfast bursts of 100")
    for name, least in ((CONTENTS, 5), (COMMIT, 30)):
        ratio = 1 / far[name].ratio_to(far[PYGITHUB])
        promise = f"throughput at 100 ms beside the PyGithub loop's, {name.split()[1]} mode"
        report.bars.append(Bar(NAME, promise, ratio, least, "times", is_minimum=True))


def _measure(workshop: Workshop, network_s: float, *, rounds: int, of_a_loop: int) -> dict[str, Sample]:
    """Return the seconds that one checkpoint takes, for everyone, by turns on repositories of their own."""
    state = make_state("5 KB")
    with ExitStack() as opened:
        timers = {}
        for name in ALL:
            github = opened.enter_context(workshop.github())
            saver = opened.enter_context(contestant(name, github, workshop))
            saver.save_all([Job("run-before", 1, state)])
            github.delay_answers(network_s)
            saver.set_network(network_s)
            timers[name] = _timer(saver, state, BURST if name.startswith("Holdfast") else of_a_loop)
        return interleave(timers, rounds=rounds)


def _timer(saver: Contestant, state: State, checkpoints: int) -> Callable[[], float]:
    saved = 0

    def save_burst() -> float:
        nonlocal saved
        jobs = [Job("run-1", saved + number, state) for number in range(1, checkpoints + 1)]
        saved += checkpoints
        before = time.perf_counter()
        saver.save_all(jobs)
        return (time.perf_counter() - before) / checkpoints

    return save_burst


def _add(report: Report, work: str, samples: dict[str, Sample]) -> None:
    for name, sample in samples.items():
        low, high = sample.spread
        ratio = 1 / sample.ratio_to(samples[PYGITHUB])
        figure = Figure(
            NAME, work, name, "checkpoints a second", 1 / sample.median, "", ratio, 1 / high, 1 / low
        )
        report.figures.append(figure)
