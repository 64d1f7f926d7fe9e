"""Requests, content-creating requests and bytes for each checkpoint, one at a time and in bursts."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks import contestants
from benchmarks.contestants import ALL, BATCHES, COMMIT, CONTENTS, PYGITHUB, Contestant, Job, contestant
from benchmarks.report import Bar, Report
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
    verified_s: float


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Measure everyone on a fresh repository each; bars compare with the plain loop of the same run."""
    singles = 5 if is_quick else 20
    state = make_state("5 KB")
    one_by_one = {name: _one_at_a_time(workshop, name, state, singles) for name in ALL if name != BATCHES}
    _add(report, ONE_AT_A_TIME, one_by_one)
    for size in ("50 KB", "140 KB", "5 MB")[: 1 if is_quick else 3]:
        large = {
            name: _one_at_a_time(workshop, name, make_state(size), 3 if size == "5 MB" else 10)
            for name in ALL
            if name != BATCHES
        }
        _add(report, f"one at a time, {size}", large)
    bursts: dict[str, dict[str, Outcome]] = {}
    for work, runs in list(_BURSTS.items())[: 1 if is_quick else 3]:
        bursts[work] = {name: _burst(workshop, name, state, runs, is_quick) for name in ALL}
        _add(report, work, bursts[work])
    _add_bars(report, one_by_one, bursts[BURST])


def _one_at_a_time(workshop: Workshop, name: str, state: State, checkpoints: int) -> Outcome:
    with workshop.github() as github, contestant(name, github, workshop) as saver:
        saver.save_all([Job("run-1", 1, state)])
        saver.save_all([Job("run-1", 2, state)])
        jobs = [[Job("run-1", number, state)] for number in range(3, 3 + checkpoints)]
        return _measure(github, saver, jobs)


def _burst(workshop: Workshop, name: str, state: State, runs: int, is_quick: bool) -> Outcome:
    """Save a hundred; of the loops, whose cost does not depend on it, a few less when in a hurry."""
    is_loop = not name.startswith("Holdfast")
    checkpoints = 20 if is_loop and is_quick else 100
    runs = min(runs, checkpoints)
    jobs = [Job(f"run-{number % runs}", 1 + number // runs, state) for number in range(checkpoints)]
    with workshop.github() as github, contestant(name, github, workshop) as saver:
        saver.save_all([Job("run-before", 1, state)])
        return _measure(github, saver, [jobs])


def _measure(github: GitHubProcess, saver: Contestant, groups: Sequence[Sequence[Job]]) -> Outcome:
    github.clear_traffic()
    count = sum(len(group) for group in groups)
    state_bytes = sum(size_of(job.state) for group in groups for job in group)
    cpu_before = time.process_time()
    times = []
    for group in groups:
        before = time.perf_counter()
        saver.save_all(group)
        times.append((time.perf_counter() - before) / len(group))
    cpu_s = time.process_time() - cpu_before
    traffic = github.traffic()
    return Outcome(
        traffic.requests / count,
        traffic.content_requests / count,
        traffic.bytes_sent / state_bytes,
        cpu_s * 1000 / count,
        median(times),
    )


def _add(report: Report, work: str, outcomes: dict[str, Outcome]) -> None:
    by_api = {name: outcome for name, outcome in outcomes.items() if name != contestants.GIT}
    columns = {
        "requests": ("", {name: each.requests for name, each in by_api.items()}),
        "content-creating": ("", {name: each.content_requests for name, each in by_api.items()}),
        "bytes per byte": ("", {name: each.bytes_per_byte for name, each in by_api.items()}),
        "CPU per 1,000": ("s", {name: each.cpu_s_per_thousand for name, each in by_api.items()}),
        "submit to verified, each": ("ms", {name: each.verified_s * 1000 for name, each in outcomes.items()}),
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
