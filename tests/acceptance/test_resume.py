"""A run dies; it is resumed on the same machine, on another one, and with GitHub gone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.assembly import Assembly
from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from holdfast.errors import Unavailable
from holdfast.github.calls import Call, ResultT
from holdfast.library import Holdfast
from holdfast.settings import Settings
from tests.fakes.clock import VirtualClock
from tests.fakes.spooling import start_python

FIXTURES = Path(__file__).parents[2] / "fixtures/checkpoints"

_WORKER = """
import os, signal, sys
from pathlib import Path
from holdfast.library import Holdfast
from holdfast.settings import Settings

folder, log, total, dies_after = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
settings = Settings.from_environment({"HOLDFAST_DATA_DIR": str(folder), "HOLDFAST_MIN_FREE_BYTES": "0"})
saves = 0

def save(holdfast, kind, index, done):
    global saves
    state = {"kind": kind, "step_index": index}
    progress = {"style": "steps", "state": state, "completed_steps": done, "total_steps": total}
    holdfast.save("r", {"progress": progress}, trigger="before_step")
    saves += 1
    if saves == dies_after:
        os.kill(os.getpid(), signal.SIGKILL)

with Holdfast(settings) as holdfast:
    try:
        plan = holdfast.resume("r")
        steps, done = plan.remaining, [{"step_index": index} for index in plan.completed]
    except Exception as error:
        assert type(error).__name__ == "UnknownRun", error
        steps, done = range(total), []
    for index in steps:
        save(holdfast, "before_step", index, done)
        with log.open("a") as file:
            file.write(f"{index}\\n")
        done = [*done, {"step_index": index}]
        save(holdfast, "completed", index, done)
"""


class AwayGateway:
    """A GitHub that does not answer."""

    def perform(self, call: Call[ResultT]) -> ResultT:
        raise Unavailable("x", f"no answer to {call}")


@pytest.mark.parametrize("dies_after", [1, 4, 5])
def test_killed_run_goes_on_where_it_was(tmp_path: Path, dies_after: int) -> None:
    log = tmp_path / "log"
    for limit in (dies_after, 0):
        process = start_python(_WORKER, str(tmp_path / "data"), str(log), "4", str(limit))
        output, _ = process.communicate(timeout=60)
        assert process.returncode == (-9 if limit else 0), output

    # Every step ran once; the one that was under way when the process died may not have begun.
    assert log.read_text().split() == ["0", "1", "2", "3"]


class GitHub:
    """An emulator on loopback, and settings that reach it."""

    def __init__(self, root: Path) -> None:
        self.emulator = Emulator(EmulatorOptions(root=root))
        self.server = EmulatorServer(self.emulator)

    def settings(self, folder: Path) -> Settings:
        return Settings.from_environment(
            {
                "HOLDFAST_REPO": "holdfast/checkpoints",
                "HOLDFAST_API_URL": self.server.url,
                "HOLDFAST_TOKEN": "token",
                "HOLDFAST_DATA_DIR": str(folder),
                "HOLDFAST_WRITE_INTERVAL_S": "0",
                "HOLDFAST_CONTENT_PER_MINUTE": "0",
                "HOLDFAST_CONTENT_PER_HOUR": "0",
                "HOLDFAST_WRITE_MODE": "commit",
            }
        )


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHub]:
    github = GitHub(tmp_path_factory.mktemp("github"))
    with github.server:
        yield github
    github.emulator.close()


def samples() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(FIXTURES.rglob("*.json")):
        name = f"{path.parent.name}-{path.stem}"
        document = json.loads(path.read_bytes())
        document.pop("sequence_number")
        yield name, {**document, "run_id": name}


def test_every_sample_is_resumed_alike_from_the_spool_from_github_and_without_it(
    github: GitHub, tmp_path: Path
) -> None:
    with Holdfast(github.settings(tmp_path / "writer")) as writer:
        for _, checkpoint in samples():
            writer.submit(checkpoint)
        spooled = {name: writer.resume(name) for name, _ in samples()}
        assert writer.drain().left == 0
    with Holdfast(github.settings(tmp_path / "stranger")) as stranger:
        stored = {name: stranger.resume(name) for name, _ in samples()}
        assert stranger.runs(resumable=True)
    settings = github.settings(tmp_path / "writer")
    assembly = Assembly(settings, clock=(clock := VirtualClock()), gateway=AwayGateway())
    with Holdfast(settings, assembly=assembly) as offline:
        cached = {name: offline.resume(name) for name, _ in samples()}
    assert clock.slept == []  # who has an answer here does not wait for GitHub to come back

    for name, checkpoint in samples():
        for plan, source in ((spooled[name], "spool"), (stored[name], "github"), (cached[name], "cache")):
            assert plan.source == source
            assert plan.state == checkpoint["state_snapshot"]
            assert plan.resume_at == spooled[name].resume_at
            assert plan.remaining == spooled[name].remaining
