import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast.assembly import Assembly
from holdfast.cli.drain import drain
from holdfast.drain.worker import DrainResult
from holdfast.emulator import Call, Rule
from holdfast.errors import SpoolFull, Stopped
from holdfast.format.receipt import QueueItem
from holdfast.presentation.exits import CommandFailed
from holdfast.presentation.render import Screen
from holdfast.presentation.session import Session, open_with
from holdfast.queue.rows import ItemRow
from holdfast.queue.tables import SELECT_ITEM
from holdfast.settings import Settings

from .conftest import GitHub, Holdfast

# Only there to end a test that hangs.
LONGEST_S = 60


def submit(holdfast: Holdfast, *runs: str, options: tuple[str, ...] = ()) -> list[str]:
    ids = []
    for run_id in runs:
        ended = holdfast("submit", "-", "--run-id", run_id, "--json", *options, stdin='{"n": 1}')
        ids.append(ended.document["checkpoint_id"])
    return ids


@contextmanager
def open_session(data_dir: Path) -> Iterator[Session]:
    with open_with(Settings.from_environment({"HOLDFAST_DATA_DIR": str(data_dir)})) as session:
        yield session


@pytest.mark.slow
def test_what_is_spooled_is_verified(holdfast: Holdfast) -> None:
    submit(holdfast, "a", "b", "b")

    ended = holdfast("drain", "--json")

    assert ended.code == 0
    assert ended.document["calls"] > 0
    assert {**ended.document, "calls": 0} == {
        "verified": 3,
        "left": 0,
        "set_aside": 0,
        "reason": None,
        "retry_in_s": 0.0,
        "stopped": False,
        "calls": 0,
    }


@pytest.mark.slow
def test_the_result_is_told_in_a_line(holdfast: Holdfast) -> None:
    submit(holdfast, "a")

    assert holdfast("drain").out == "1 checkpoint verified, 0 left in the spool.\n"


def test_with_nothing_to_drain_github_is_not_even_started(holdfast: Holdfast, data_dir: Path) -> None:
    ended = holdfast("drain")

    assert (ended.code, ended.out) == (0, "0 checkpoints verified, 0 left in the spool.\n")
    assert not (data_dir / "github").exists()


def test_what_is_left_exits_75_with_the_reason(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(holdfast, "a", options=github.options)
    monkeypatch.setenv("HOLDFAST_TOKEN", "a-wrong-token")

    ended = holdfast("drain", "--json", *github.options)

    assert ended.code == 75
    assert ended.document["left"] == 1
    assert "HOLDFAST_TOKEN" in ended.document["reason"]
    assert f"{ended.document['reason'].rstrip('.')}; the next try is in 60 s" in ended.err
    assert "a-wrong-token" not in ended.err + ended.out


@pytest.mark.slow
def test_what_github_will_not_take_is_mentioned(holdfast: Holdfast, github: GitHub) -> None:
    submit(holdfast, "a", options=github.options)
    holdfast("submit", "-", "--run-id", "b", *github.options, stdin='{"password": "hunter2"}')
    github.emulator.switch(secret_marker="hunter2")

    ended = holdfast("drain", *github.options)

    assert ended.code == 0
    assert "1 checkpoint verified, 0 left" in ended.out
    assert "1 checkpoint set aside, which GitHub will not take; see holdfast status" in ended.err


def test_only_one_drains_and_the_other_is_told_who(holdfast: Holdfast, data_dir: Path) -> None:
    submit(holdfast, "a")
    assembly = Assembly(Settings.from_environment({"HOLDFAST_DATA_DIR": str(data_dir)}))
    with assembly.spool.drainer():
        ended = holdfast("drain")
    assembly.close()

    assert ended.code == 75
    assert f"process {os.getpid()} is draining this spool" in ended.err


def test_a_stop_in_the_middle_of_a_write_leaves_it_spooled(
    holdfast: Holdfast, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(holdfast, "a")

    with open_session(data_dir) as session:

        def stop(*, timeout_s: float, tidies: bool) -> None:
            raise Stopped("asked to stop")

        monkeypatch.setattr(session.holdfast, "drain", stop)
        result = drain(session, Screen(is_json=True))

    assert (result.verified, result.left, result.reason) == (0, 1, "asked to stop")


def test_spool_that_cannot_be_listed_before_it_is_drained_is_drained(
    holdfast: Holdfast, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(holdfast, "a")

    def refuse(now: float | None = None) -> list[QueueItem]:
        raise SpoolFull("the database has no room for what waits on this disk")

    with open_session(data_dir) as session:
        monkeypatch.setattr(session.assembly.spool, "pending", refuse)
        monkeypatch.setattr(session.holdfast, "drain", lambda **_: DrainResult(1, 0))
        result = drain(session, Screen(is_json=True))

    assert (result.verified, result.left) == (1, 0)


PATCHED = (
    "import sys; from holdfast.cli import main; from holdfast.presentation import stopping;"
    "{}; sys.exit(main())"
)
IMPATIENT = PATCHED.format("stopping.GRACE_S = 0.0")
# On a terminal, the first signal brings the cursor back: a byte by which it shows that it was taken.
TELLING = PATCHED.format("stopping._is_watched = lambda: True")


@contextmanager
def drain_process(
    github: GitHub, *, program: tuple[str, ...] = ("-m", "holdfast")
) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, *program, "drain", "--json", *github.options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


class HeldWrite:
    """The first write of the test: it reaches GitHub, and is not answered before it is let go."""

    def __init__(self) -> None:
        self._is_asked = threading.Event()
        self._may_go_on = threading.Event()

    def hold(self, _request: object) -> None:
        self._is_asked.set()
        self._may_go_on.wait(LONGEST_S)

    def wait_for(self) -> None:
        assert self._is_asked.wait(LONGEST_S)

    def let_go(self) -> None:
        self._may_go_on.set()


@pytest.fixture
def held_write(github: GitHub) -> Iterator[HeldWrite]:
    held = HeldWrite()
    github.emulator.faults.add(Rule(Call(before=held.hold), target="put", times=1))
    yield held
    held.let_go()


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_drain_after_the_write_under_way(
    holdfast: Holdfast, github: GitHub, held_write: HeldWrite, number: signal.Signals
) -> None:
    runs = [f"run-{letter}" for letter in "abcd"]
    submit(holdfast, *runs, options=github.options)

    with drain_process(github) as process:
        held_write.wait_for()
        process.send_signal(number)
        held_write.let_go()
        out, err = process.communicate(timeout=LONGEST_S)

    result = json.loads(out)
    assert process.returncode == 75
    assert b"left in the spool: " in err
    assert result["stopped"] is True
    assert result["verified"] >= 1
    assert result["left"] == len(runs) - result["verified"] > 0
    assert holdfast("drain", "--json", *github.options).document["verified"] == result["left"]
    listed = holdfast("runs", "--json", *github.options).document["runs"]
    assert {run["run_id"]: run["checkpoint_count"] for run in listed} == dict.fromkeys(runs, 1)


@pytest.mark.processes
def test_a_call_that_hangs_does_not_keep_a_stopped_drain_from_ending(
    holdfast: Holdfast, github: GitHub, held_write: HeldWrite
) -> None:
    submit(holdfast, "a", "b", options=github.options)

    with drain_process(github, program=("-c", IMPATIENT)) as process:
        held_write.wait_for()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=LONGEST_S)

    result = json.loads(out)
    assert process.returncode == 75
    assert (result["verified"], result["left"], result["stopped"]) == (0, 2, True)
    assert "GitHub did not answer in time" in result["reason"]
    held_write.let_go()
    assert holdfast("drain", "--json", *github.options).document["verified"] == 2


def test_signals_are_taken_before_the_slow_part_is_loaded(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    from holdfast.cli import drain as command

    loaded: list[bool] = []

    def look(*_: object) -> None:
        loaded.append("holdfast.drain.worker" in sys.modules)
        raise CommandFailed("seen")

    monkeypatch.setattr(command, "stop_on_signals", look)
    for name in ("holdfast.drain.worker", "holdfast.library"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    assert holdfast("drain").code == 1
    assert loaded == [False]


@pytest.mark.processes
def test_a_second_signal_ends_the_process_at_once(
    holdfast: Holdfast, github: GitHub, held_write: HeldWrite
) -> None:
    submit(holdfast, "a", options=github.options)

    with drain_process(github, program=("-u", "-c", TELLING)) as process:
        held_write.wait_for()
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        assert process.stderr.read(1) == b"\x1b"
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)

        assert process.wait(LONGEST_S) == -signal.SIGTERM


def put_as_a_newer_version(data_dir: Path, checkpoint_id: str) -> None:
    """Give a checkpoint in the spool a trigger that this version does not know, and the seal for that."""
    (path,) = data_dir.glob("**/queue.db")
    with closing(sqlite3.connect(path)) as database, database:
        found = database.execute(SELECT_ITEM, (checkpoint_id,)).fetchone()
        row = ItemRow._make(found)._replace(trigger="from_the_future").sealed()
        database.execute(
            "update item set trigger = ?, seal = ? where arrival = ?", (row.trigger, row.seal, row.arrival)
        )


@pytest.mark.slow
def test_run_with_a_checkpoint_of_a_newer_format_waits_and_the_others_go_on(
    holdfast: Holdfast, data_dir: Path
) -> None:
    _, newer, _, _ = submit(holdfast, "a", "newer", "newer", "b")
    put_as_a_newer_version(data_dir, newer)

    ended = holdfast("drain", "--json")

    assert (ended.code, ended.document["verified"], ended.document["left"]) == (75, 2, 2)
    assert "newer format" in ended.document["reason"]
    assert "of run newer:" in ended.document["reason"]
    status = holdfast("status", "--json").document
    assert (status["spool"]["depth"], status["last_error"]) == (2, ended.document["reason"])
    assert "of run newer:" in holdfast("status").out
    assert holdfast("cleanup", "--json").code == 0
    assert holdfast("resume", "a").code == 0
