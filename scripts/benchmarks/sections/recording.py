"""What the recorder adds to a run that saves by itself before and after each of its steps."""

import time
from pathlib import Path

from benchmarks.contestants import CONTENTS, holdfast_settings
from benchmarks.report import Bar, Report
from benchmarks.sampling import Sample, interleave
from benchmarks.states import State, make_state
from benchmarks.workshop import Workshop
from holdfast import Holdfast

NAME = "recording"
STEPS = 200
STEP_S = 0.1
WORK = f"{STEPS} steps, 50 KB of state"
_NOWHERE = "http://127.0.0.1:9"
_BARE, _RECORDED = "bare loop", "Holdfast recorder"


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Hold the time that recording takes against the 20 s that the steps themselves would take."""
    samples = measure(workshop, rounds=2 if is_quick else 5)
    added_s = samples[_RECORDED].median - samples[_BARE].median
    report.add_values(
        {name: sample.median for name, sample in samples.items()},
        section=NAME,
        work=WORK,
        name="all that is not a step",
        unit="s",
        baseline="",
    )
    share = 100 * added_s / (STEPS * STEP_S)
    report.bars.append(Bar(NAME, f"what recording adds to {WORK}, of 100 ms each", share, 5, "%"))


def measure(workshop: Workshop, *, rounds: int) -> dict[str, Sample]:
    """Time the same loop bare and recorded, by turns. The steps take no time, so that nothing is idle."""
    state = make_state("50 KB")
    return interleave(
        {
            _BARE: lambda: _time_bare(state),
            _RECORDED: lambda: _time_recorded(state, workshop.disk_folder()),
        },
        rounds=rounds,
    )


def _time_bare(state: State) -> float:
    own = dict(state)
    before = time.perf_counter()
    for number in range(STEPS):
        own["cost_accumulated"] = number
    return time.perf_counter() - before


def _time_recorded(state: State, folder: Path) -> float:
    with Holdfast(holdfast_settings(CONTENTS, _NOWHERE, folder)) as holdfast:
        before = time.perf_counter()
        with holdfast.run("run-1", style="steps", drain_at_end=False, handle_signals=False) as recorded:
            recorded.state.update(state)
            for number in range(STEPS):
                with recorded.step(f"step-{number}"):
                    recorded.state["cost_accumulated"] = number
        return time.perf_counter() - before
