"""How long a command takes to answer, beside Python itself and the imports of others."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.report import Bar, Report
from benchmarks.sampling import interleave
from benchmarks.states import make_state
from benchmarks.workshop import Workshop

NAME = "start-up"
WORK = "one command"
BASELINE = "python -c pass"
HELP = "holdfast --help"
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
