import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast import settings
from holdfast.assembly import Assembly
from holdfast.clock import SystemClock
from holdfast.drain.worker import Worker
from holdfast.emulator import parse_fault
from holdfast.errors import Stopped
from holdfast.github.calls import Answer, ReadHead
from holdfast.presentation import stopping
from holdfast.settings import Settings

from .conftest import GitHub, Holdfast

BARE = '{"answer": 42, "price": 1.10, "big": 123456789012345678901234567890}'
WHOLE = '{"run_id": "build-1", "trigger": "manual", "phase": "plan", "state": {"price": 1.10}}'
ID = "550e8400-e29b-41d4-a716-446655440000"


@pytest.fixture
def assembly(data_dir: Path) -> Iterator[Assembly]:
    assembly = Assembly(Settings.from_environment({"HOLDFAST_DATA_DIR": str(data_dir)}))
    yield assembly
    assembly.close()


def stored(holdfast: Holdfast, run_id: str) -> str:
    return holdfast("show", run_id, "--json").out


def test_bare_state_is_answered_with_a_receipt(holdfast: Holdfast, tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text(BARE)

    ended = holdfast("submit", file, "--run-id", "build-1", "--phase", "plan", "--json")

    assert ended.code == 0
    assert set(ended.document) == {
        "checkpoint_id",
        "run_id",
        "sequence_number",
        "status",
        "persistence",
        "file_path",
    }
    assert ended.document["run_id"] == "build-1"
    assert ended.document["status"] == "spooled"
    assert ended.document["file_path"] == "checkpoints/build-1/cp_001_manual.json"


def test_the_bytes_of_bare_state_are_kept(holdfast: Holdfast) -> None:
    holdfast("submit", "-", "--run-id", "r", stdin=f"\n {BARE}\n")

    assert f'"state_snapshot":{BARE}' in stored(holdfast, "r")


@pytest.mark.slow
@pytest.mark.parametrize(
    "state", ["null", "7", '"text"', "[1, 2.50]", '{"state": "running"}', '{"trigger": 1}']
)
def test_any_json_is_bare_state(holdfast: Holdfast, state: str) -> None:
    assert holdfast("submit", "-", "--run-id", "r", stdin=state).code == 0
    assert f'"state_snapshot":{state}' in stored(holdfast, "r")


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ('{"triger":"manual","state":{"n":1}}', "trigger: is missing: this has a state, like a checkpoint"),
        ('{"run_id":"r","state_snapshot":7}', "trigger: is missing: this has a state, like a checkpoint"),
        ('{"trigger":"manual","sate":{"n":1}}', "state: is missing: this has a trigger, like a checkpoint"),
    ],
)
def test_mistyped_checkpoint_is_not_taken_for_bare_state(
    holdfast: Holdfast, document: str, complaint: str
) -> None:
    ended = holdfast("submit", "-", "--run-id", "r", stdin=document)

    assert (ended.code, complaint in ended.err) == (2, True)
    assert 'hand it in as {"trigger": "manual", "state": …}' in ended.err


def test_every_option_reaches_the_checkpoint(holdfast: Holdfast) -> None:
    options = {
        "--run-id": "r",
        "--trigger": "step_failed",
        "--phase": "build",
        "--status": "failed",
        "--priority": "high",
        "--workflow": "ci.yml",
        "--checkpoint-id": ID,
    }

    holdfast("submit", "-", *[word for pair in options.items() for word in pair], stdin="{}")

    document = json.loads(stored(holdfast, "r"))
    assert {
        f"--{name.replace('_', '-')}": document[name]
        for name in document
        if f"--{name.replace('_', '-')}" in options
    } == options


def test_a_whole_checkpoint_needs_no_option(holdfast: Holdfast) -> None:
    assert holdfast("submit", "-", stdin=WHOLE).code == 0
    assert '"state_snapshot":{"price": 1.10}' in stored(holdfast, "build-1")


def test_options_fill_in_what_a_whole_checkpoint_lacks(holdfast: Holdfast) -> None:
    text = '{"trigger": "manual", "phase": null, "state": {"price": 1.10}, "mine": 2.0}'

    ended = holdfast(
        "submit", "-", "--run-id", "r", "--phase", "plan", "--trigger", "user_requested", stdin=text
    )

    assert ended.code == 0
    assert json.loads(stored(holdfast, "r"))["phase"] == "plan"
    assert '"mine":2.0' in stored(holdfast, "r")


@pytest.mark.parametrize(
    ("option", "value"),
    [("--run-id", "build-2"), ("--phase", "design"), ("--trigger", "error"), ("--trigger", "no-such")],
)
def test_an_option_that_contradicts_the_checkpoint_is_refused(
    holdfast: Holdfast, option: str, value: str
) -> None:
    ended = holdfast("submit", "-", option, value, stdin=WHOLE)

    assert ended.code == 2
    assert f"but '{value}' on the command line" in ended.err


def test_repeating_a_checkpoint_id_gives_the_same_receipt(holdfast: Holdfast) -> None:
    first = holdfast("submit", "-", "--run-id", "r", "--checkpoint-id", ID, "--json", stdin=BARE)
    again = holdfast("submit", "-", "--run-id", "r", "--checkpoint-id", ID.upper(), "--json", stdin=BARE)

    assert again.document == first.document


def test_a_checkpoint_id_with_other_content_exits_2(holdfast: Holdfast) -> None:
    holdfast("submit", "-", "--run-id", "r", "--checkpoint-id", ID, stdin=BARE)

    ended = holdfast("submit", "-", "--run-id", "r", "--checkpoint-id", ID, stdin="{}")

    assert ended.code == 2
    assert "accepted before with other content" in ended.err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "standard input is empty"),
        (b" \n", "standard input is empty"),
        (b"{", "found the end of the text"),
        (b'1,"run_id":"other"', "expected the end of the text"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": 1, "a": 2}', "occurs twice"),
        (b'"\xff"', "not UTF-8"),
    ],
)
def test_what_is_not_json_is_refused_with_the_place(holdfast: Holdfast, text: bytes, complaint: str) -> None:
    ended = holdfast("submit", "-", "--run-id", "r", stdin=text)

    assert ended.code == 2
    assert complaint in ended.err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ((), "name its run with --run-id"),
        (("--run-id", "../up"), "run_id: use 1 to 128 characters"),
        (("--run-id", "r", "--trigger", "whim"), "'whim' is not a trigger; use one of circuit_breaker"),
        (("--run-id", "r", "--status", "fine"), "status: "),
        (("--run-id", "r", "--checkpoint-id", "1"), "use a UUID"),
        (("--run-id", "r", "--timeout", "3"), "give --wait with it"),
        (("--run-id", "r", "--phase", "\udcff"), "not UTF-8 text"),
    ],
)
def test_options_that_make_no_checkpoint_are_refused(
    holdfast: Holdfast, options: tuple[str, ...], complaint: str
) -> None:
    ended = holdfast("submit", "-", *options, stdin="{}")

    assert ended.code == 2
    assert complaint in ended.err


def test_a_file_that_is_not_there_is_wrong_use(holdfast: Holdfast, tmp_path: Path) -> None:
    ended = holdfast("submit", tmp_path / "no.json", "--run-id", "r")

    assert ended.code == 2
    assert "no.json cannot be read: No such file or directory" in ended.err


def test_a_folder_is_wrong_use(holdfast: Holdfast, tmp_path: Path) -> None:
    ended = holdfast("submit", tmp_path, "--run-id", "r")

    assert ended.code == 2
    assert "Is a directory" in ended.err


def test_a_name_that_no_file_can_have_is_wrong_use(holdfast: Holdfast) -> None:
    assert holdfast("submit", "a\0b", "--run-id", "r").code == 2


def test_more_than_the_limit_is_refused_with_the_limit(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "MOST_BYTES", 2000)

    ended = holdfast("submit", "-", "--run-id", "r", stdin=b"[" + b"1," * 1000 + b"1]")

    assert ended.code == 2
    assert "standard input has more than 2,000 bytes" in ended.err


def test_without_json_the_receipt_is_for_people(holdfast: Holdfast) -> None:
    out = holdfast("submit", "-", "--run-id", "r", stdin="{}").out

    assert "status           spooled\n" in out
    assert "commit_sha" not in out


def test_a_folder_that_cannot_be_written_is_a_failure(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    ended = holdfast("submit", "-", "--run-id", "r", "--data-dir", tmp_path / "file" / "below", stdin="{}")

    assert ended.code == 1
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("command", [("submit", "-", "--run-id", "r"), ("drain",), ("serve", "--port", "0")])
def test_a_database_that_never_answered_is_told_once_with_the_setting_that_leads_there(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", f"postgresql://me:canary@/work?host={tmp_path}")

    ended = holdfast(*command, "--repo", "acme/state", stdin="{}")

    assert ended.code == 1
    (line,) = ended.err.splitlines()
    assert line.endswith("see that it runs, and that HOLDFAST_DATABASE_URL leads to it")
    assert "canary" not in line


def test_wait_drains_until_the_checkpoint_is_verified(holdfast: Holdfast) -> None:
    ended = holdfast("submit", "-", "--run-id", "r", "--wait", "--json", stdin=BARE)

    assert ended.code == 0
    assert ended.document["status"] == "verified"
    assert len(ended.document["commit_sha"]) == len(ended.document["blob_sha"]) == 40


def test_wait_without_time_leaves_the_checkpoint_spooled(holdfast: Holdfast) -> None:
    ended = holdfast("submit", "-", "--run-id", "r", "--wait", "--timeout", "0", "--json", stdin=BARE)

    assert ended.code == 75
    assert ended.document["status"] == "spooled"
    assert "safe in the spool but not verified yet" in ended.err


def test_wait_says_what_stands_in_the_way(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", "a-wrong-token")

    ended = holdfast("submit", "-", "--run-id", "r", "--wait", "--timeout", "5", *github.options, stdin=BARE)

    assert ended.code == 75
    assert "HOLDFAST_TOKEN" in ended.err
    assert "a-wrong-token" not in ended.err


def test_wait_for_a_checkpoint_that_github_refuses_is_a_failure(holdfast: Holdfast, github: GitHub) -> None:
    github.emulator.switch(secret_marker="hunter2")
    text = '{"password": "hunter2"}'

    ended = holdfast("submit", "-", "--run-id", "r", "--wait", "--json", *github.options, stdin=text)

    assert ended.code == 1
    assert ended.document["status"] == "refused"
    assert "the checkpoint was refused: " in ended.err


def test_wait_lets_the_process_that_drains_do_it(
    holdfast: Holdfast, assembly: Assembly, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another one drains, the receipt is followed; once that one ends, we drain."""
    other = ExitStack()
    other.enter_context(assembly.spool.drainer())
    naps: list[float] = []

    def sleep(_: SystemClock, seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            other.close()

    monkeypatch.setattr(SystemClock, "sleep", sleep)

    ended = holdfast("submit", "-", "--run-id", "r", "--wait", "--json", stdin=BARE)

    assert ended.code == 0
    assert ended.document["status"] == "verified"
    assert len(naps) >= 3


@pytest.mark.slow
def test_wait_does_not_drain_on_for_others(holdfast: Holdfast, github: GitHub) -> None:
    """A critical checkpoint goes first; once it is verified, the wait is over."""
    for number in range(3):
        holdfast("submit", "-", "--run-id", f"other-{number}", *github.options, stdin=BARE)

    ended = holdfast(
        "submit", "-", "--run-id", "r", "--trigger", "error", "--wait", "--json", *github.options, stdin=BARE
    )

    assert ended.code == 0
    assert holdfast("status", "--json", *github.options).document["spool"]["depth"] == 3


def test_an_outage_ends_in_75_with_the_reason(holdfast: Holdfast, github: GitHub) -> None:
    github.emulator.faults.add(parse_fault("put:503"))

    ended = holdfast(
        "submit", "-", "--run-id", "r", "--wait", "--timeout", "0.01", *github.options, stdin=BARE
    )

    assert ended.code == 75


def test_a_wait_that_a_signal_ends_leaves_the_checkpoint_spooled(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: Worker, **_options: object) -> None:
        raise Stopped("asked to stop")

    monkeypatch.setattr(Worker, "drain", stop)

    ended = holdfast("submit", "-", "--run-id", "r", "--wait", "--json", stdin=BARE)

    assert ended.code == 75
    assert ended.document["status"] == "spooled"


def announce(assembly: Assembly, remaining: int, resource: str = "core") -> None:
    """Let GitHub have said that so many calls are left for the next 59 minutes."""
    now = assembly.clock.now()
    headers = {
        "x-ratelimit-limit": "5000",
        "x-ratelimit-remaining": str(remaining),
        "x-ratelimit-reset": str(int(now) + 3540),
        "x-ratelimit-resource": resource,
    }
    assembly.rate_limiter.observe(Answer(ReadHead("main"), 200, headers, now))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("remaining", "mode", "trigger", "persistence"),
    [
        (4, "contents", "circuit_breaker", "delayed"),
        (1, "commit", "circuit_breaker", "delayed"),
        (51, "contents", "circuit_breaker", "normal"),
        (51, "contents", "manual", "delayed"),
        (4000, "contents", "manual", "normal"),
    ],
)
def test_a_limit_that_leaves_no_room_for_a_checkpoint_delays_it(
    holdfast: Holdfast,
    assembly: Assembly,
    monkeypatch: pytest.MonkeyPatch,
    remaining: int,
    mode: str,
    trigger: str,
    persistence: str,
) -> None:
    monkeypatch.setenv("HOLDFAST_WRITE_MODE", mode)
    announce(assembly, remaining, resource="graphql" if mode == "commit" else "core")

    ended = holdfast("submit", "-", "--run-id", "r", "--trigger", trigger, "--json", stdin=BARE)

    assert ended.document["persistence"] == persistence
    assert ("persistence_delayed" in ended.err) == (persistence == "delayed")


def test_a_wait_under_a_limit_says_why_and_when(holdfast: Holdfast, assembly: Assembly) -> None:
    announce(assembly, 51)

    ended = holdfast("submit", "-", "--run-id", "r", "--wait", "--timeout", "0.01", stdin=BARE)

    assert ended.code == 75
    assert (
        "calls are left, but for those kept for critical checkpoints; the next try is in 59 min" in ended.err
    )


def test_a_wait_that_hangs_ends_in_75_with_the_receipt(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[int] = []
    is_over = threading.Event()

    def end(code: int) -> None:
        ends.append(code)
        is_over.set()

    def hang(_: Worker, **_options: object) -> None:
        signal.raise_signal(signal.SIGTERM)
        is_over.wait(60)
        raise Stopped("the test ends")

    monkeypatch.setattr(stopping, "GRACE_S", 0.0)
    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(Worker, "drain", hang)

    ended = holdfast("submit", "-", "--run-id", "r", "--wait", "--json", stdin=BARE)

    assert ends == [75]
    told_at_the_end, _ = ended.out.splitlines()
    assert json.loads(told_at_the_end)["status"] == "spooled"
    assert "safe in the spool" in ended.err


def test_events_name_neither_the_token_nor_the_payload(holdfast: Holdfast, github: GitHub) -> None:
    words = ("submit", "-", "--run-id", "r", "--wait", "--log-level", "debug", "--log-format", "json")

    ended = holdfast(*words, "--json", *github.options, stdin='{"payload": "canary"}')

    lines = [json.loads(line) for line in ended.err.splitlines()]
    events = [line["event"] for line in lines]
    assert "checkpoints_verified" in events
    saved = lines[events.index("checkpoint_saved")]
    assert (saved["run_id"], saved["sequence_number"], saved["trigger"]) == ("r", 1, "manual")
    assert ended.document["status"] == "verified"
    assert "canary" not in ended.err
    assert "the-good-token" not in ended.err
