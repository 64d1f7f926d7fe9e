import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.assembly import Assembly
from holdfast.cli.drain import drain
from holdfast.emulator import parse_fault
from holdfast.errors import Stopped
from holdfast.presentation.exits import CommandFailed
from holdfast.presentation.render import Screen
from holdfast.presentation.session import Session, open_with
from holdfast.settings import Settings

from .conftest import GitHub, Holdfast

A_MOMENT_S = 0.1


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

        def stop(*, timeout_s: float) -> None:
            raise Stopped("asked to stop")

        monkeypatch.setattr(session.holdfast, "drain", stop)
        result = drain(session, Screen(is_json=True))

    assert (result.verified, result.left, result.reason) == (0, 1, "asked to stop")


IMPATIENT = (
    "import sys; from holdfast.cli import main; from holdfast.presentation import stopping;"
    "stopping.GRACE_S = 0.2; sys.exit(main())"
)


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


def wait_for_a_write(process: "subprocess.Popen[bytes]", github: GitHub) -> None:
    while not github_writes(github):
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(A_MOMENT_S)


def github_writes(github: GitHub) -> list[str]:
    return [entry.path for entry in github.emulator.journal.entries if entry.method == "PUT"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_drain_after_the_write_under_way(
    holdfast: Holdfast, github: GitHub, number: signal.Signals
) -> None:
    runs = [f"run-{letter}" for letter in "abcd"]
    submit(holdfast, *runs, options=github.options)
    github.emulator.faults.add(parse_fault("put:delay=0.15"))

    with drain_process(github) as process:
        wait_for_a_write(process, github)
        process.send_signal(number)
        out, err = process.communicate(timeout=10)

    result = json.loads(out)
    assert (process.returncode, err) == (0, b"")
    assert result["stopped"] is True
    assert result["verified"] >= 1
    assert result["left"] == len(runs) - result["verified"] > 0
    github.emulator.faults.clear()
    assert holdfast("drain", "--json", *github.options).document["verified"] == result["left"]
    listed = holdfast("runs", "--json", *github.options).document["runs"]
    assert {run["run_id"]: run["checkpoint_count"] for run in listed} == dict.fromkeys(runs, 1)


def test_a_call_that_hangs_does_not_keep_a_stopped_drain_from_ending(
    holdfast: Holdfast, github: GitHub
) -> None:
    submit(holdfast, "a", "b", options=github.options)
    github.emulator.faults.add(parse_fault("put:delay=60"))

    with drain_process(github, program=("-c", IMPATIENT)) as process:
        wait_for_a_write(process, github)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)

    result = json.loads(out)
    assert process.returncode == 0
    assert (result["verified"], result["left"], result["stopped"]) == (0, 2, True)
    assert "GitHub did not answer in time" in result["reason"]
    github.emulator.faults.clear()
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


def test_a_second_signal_ends_the_process_at_once(holdfast: Holdfast, github: GitHub) -> None:
    submit(holdfast, "a", options=github.options)
    github.emulator.faults.add(parse_fault("put:delay=2"))

    sent = 0
    with drain_process(github) as process:
        wait_for_a_write(process, github)
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
            sent += 1
            try:
                process.wait(A_MOMENT_S)
            except subprocess.TimeoutExpired:
                continue

    assert process.returncode == -signal.SIGTERM
    assert sent == 2
