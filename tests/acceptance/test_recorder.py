"""A program that records its steps is killed or told to stop; started again, it finishes the work.

Every step writes a line when it has done its work, so that the file says what really ran.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from holdfast.errors import InvalidCheckpoint
from holdfast.format.header import RunStatus
from holdfast.library import Holdfast
from holdfast.settings import Settings
from tests.fakes.spooling import start_python

STEPS = ["fetch", "lint", "test", "build"]


def local(folder: Path) -> Settings:
    return Settings.from_environment({"HOLDFAST_DATA_DIR": str(folder)})


def build(folder: Path, before: Callable[[str], object] = lambda _: None) -> None:
    """Do the steps that are left. This is the program; `before` is called inside of each step, first."""
    with Holdfast(local(folder)) as hf, hf.run("build-42", style="steps", workflow="ci.yml") as run:
        run.resume()
        for name in run.remaining(STEPS):
            with run.step(name) as step:
                before(name)
                with (folder / "ran.txt").open("a") as ran:
                    ran.write(f"{name}\n")
                step.capture(**{name: "done"})


def build_in_a_child(folder: Path, die_in: str) -> int:
    """Build in a process that is killed in one of its steps; return the signal that ended it."""

    def die(name: str) -> None:
        if name == die_in:
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            build(folder, die)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status)


def ran(folder: Path) -> list[str]:
    path = folder / "ran.txt"
    return path.read_text().split() if path.exists() else []


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("step", STEPS)
def test_a_killed_program_goes_on_with_the_step_that_it_died_in(tmp_path: Path, step: str) -> None:
    assert build_in_a_child(tmp_path, step) == signal.SIGKILL
    assert ran(tmp_path) == STEPS[: STEPS.index(step)]

    build(tmp_path)

    assert ran(tmp_path) == STEPS
    with Holdfast(local(tmp_path)) as hf:
        plan = hf.resume("build-42")
    assert (plan.status, plan.resumable, plan.completed) == (RunStatus.COMPLETED, False, [0, 1, 2, 3])
    assert plan.state["progress"]["variables"] == dict.fromkeys(STEPS, "done")


_PROGRAM = """
import sys, threading
from pathlib import Path
from typing import Any
from tests.acceptance.test_recorder import build

def wait(name):
    if name == "lint":
        print(name, flush=True)
        threading.Event().wait(60)

build(Path(sys.argv[1]), wait)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_that_is_told_to_stop_says_so_and_ends_as_it_would_have(
    tmp_path: Path, number: signal.Signals
) -> None:
    process = start_python(_PROGRAM, str(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline() == "lint\n"
    process.send_signal(number)
    process.communicate(timeout=60)

    assert process.returncode == -number
    with Holdfast(local(tmp_path)) as hf:
        plan = hf.resume("build-42")
        assert (plan.status, plan.resume_at, plan.retry_current) == (RunStatus.INTERRUPTED, 1, True)
        triggers = [entry.trigger for entry in hf.checkpoints("build-42").entries]
    assert triggers == ["before_step", "step_complete", "before_step", "interrupted"]


@pytest.fixture
def github(tmp_path: Path) -> Iterator[str]:
    with EmulatorServer(Emulator(EmulatorOptions(root=tmp_path / "github"))) as server:
        yield server.url


def test_a_run_goes_on_on_another_machine(tmp_path: Path, github: str) -> None:
    def machine(name: str) -> Holdfast:
        variables = {
            "HOLDFAST_REPO": "holdfast/checkpoints",
            "HOLDFAST_API_URL": github,
            "HOLDFAST_TOKEN": "token",
            "HOLDFAST_DATA_DIR": str(tmp_path / name),
            "HOLDFAST_WRITE_INTERVAL_S": "0",
            "HOLDFAST_WRITE_MODE": "commit",
        }
        return Holdfast(Settings.from_environment(variables))

    with suppress(OSError), machine("first") as hf, hf.run("job", style="tasks", drain_at_end=True) as run:
        run.state["image"] = "builder:3"
        with run.task("compile"):
            pass
        with run.task("link"):
            raise OSError("the machine is lost")

    with machine("second") as hf, hf.run("job", style="tasks", drain_at_end=True) as run:
        assert run.resume()["image"] == "builder:3"
        assert run.plan is not None
        assert (run.plan.source, run.plan.resume_at) == ("github", "link")
        assert run.remaining(["compile", "link"]) == ["link"]
        with run.task("link"):
            pass

    with machine("third") as hf:
        assert hf.resume("job").status == RunStatus.COMPLETED


@pytest.mark.parametrize("style", ["tasks", "steps", "phases", "agents"])
def test_a_failure_that_the_program_caught_does_not_complete_the_run(tmp_path: Path, style: Any) -> None:
    settings = Settings.from_environment({}, {"data_dir": tmp_path, "min_free_bytes": 0})
    with Holdfast(settings) as hf:
        with hf.run("r", style=style) as run:
            part = getattr(run, style.removesuffix("s"))
            with suppress(OSError), part("one"):
                raise OSError("disk full")
            with part("two"):
                pass
        failed = hf.resume("r")
        with hf.run("r", style=style) as run:
            run.resume()
            with getattr(run, style.removesuffix("s"))("one"):
                pass
        repeated = hf.resume("r")

    assert (failed.status, failed.resumable) == ("failed", True)
    assert (repeated.status, repeated.resumable) == ("completed", False)


def test_evaluations_and_memory_are_saved_through_the_library(tmp_path: Path) -> None:
    with Holdfast(local(tmp_path)) as hf:
        with hf.run("r", style="tasks", memory_limit_mb=1, autosave_s=None) as run:
            with run.task("write"):
                run.evaluation(0.4, scores={"facts": 0.3}, passed=False)
            with run.task("rewrite"):
                run.evaluation(0.9, scores={"facts": 0.8}, passed=True)
        hf.drain()
        state = hf.resume("r").state
        triggers = [entry.trigger for entry in hf.checkpoints("r").entries]

    assert [(each["iteration"], each["score"]) for each in state["evaluation_history"]] == [
        (1, 0.4),
        (2, 0.9),
    ]
    assert state["evaluation_history"][1]["scores"] == {"facts": 0.8}
    assert (triggers.count("evaluation_completed"), triggers.count("memory_pressure")) == (2, 1)
    assert state["memory_pressure"]["used_mb"] > state["memory_pressure"]["limit_mb"] == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("cost_limit", -1),
        ("cost_limit", "much"),
        ("cost_limit", float("nan")),
        ("memory_limit_mb", 0),
        ("memory_limit_mb", "1"),
        ("confidence_below", True),
        ("max_recoveries", -1),
        ("max_recoveries", 1.5),
        ("autosave_s", -1),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_before_anything_is_recorded(
    tmp_path: Path, option: str, value: Any
) -> None:
    with Holdfast(local(tmp_path)) as hf:
        with pytest.raises(InvalidCheckpoint, match=option):
            hf.run("r", style="agents", **{option: value})

        assert hf.runs() == []


def test_costs_and_scores_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    with Holdfast(local(tmp_path)) as hf, hf.run("r", style="tasks") as run:
        for wrong in ("much", None, float("inf"), True):
            with pytest.raises(InvalidCheckpoint, match="usd: Input should be a valid number"):
                run.cost(wrong)  # type: ignore[arg-type]
            with pytest.raises(InvalidCheckpoint, match="score: Input should be a valid number"):
                run.evaluation(wrong)  # type: ignore[arg-type]
            with pytest.raises(InvalidCheckpoint, match="facts: Input should be a valid number"):
                run.evaluation(1, scores={"facts": wrong})  # type: ignore[dict-item]
        assert run.cost(1.5) == 1.5


@pytest.mark.parametrize("wrong", [5, None, '{"a": 1}', [1]])
def test_what_is_no_checkpoint_is_refused_by_its_type(tmp_path: Path, wrong: Any) -> None:
    with Holdfast(local(tmp_path)) as hf, pytest.raises(InvalidCheckpoint, match="give a mapping, a model"):
        hf.submit(wrong)
