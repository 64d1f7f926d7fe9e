"""Requests, content-creating requests and bytes for each checkpoint, one at a time and in bursts."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.contestants import ALL, BATCHES, COMMIT, CONTENTS, GIT, PYGITHUB, Contestant, Job, contestant
from benchmarks.report import Bar, Report
from benchmarks.sampling import interleave
from benchmarks.states import State, make_state, size_of
from benchmarks.workshop import GitHubProcess, Workshop

NAME = "requests"
ONE_AT_A_TIME = "one at a time, 5 KB"
BURST = "burst of 100 of 1 run, 5 KB"
_BURSTS = {BURST: 1, "burst of 100 of 10 runs, 5 KB": 10, "burst of 100 of 100 runs, 5 KB": 100}


@dataclass(frozen=True)
class Outcome:
    """What a number of checkpoints cost one contestant, each."""

    requests: float
    content_requests: float
    bytes_per_byte: float
    cpu_s_per_thousand: float


class Meter:
    """Watches one contestant save, and its own GitHub."""

    def __init__(self, github: GitHubProcess, saver: Contestant) -> None:
        self._github = github
        self._saver = saver
        self._saved = 0
        self._state_bytes = 0
        self._cpu_s = 0.0
        github.clear_traffic()

    def save(self, jobs: Sequence[Job]) -> float:
        """Save, and return how many seconds that took until all was verified."""
        before, cpu_before = time.perf_counter(), time.process_time()
        self._saver.save_all(jobs)
        elapsed = time.perf_counter() - before
        self._cpu_s += time.process_time() - cpu_before
        self._saved += len(jobs)
        self._state_bytes += sum(size_of(job.state) for job in jobs)
        return elapsed

    def outcome(self) -> Outcome:
        """Return what all that was saved cost."""
        traffic = self._github.traffic()
        return Outcome(
            traffic.requests / self._saved,
            traffic.content_requests / self._saved,
            traffic.bytes_sent / self._state_bytes,
            self._cpu_s * 1000 / self._saved,
        )


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Measure everyone on a fresh repository each; bars compare with the plain loop of the same run."""
    one_by_one = _one_at_a_time(workshop, report, "5 KB", 5 if is_quick else 20)
    for size in ("50 KB", "140 KB", "5 MB")[: 1 if is_quick else 3]:
        _one_at_a_time(workshop, report, size, 3 if size == "5 MB" else 10)
    bursts: dict[str, dict[str, Outcome]] = {}
    for work, runs in list(_BURSTS.items())[: 1 if is_quick else 3]:
        bursts[work] = {name: _burst(workshop, name, runs, is_quick) for name in ALL if name != GIT}
        _add(report, work, bursts[work])
    _add_bars(report, one_by_one, bursts[BURST])


def _one_at_a_time(workshop: Workshop, report: Report, size: str, checkpoints: int) -> dict[str, Outcome]:
    """Let everyone save in turn, each on a GitHub of its own."""
    state = make_state(size)
    with ExitStack() as opened:
        meters: dict[str, Meter] = {}
        for name in ALL:
            if name == BATCHES:
                continue
            github = opened.enter_context(workshop.github())
            saver = opened.enter_context(contestant(name, github, workshop))
            for number in (1, 2):
                saver.save_all([Job("run-1", number, state)])
            meters[name] = Meter(github, saver)
        timers = {name: _timer(meter, state) for name, meter in meters.items()}
        samples = interleave(timers, rounds=checkpoints)
        outcomes = {name: meter.outcome() for name, meter in meters.items() if name != GIT}
    work = f"one at a time, {size}"
    _add(report, work, outcomes)
    report.add_samples(
        samples, section=NAME, work=work, name="submit to verified", unit="ms", baseline=PYGITHUB, scale=1000
    )
    return outcomes


def _timer(meter: Meter, state: State) -> Callable[[], float]:
    sequence = 2

    def save_one() -> float:
        nonlocal sequence
        sequence += 1
        return meter.save([Job("run-1", sequence, state)])

    return save_one


def _burst(workshop: Workshop, name: str, runs: int, is_quick: bool) -> Outcome:
    """Save a hundred; of the loops, whose cost does not depend on it, a few less when in a hurry."""
    is_loop = not name.startswith("Holdfast")
    checkpoints = 20 if is_loop and is_quick else 100
    state = make_state("5 KB")
    jobs = [Job(f"run-{number % runs}", 1 + number // runs, state) for number in range(checkpoints)]
    with workshop.github() as github, contestant(name, github, workshop) as saver:
        saver.save_all([Job("run-before", 1, state)])
        meter = Meter(github, saver)
        meter.save(jobs)
        return meter.outcome()


def _add(report: Report, work: str, outcomes: dict[str, Outcome]) -> None:
    columns = {
        "requests": ("", {name: each.requests for name, each in outcomes.items()}),
        "content-creating": ("", {name: each.content_requests for name, each in outcomes.items()}),
        "bytes per byte": ("", {name: each.bytes_per_byte for name, each in outcomes.items()}),
        "CPU per 1,000": ("s", {name: each.cpu_s_per_thousand for name, each in outcomes.items()}),
    }
    for figure, (unit, values) in columns.items():
        report.add_values(values, section=NAME, work=work, name=figure, unit=unit, baseline=PYGITHUB)


def _add_bars(report: Report, one_by_one: dict[str, Outcome], burst: dict[str, Outcome]) -> None:
    plain, plain_burst = one_by_one[PYGITHUB].requests, burst[PYGITHUB].requests
    contents, commit = one_by_one[CONTENTS].requests, one_by_one[COMMIT].requests
    commit_burst = burst[COMMIT].requests
    report.bars += [
        Bar(NAME, "requests a checkpoint, one at a time, contents mode", contents, 4.0),
        Bar(NAME, "requests a checkpoint, one at a time, commit mode", commit, 1.1),
        Bar(NAME, "requests a checkpoint, burst of 100, a file each", burst[CONTENTS].requests, 1.2),
        Bar(NAME, "requests a checkpoint, burst of 100, batches", burst[BATCHES].requests, 0.06),
        Bar(NAME, "requests a checkpoint, burst of 100, commit mode", commit_burst, 0.02),
        Bar(NAME, "requests beside the PyGithub loop's, one at a time, contents", contents / plain, 2 / 3),
        Bar(NAME, "requests beside the PyGithub loop's, one at a time, commit", commit / plain, 1 / 6),
        Bar(NAME, "requests beside the PyGithub loop's, burst, commit", commit_burst / plain_burst, 1 / 50),
    ]
