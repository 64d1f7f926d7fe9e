"""Writing to and reading from a repository that already holds many checkpoints."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks.contestants import (
    COMMIT,
    CONTENTS,
    GIT,
    PYGITHUB,
    Contestant,
    Job,
    contestant,
    holdfast_settings,
)
from benchmarks.filling import fill_spool
from benchmarks.peers.checkpoint import BRANCH
from benchmarks.peers.pygithub_loop import PyGithubLoop
from benchmarks.report import Report
from benchmarks.sampling import interleave
from benchmarks.states import make_state
from benchmarks.workshop import REPOSITORY, TOKEN, GitHubProcess, Workshop
from holdfast import Holdfast

NAME = "holding"
RUNS = 10
RUN = "run-0"
_WRITERS = (PYGITHUB, GIT, CONTENTS, COMMIT)
_HOLDFAST = "Holdfast"


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Measure with nothing, a thousand and ten thousand checkpoints there before."""
    rounds = 3 if is_quick else 7
    for held in (0, 500) if is_quick else (0, 1_000, 10_000):
        root = _filled(workshop, held)
        work = f"{held:,} checkpoints of 5 KB held, {RUNS} runs"
        _measure_writing(workshop, report, root, work, held, rounds)
        _measure_reading(workshop, report, root, work, rounds)
        shutil.rmtree(root)


def _filled(workshop: Workshop, held: int) -> Path:
    """Return the folder of a GitHub that holds this many checkpoints, and one at least."""
    root, folder = workshop.memory_folder(), workshop.memory_folder()
    with GitHubProcess(root) as github:
        settings = holdfast_settings(COMMIT, github.url, folder)
        fill_spool(settings, checkpoints=max(held, 1), runs=RUNS, size="5 KB")
        with Holdfast(settings) as holdfast:
            result = holdfast.drain(timeout_s=60)
        if result.left:
            raise AssertionError(f"the repository could not be filled: {result}")
        subprocess.run(["git", "-C", github.bare_repository, "repack", "-adq"], check=True)
    shutil.rmtree(folder)
    return root


def _measure_writing(
    workshop: Workshop, report: Report, root: Path, work: str, held: int, rounds: int
) -> None:
    with ExitStack() as opened:
        timers = {}
        for name in _WRITERS:
            own_root = workshop.memory_folder() / "root"
            shutil.copytree(root, own_root)
            opened.callback(shutil.rmtree, own_root)
            github = opened.enter_context(GitHubProcess(own_root))
            saver = opened.enter_context(contestant(name, github, workshop))
            timers[name] = _save_timer(saver, first=max(held, 1) // RUNS + 2)
            timers[name]()
        samples = interleave(timers, rounds=rounds)
    report.add_samples(
        samples, section=NAME, work=work, name="save to verified", unit="ms", baseline=PYGITHUB, scale=1000
    )


def _save_timer(saver: Contestant, first: int) -> Callable[[], float]:
    state, sequence = make_state("5 KB"), first

    def save_one() -> float:
        nonlocal sequence
        before = time.perf_counter()
        saver.save_all([Job(RUN, sequence, state)])
        sequence += 1
        return time.perf_counter() - before

    return save_one


def _measure_reading(workshop: Workshop, report: Report, root: Path, work: str, rounds: int) -> None:
    with GitHubProcess(root) as github, ExitStack() as opened:
        settings = holdfast_settings(CONTENTS, github.url, workshop.disk_folder())
        warm = opened.enter_context(Holdfast(settings))
        warm.resume(RUN)
        plain = PyGithubLoop(github.url, REPOSITORY, TOKEN)
        opened.callback(plain.close)
        plain.load(RUN)
        readers: dict[str, dict[str, Callable[[], object]]] = {
            "resume, cold": {
                PYGITHUB: lambda: plain.load(RUN),
                GIT: lambda: _clone(github.bare_repository, workshop.disk_folder()),
                _HOLDFAST: lambda: _resume_cold(github.url, workshop.disk_folder()),
            },
            "resume, warm": {PYGITHUB: lambda: plain.load(RUN), _HOLDFAST: lambda: warm.resume(RUN)},
        }
        for figure, by_name in readers.items():
            timers = {name: _timer(read) for name, read in by_name.items()}
            samples = interleave(timers, rounds=rounds)
            report.add_samples(
                samples, section=NAME, work=work, name=figure, unit="ms", baseline=PYGITHUB, scale=1000
            )
            requests = {name: _requests(github, read) for name, read in by_name.items() if name != GIT}
            report.add_values(
                requests, section=NAME, work=work, name=f"requests, {figure}", unit="", baseline=PYGITHUB
            )


def _timer(read: Callable[[], object]) -> Callable[[], float]:
    def read_once() -> float:
        before = time.perf_counter()
        read()
        return time.perf_counter() - before

    return read_once


def _requests(github: GitHubProcess, read: Callable[[], object]) -> float:
    github.clear_traffic()
    read()
    return github.traffic().requests


def _resume_cold(url: str, folder: Path) -> None:
    """Resume as a machine does that has never seen this repository, with its libraries loaded."""
    with Holdfast(holdfast_settings(CONTENTS, url, folder)) as holdfast:
        holdfast.resume(RUN)


def _clone(bare_repository: Path, folder: Path) -> None:
    """Read one file with as little of the repository as git can do with."""
    options = ["--quiet", "--bare", "--depth", "1", "--branch", BRANCH]
    subprocess.run(["git", "clone", *options, f"file://{bare_repository}", folder], check=True)
    latest = ["git", "-C", str(folder), "show", f"HEAD:checkpoints/{RUN}/latest.json"]
    json.loads(subprocess.run(latest, check=True, capture_output=True).stdout)
