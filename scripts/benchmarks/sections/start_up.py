"""How long a command takes to answer, beside Python itself and the imports of others."""

import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.report import Bar, Report
from benchmarks.sampling import interleave
from benchmarks.states import make_state
from benchmarks.workshop import REPOSITORY, TOKEN, GitHubProcess, Workshop

NAME = "start-up"
WORK = "one command"
BASELINE = "python -c pass"
HELP = "holdfast --help"
EXEC_WORK = "a step of one command"
BARE = "true"
EXEC_BAR_S = 0.4
_PEERS = Path(sys.executable).parent.parent / "peers"


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Measure whole processes, from start to end, by turns."""
    document = workshop.disk_folder() / "checkpoint.json"
    checkpoint = {"run_id": "run-1", "trigger": "manual", "phase": "phase_1_plan"}
    document.write_text(json.dumps({**checkpoint, "state": make_state("5 KB")}), encoding="utf-8")
    own = str(Path(sys.executable).with_name("holdfast"))
    variables = {**plain_variables(), "HOLDFAST_DATA_DIR": str(workshop.disk_folder())}
    with_peers = {**variables, "PYTHONPATH": str(_PEERS)}
    commands = {
        BASELINE: time_process([sys.executable, "-c", "pass"], variables),
        HELP: time_process([own, "--help"], variables),
        "holdfast submit": time_process([own, "submit", str(document)], variables),
        "import githubkit": time_process([sys.executable, "-c", "import githubkit"], variables),
        "import github (PyGithub)": time_process([sys.executable, "-c", "import github"], with_peers),
        "import SqliteSaver": time_process(
            [sys.executable, "-c", "from langgraph.checkpoint.sqlite import SqliteSaver"], with_peers
        ),
    }
    for measure in commands.values():
        measure()
    samples = interleave(commands, rounds=5 if is_quick else 15)
    report.add_samples(
        samples, section=NAME, work=WORK, name="median", unit="ms", baseline=BASELINE, scale=1000
    )
    report.bars.append(Bar(NAME, f"{HELP}, median", samples[HELP].median, 0.4, "s"))
    with GitHubProcess(workshop.disk_folder()) as github:
        _measure_exec(Steps(own, variables, workshop, github.url), report, rounds=5 if is_quick else 15)


class Steps:
    """Steps of runs in all the places where `holdfast exec` may find what is completed."""

    def __init__(self, own: str, variables: dict[str, str], workshop: Workshop, url: str) -> None:
        self._own = own
        self._workshop = workshop
        self._embedded = variables
        self._real = {
            **variables,
            "HOLDFAST_REPO": REPOSITORY,
            "HOLDFAST_API_URL": url,
            "HOLDFAST_TOKEN": TOKEN,
            "HOLDFAST_WRITE_INTERVAL_S": "0",
        }

    def commands(self) -> dict[str, Callable[[], float]]:
        """Return what runs each of them once, from start to end, in processor time."""
        drained = self._store(self._embedded)
        real = self._store(self._real)
        return {
            BARE: time_process([BARE], self._embedded, clock=processor_time),
            "exec, new run": self._time("next", None, self._embedded),
            "exec, run in the spool": self._time("next", self._spool(self._embedded), self._embedded),
            "exec, completed: skipped": self._time("first", self._spool(self._embedded), self._embedded),
            "exec, embedded, after a drain": self._time("next", drained, self._embedded),
            "exec, stored in a repository": self._time("next", real, self._real),
            "exec, stored by another machine": self._time("next", None, self._real),
        }

    def _time(self, step: str, folder: Path | None, variables: dict[str, str]) -> Callable[[], float]:
        """Return what runs a step, each time on a data folder as it was: that one, or an empty one."""

        def run_once() -> float:
            copy = self._workshop.disk_folder() / "data"
            if folder:
                shutil.copytree(folder, copy)
            own = {**variables, "HOLDFAST_DATA_DIR": str(copy)}
            return time_process(self._words(step), own, clock=processor_time)()

        return run_once

    def _spool(self, variables: dict[str, str]) -> Path:
        folder = self._workshop.disk_folder() / "data"
        own = {**variables, "HOLDFAST_DATA_DIR": str(folder)}
        subprocess.run(self._words("first"), env=own, check=True, capture_output=True)
        return folder

    def _store(self, variables: dict[str, str]) -> Path:
        folder = self._spool(variables)
        own = {**variables, "HOLDFAST_DATA_DIR": str(folder)}
        subprocess.run([self._own, "drain"], env=own, check=True, capture_output=True)
        return folder

    def _words(self, step: str) -> list[str]:
        return [self._own, "exec", "run-1", "--step", step, "--", BARE]


def _measure_exec(steps: Steps, report: Report, *, rounds: int) -> None:
    """Measure what `holdfast exec` adds to a command, beside the bare command."""
    commands = steps.commands()
    for measure in commands.values():
        measure()
    samples = interleave(commands, rounds=rounds)
    report.add_samples(
        samples, section=NAME, work=EXEC_WORK, name="processor time", unit="ms", baseline=BARE, scale=1000
    )
    bare = samples[BARE].median
    slowest = max(samples[name].median - bare for name in samples)
    report.bars.append(Bar(NAME, "exec adds at most, of the medians of all cases", slowest, EXEC_BAR_S, "s"))


def processor_time() -> float:
    """Return the processor seconds of our processes that have ended, whatever else the machine does."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def plain_variables() -> dict[str, str]:
    """Return the environment without what would change Python or us."""
    changing = ("HOLDFAST_", "OTEL_", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(changing)}


def time_process(
    command: Sequence[str],
    variables: dict[str, str],
    *,
    text: str = "",
    clock: Callable[[], float] = time.perf_counter,
) -> Callable[[], float]:
    """Return what runs a command from its start to its end, with `text` as input."""

    def run_once() -> float:
        before = clock()
        subprocess.run(command, env=variables, input=text.encode(), check=True, capture_output=True)
        return clock() - before

    return run_once
