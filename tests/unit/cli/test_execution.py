"""What `holdfast exec` loads before it looks, where the embedded GitHub shows without a server."""

import os
import shutil
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.assembly import Assembly
from holdfast.cli.execution import read_at, record, shared_steps
from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from holdfast.errors import Unavailable
from holdfast.library import Holdfast
from holdfast.repository.reader import Reader
from holdfast.settings import Settings


@pytest.mark.slow
@pytest.mark.parametrize("is_known", [True, False], ids=["latest is here", "latest is not here"])
def test_github_is_started_before_a_look_that_needs_it_and_else_not_at_all(
    tmp_path: Path, is_known: bool
) -> None:
    settings = Settings.from_environment({"HOLDFAST_DATA_DIR": str(tmp_path)})
    with Holdfast(settings, assembly=(writer := Assembly(settings))) as holdfast:
        holdfast.save("r", {"n": 1})
        holdfast.drain()
        cache = writer.folder / "cache"
    if not is_known:
        shutil.rmtree(cache)

    with closing(Assembly(settings)) as home:
        seen = home.peek("r")
        assert seen
        reader = read_at(home, *seen)
        is_started_before = "embedded" in vars(home)
        loaded, _ = reader.load_reviewed("r")

        assert is_started_before is not is_known
        assert ("embedded" in vars(home)) is not is_known
        assert (loaded.source, loaded.envelope.sequence) == ("github", 1)
        listing = home.cache.folder("r")
        assert listing is None or listing.commit_sha != seen[0]


@pytest.mark.processes
def test_a_step_of_a_stored_run_is_looked_up_without_what_takes_long_to_load(tmp_path: Path) -> None:
    emulator = Emulator(EmulatorOptions(root=tmp_path / "github", repo="acme/state"))
    with EmulatorServer(emulator) as server, closing(emulator):
        variables = {"HOLDFAST_REPO": "acme/state", "HOLDFAST_API_URL": server.url, "HOLDFAST_TOKEN": "t"}
        own = {**variables, "HOLDFAST_WRITE_INTERVAL_S": "0"}
        with Holdfast(Settings.from_environment({**own, "HOLDFAST_DATA_DIR": str(tmp_path / "a")})) as there:
            there.save("r", {"progress": {"style": "steps"}})
            there.drain()
        outside = {name: os.environ[name] for name in os.environ if not name.startswith("HOLDFAST_")}
        ended = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "holdfast", "exec", "r", "--step", "a", "--", "true"],
            env={**outside, **own, "HOLDFAST_DATA_DIR": str(tmp_path / "b")},
            capture_output=True,
            text=True,
            check=True,
        )
        asked = [entry.method for entry in emulator.journal.entries][-3:]

    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in ended.stderr.splitlines()}
    assert not loaded & {"githubkit", "httpx", "pydantic", "tenacity", "rich", "pygit2"}
    assert asked  # it was looked up there, and nowhere else


def test_an_outage_that_goes_on_delays_no_command_for_longer_than_a_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_steps, "LOOK_S", 0.01)
    never = threading.Event()

    class Hanging:
        def load_reviewed(self, _run_id: str) -> Any:
            never.wait(60)

        def use_stored(self, _run_id: str, _use: object, *, is_hasty: bool) -> Any:
            never.wait(60)

    told: list[str] = []
    settings = Settings.from_environment({"HOLDFAST_DATA_DIR": str(tmp_path)})
    with Holdfast(settings, assembly=(assembly := Assembly(settings))) as holdfast:
        steps = shared_steps.SharedSteps(
            run_id="r",
            reader=lambda: cast(Reader, Hanging()),
            local_reader=lambda: assembly.reader,
            spool=assembly.spool,
            submit=holdfast.submit,
            folder=assembly.folder,
            clock=assembly.clock,
            warn=told.append,
        )
        steps.begin("a")
        steps._newest = None  # as the next command begins
        assert not steps.is_done("b")

    never.set()
    assert len(told) == 2
    assert all(sentence.endswith("GitHub did not answer within 0 s") for sentence in told)


def test_a_way_to_github_that_cannot_be_made_keeps_no_step_from_being_saved(tmp_path: Path) -> None:
    def fail() -> Reader:
        raise Unavailable("", "there is no way")

    told: list[str] = []
    settings = Settings.from_environment({"HOLDFAST_DATA_DIR": str(tmp_path)})
    with Holdfast(settings, assembly=(assembly := Assembly(settings))) as holdfast:
        steps = shared_steps.SharedSteps(
            run_id="r",
            reader=fail,
            local_reader=lambda: assembly.reader,
            spool=assembly.spool,
            submit=holdfast.submit,
            folder=assembly.folder,
            clock=assembly.clock,
            warn=told.append,
        )

        assert steps.begin("a").sequence_number == 1

    assert len(told) == 1


def test_a_step_that_cannot_be_begun_in_time_is_not_called_unsaved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "BEGIN_S", 0.0)
    monkeypatch.setattr(record, "SAVE_S", 0.0)
    told: list[str] = []
    answered = threading.Event()

    def open_steps(_stack: object) -> shared_steps.SharedSteps:
        answered.wait(10)
        raise Unavailable("checkpoints", "GitHub does not answer")

    step = record.StepRecord("build", open_steps, told.append)
    step.begin()
    step.close("the claim ends by itself")
    answered.set()

    assert told == ["step 'build' could not be begun within 0 s", "the claim ends by itself"]
