"""`holdfast exec` as a shell script uses it: every command is a process of its own."""

import fcntl
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from holdfast.security.jose import make_recipient_key, make_shared_key, make_signing_key, public_half
from tests.fakes.commands import run_command
from tests.scenarios.security.test_forged import Intruder, restamp

PYTHON = sys.executable
BYTES = bytes(range(256)) * 300


class Machine:
    """A data folder, and the environment of a script on it."""

    def __init__(self, folder: Path, **variables: str) -> None:
        outside = {
            name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "GITHUB_"))
        }
        self.environment = {**outside, "HOLDFAST_DATA_DIR": str(folder), **variables}

    def start(self, *words: str, **options: Any) -> "subprocess.Popen[bytes]":
        piped = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = [PYTHON, "-m", "holdfast", *words]
        return subprocess.Popen(command, **{"env": self.environment, **piped, **options})

    def run(self, *words: str, stdin: bytes = b"", **variables: str) -> "subprocess.CompletedProcess[bytes]":
        return run_command(*words, environment={**self.environment, **variables}, stdin=stdin)

    def exec(self, step: str, *command: str, **variables: str) -> "subprocess.CompletedProcess[bytes]":
        return self.run("exec", "nightly", "--step", step, "--", *command, stdin=b"", **variables)

    def plan(self) -> Any:
        ended = self.run("resume", "nightly", "--json")
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    def triggers(self) -> list[str]:
        listed = json.loads(self.run("list", "nightly", "--json").stdout)
        return [each["trigger"] for each in listed["checkpoints"]]

    def done(self) -> dict[str, Any]:
        """What is completed, by name, with its output."""
        records = self.plan()["state"]["progress"]["completed_steps"]
        return {record["command"]: record["output"] for record in records}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "data")


@pytest.fixture
def github(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A GitHub that several machines share, as variables."""
    emulator = Emulator(EmulatorOptions(root=tmp_path / "github", repo="acme/state", token="good"))
    with EmulatorServer(emulator) as server:
        yield {
            "HOLDFAST_REPO": "acme/state",
            "HOLDFAST_API_URL": server.url,
            "HOLDFAST_TOKEN": "good",
            "HOLDFAST_WRITE_INTERVAL_S": "0",
        }
    emulator.close()


def python(program: str) -> Sequence[str]:
    return (PYTHON, "-c", program)


def test_a_step_whose_name_is_no_text_is_refused_before_anything_runs(machine: Machine) -> None:
    ended = machine.run("exec", "nightly", "--step", os.fsdecode(b"\xff"), "--", "echo", "ran")

    assert (ended.returncode, ended.stdout) == (2, b"")
    assert ended.stderr == b"holdfast: --step: this name is not UTF-8; use one that is\n"


def test_a_step_is_saved_before_and_after_and_a_completed_one_is_skipped(
    machine: Machine, tmp_path: Path
) -> None:
    count = f"echo ran >> {tmp_path / 'count'}; echo built"

    first = machine.exec("build", "sh", "-c", count)
    again = machine.exec("build", "sh", "-c", count)

    assert (first.returncode, first.stdout, first.stderr) == (0, b"built\n", b"")
    assert (again.returncode, again.stdout) == (0, b"")
    assert again.stderr == b"holdfast: step 'build' of nightly is completed: skipped\n"
    assert (tmp_path / "count").read_text() == "ran\n"
    assert machine.triggers() == ["before_step", "step_complete"]
    assert machine.done() == {"build": "built\n"}


def test_output_and_input_pass_through_unchanged_and_apart(machine: Machine) -> None:
    program = """
import sys
got = sys.stdin.buffer.read()
sys.stdout.buffer.write(got)
sys.stderr.buffer.write(got[::-1])
"""

    ended = machine.run("exec", "nightly", "--step", "copy", "--", *python(program), stdin=BYTES)

    assert ended.returncode == 0
    assert ended.stdout == BYTES
    assert ended.stderr == BYTES[::-1]


def test_the_last_4_kb_of_the_output_are_kept(machine: Machine) -> None:
    machine.exec("talk", *python("print('é' * 5000 + 'end')"))

    output = machine.done()["talk"]

    assert output == "é" * 2046 + "end\n"
    assert len(output.encode()) == 4096


def test_outputs_that_go_to_one_place_keep_their_order(machine: Machine) -> None:
    program = "import os\nfor i in range(200): os.write(1 + i % 2, b'%d\\n' % i)"

    process = machine.start(
        "exec", "nightly", "--step", "talk", "--", *python(program), stderr=subprocess.STDOUT
    )
    out, _ = process.communicate(timeout=120)

    assert out == b"".join(b"%d\n" % i for i in range(200))


def test_a_failure_is_saved_with_its_output_and_its_exit_code_is_ours(machine: Machine) -> None:
    ended = machine.exec("build", "sh", "-c", "echo no such header; exit 7")

    plan = machine.plan()
    assert ended.returncode == 7
    assert machine.triggers() == ["before_step", "step_failed"]
    assert (plan["status"], plan["resume_at"], plan["retry_current"]) == ("failed", 0, True)
    assert plan["state"]["progress"]["state"]["error"] == "exit code 7"
    assert plan["state"]["progress"]["state"]["output"] == "no such header\n"
    assert plan["state"]["errors_encountered"][0]["place"] == "build"
    assert machine.exec("build", "true").returncode == 0
    assert machine.done() == {"build": ""}


@pytest.mark.parametrize(("number", "trigger"), [(9, "step_failed"), (15, "interrupted")])
def test_a_command_that_a_signal_ends_gives_128_and_its_number(
    machine: Machine, number: int, trigger: str
) -> None:
    ended = machine.exec("build", "sh", "-c", f"kill -{number} $$")

    assert ended.returncode == 128 + number
    assert machine.triggers() == ["before_step", trigger]


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
def test_a_signal_is_passed_on_and_saved_and_the_step_repeated(machine: Machine, name: str) -> None:
    program = f"""
import os, signal, sys, time
def leave(number, frame):
    os.write(1, b"told to stop\\n")  # print may be just flushing, and must not be entered twice
    sys.exit(0)
signal.signal(signal.SIG{name}, leave)
print("ready", flush=True)
while True:
    time.sleep(0.1)  # a pause without end might begin just after the signal
"""
    with machine.start("exec", "nightly", "--step", "build", "--", *python(program)) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.Signals[f"SIG{name}"])
        rest = process.stdout.read()
        code = process.wait(timeout=120)

    assert (rest, code) == (b"told to stop\n", 0)
    assert machine.triggers() == ["before_step", "interrupted"]
    plan = machine.plan()
    assert (plan["status"], plan["resume_at"], plan["retry_current"]) == ("interrupted", 0, True)
    assert machine.exec("build", "echo", "again").stdout == b"again\n"


@pytest.mark.parametrize(
    ("command", "code"), [(["no-such-command"], 127), (["/"], 126)], ids=["missing", "not executable"]
)
def test_a_command_that_cannot_be_started_fails_like_in_a_shell(
    machine: Machine, command: list[str], code: int
) -> None:
    ended = machine.exec("build", *command)

    assert ended.returncode == code
    assert f"cannot run '{command[0]}'".encode() in ended.stderr
    assert machine.triggers() == ["before_step", "step_failed"]


def test_the_run_may_come_from_the_environment(machine: Machine) -> None:
    words = ("exec", "--step", "build", "--", "echo", "--", "-x")

    ended = machine.run(*words, HOLDFAST_RUN_ID="nightly")

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"-- -x\n", b"")
    assert machine.done() == {"build": "-- -x\n"}


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("exec", "--step", "build", "--", "echo"), b"HOLDFAST_RUN_ID"),
        (("exec", "nightly", "--step", "build"), b"after --"),
        (("exec", "nightly", "--", "echo"), b"--step"),
        (("exec", "night/ly", "--step", "build", "--", "echo"), b"names no run"),
    ],
)
def test_wrong_use_runs_nothing(machine: Machine, words: Sequence[str], advice: bytes) -> None:
    ended = machine.run(*words)

    assert ended.returncode == 2
    assert advice in ended.stderr
    assert ended.stdout == b""


@pytest.mark.parametrize(
    "variables",
    [
        {"HOLDFAST_WRITE_MODE": "nonsense"},
        {"HOLDFAST_DATA_DIR": "/dev/null/data"},
        {"HOLDFAST_MIN_FREE_BYTES": str(2**62)},
    ],
    ids=["wrong setting", "no folder", "full disk"],
)
def test_what_cannot_be_saved_stops_no_command(machine: Machine, variables: dict[str, str]) -> None:
    ended = machine.exec("build", "sh", "-c", "echo ran; exit 3", **variables)

    assert (ended.returncode, ended.stdout) == (3, b"ran\n")
    assert ended.stderr.startswith(b"holdfast: step 'build' is not saved: ")


def test_a_full_spool_stops_no_command(machine: Machine) -> None:
    machine.exec("lint", "true")

    ended = machine.exec("build", "echo", "ran", HOLDFAST_MAX_SPOOL_ITEMS="2")

    assert (ended.returncode, ended.stdout) == (0, b"ran\n")
    assert ended.stderr.count(b"\n") == 1
    assert b"step 'build' is not saved: the spool holds 2 checkpoints" in ended.stderr
    assert list(machine.done()) == ["lint"]


def test_a_run_of_another_style_is_left_alone(machine: Machine) -> None:
    state = b'{"progress": {"style": "tasks", "tasks": {}}}'
    machine.run("submit", "-", "--run-id", "nightly", stdin=state)

    ended = machine.exec("build", "echo", "ran")

    assert (ended.returncode, ended.stdout) == (0, b"ran\n")
    assert b"was saved as 'tasks'; use another run" in ended.stderr
    assert machine.triggers() == ["manual"]


def test_what_else_the_state_holds_is_carried_on_with_every_digit(machine: Machine) -> None:
    machine.run(
        "submit", "-", "--run-id", "nightly", stdin=b'{"price": 1.10, "big": 12345678901234567890123}'
    )

    machine.exec("build", "true")

    shown = machine.run("show", "nightly").stdout
    assert b'"price": 1.10' in shown
    assert b"12345678901234567890123" in shown


def test_steps_that_run_at_once_do_not_lose_each_other(machine: Machine, tmp_path: Path) -> None:
    names = ["a", "b", "c", "d"]
    for name in names:
        os.mkfifo(tmp_path / name)
    processes = [
        machine.start(
            "exec", "nightly", "--step", name, "--", "sh", "-c", f"echo ready; read x < '{tmp_path / name}'"
        )
        for name in names
    ]
    for process in processes:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"

    for name in names:  # all of them are under way now
        (tmp_path / name).write_bytes(b"go\n")
    for process in processes:
        _, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, b"")

    plan = machine.plan()
    assert sorted(machine.done()) == names
    assert plan["state"]["progress"]["steps_in_progress"] == []
    assert plan["warnings"] == []


def test_a_script_goes_on_on_another_machine_after_a_drain(tmp_path: Path, github: dict[str, str]) -> None:
    here, there = Machine(tmp_path / "here", **github), Machine(tmp_path / "there", **github)
    here.exec("lint", "true")
    here.exec("build", "false")
    assert here.run("drain").returncode == 0

    skipped, repeated = there.exec("lint", "echo", "again"), there.exec("build", "echo", "built")

    assert (skipped.returncode, skipped.stdout) == (0, b"")
    assert (repeated.returncode, repeated.stdout, repeated.stderr) == (0, b"built\n", b"")
    assert there.run("drain").returncode == 0
    assert here.done() == {"lint": "", "build": "built\n"}
    assert here.exec("build", "echo", "again").stdout == b""


@pytest.mark.parametrize("is_packed", [False, True], ids=["as we write it", "packed by git"])
def test_what_others_stored_in_the_embedded_github_counts(tmp_path: Path, is_packed: bool) -> None:
    here = Machine(tmp_path / "here")
    here.exec("lint", "true")
    assert here.run("drain").returncode == 0
    root = tmp_path / "here" / "github"
    emulator = Emulator(EmulatorOptions(root=root, repo="holdfast/checkpoints"))
    with EmulatorServer(emulator) as server:
        elsewhere = {"HOLDFAST_REPO": "holdfast/checkpoints", "HOLDFAST_API_URL": server.url}
        there = Machine(tmp_path / "there", HOLDFAST_TOKEN="any", HOLDFAST_WRITE_INTERVAL_S="0", **elsewhere)
        there.exec("build", "echo", "built")
        there.run("exec", "theirs", "--step", "one", "--", "true")
        assert there.run("drain").returncode == 0
    emulator.close()
    if is_packed:
        subprocess.run(["git", "-C", root / "holdfast" / "checkpoints.git", "gc", "--quiet"], check=True)

    assert here.exec("build", "echo", "again").stdout == b""
    assert here.exec("lint", "echo", "again").stdout == b""
    assert here.run("exec", "theirs", "--step", "one", "--", "echo", "again").stdout == b""
    assert here.exec("test", "echo", "new").stdout == b"new\n"
    assert here.done() == {"lint": "", "build": "built\n", "test": "new\n"}


def test_a_look_at_the_embedded_github_leaves_the_listing_of_a_run_as_it_is(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "data", HOLDFAST_INCREMENTAL="on")
    state = json.dumps({"large": ["x" * 1000] * 200}).encode()
    assert machine.run("submit", "-", "--run-id", "nightly", stdin=state).returncode == 0
    machine.exec("build", "true")
    assert machine.run("drain").returncode == 0

    def stored() -> Any:
        stats = json.loads(machine.run("stats", "nightly", "--json").stdout)
        return stats["stored"], stats["savings"], stats["sizes"]

    assert b"skipped" in machine.exec("build", "false").stderr
    after_a_look = stored()
    assert b"skipped" in machine.exec("build", "false").stderr
    after_another = stored()
    for cache in (tmp_path / "data" / "targets").glob("*/cache"):
        shutil.rmtree(cache)

    assert after_a_look == after_another == stored()
    assert after_a_look[1]["parts"] > 0


def test_with_github_away_the_command_runs_and_says_so_and_nothing_is_lost(
    tmp_path: Path, github: dict[str, str]
) -> None:
    here = Machine(tmp_path / "here", **github)
    here.exec("lint", "true")
    assert here.run("drain").returncode == 0
    there = Machine(tmp_path / "there", **github)

    ended = there.exec("build", "echo", "built", HOLDFAST_TOKEN="outdated")

    assert (ended.returncode, ended.stdout) == (0, b"built\n")
    assert ended.stderr.startswith(b"holdfast: what is completed elsewhere could not be looked up: ")
    assert there.run("drain").returncode == 0
    assert there.exec("lint", "echo", "again").stdout == b""
    assert there.exec("test", "true").stderr == b""
    assert list(there.done()) == ["lint", "build", "test"]


def test_what_a_command_leaves_running_may_go_on_writing(machine: Machine, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    script = f"(read x < '{tmp_path / 'go'}'; echo late; echo later >&2) & echo now"

    with machine.start("exec", "nightly", "--step", "serve", "--", "sh", "-c", script) as process:
        assert process.wait(timeout=120) == 0
        (tmp_path / "go").write_bytes(b"go\n")
        assert process.stdout
        assert process.stderr
        assert process.stdout.read() == b"now\nlate\n"
        assert process.stderr.read() == b"later\n"

    assert machine.done() == {"serve": "now\n"}


def test_a_command_whose_reader_has_gone_is_told_so(machine: Machine) -> None:
    with machine.start("exec", "nightly", "--step", "talk", "--", "yes") as process:
        assert process.stdout
        assert process.stdout.readline() == b"y\n"
        process.stdout.close()
        assert process.wait(timeout=120) == 128 + signal.SIGPIPE


def test_without_output_the_command_has_our_own(machine: Machine) -> None:
    ended = machine.run("exec", "nightly", "--step", "build", "--no-output", "--", "echo", "secret")

    assert ended.stdout == b"secret\n"
    assert machine.done() == {"build": None}


class Terminal:
    """A terminal of the test's own."""

    def __init__(self, rows: int, columns: int) -> None:
        self.ours, self.theirs = os.openpty()
        self.resize(rows, columns)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            line += os.read(self.ours, 1)
        return line


def test_on_a_terminal_the_command_finds_one_as_wide_and_follows_its_size(machine: Machine) -> None:
    terminal = Terminal(30, 100)
    program = """
import os, signal
def tell():
    print(os.isatty(1), os.isatty(2), os.get_terminal_size(1).columns, flush=True)
signal.signal(signal.SIGWINCH, lambda *_: None)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})  # kept until it is waited for
tell()
signal.sigwait({signal.SIGWINCH})
tell()
print("\\x1b[31mred\\x1b[0m")
"""
    words = ("exec", "nightly", "--step", "show", "--", *python(program))
    process = machine.start(*words, stdout=terminal.theirs, stderr=terminal.theirs)

    assert terminal.read_line() == b"True True 100\r\n"
    terminal.resize(30, 132)
    process.send_signal(signal.SIGWINCH)

    assert terminal.read_line() == b"True True 132\r\n"
    assert terminal.read_line() == b"\x1b[31mred\x1b[0m\r\n"
    assert process.wait(timeout=120) == 0
    assert machine.done()["show"].splitlines()[0] == "True True 100"
    os.close(terminal.theirs)
    os.close(terminal.ours)


def test_errors_that_go_to_a_file_stay_apart_from_a_terminal(machine: Machine) -> None:
    terminal = Terminal(30, 100)
    script = "test -t 1 && ! test -t 2 && echo seen && echo kept >&2"

    process = machine.start(
        "exec", "nightly", "--step", "show", "--", "sh", "-c", script, stdout=terminal.theirs
    )
    _, err = process.communicate(timeout=120)

    assert (process.returncode, err) == (0, b"kept\n")
    assert terminal.read_line() == b"seen\r\n"
    os.close(terminal.theirs)
    os.close(terminal.ours)


def submit_breaker(machine: Machine) -> None:
    state = json.dumps({"circuit_breaker_state": {"status": "open", "reason": "5 errors"}}).encode()
    words = ("submit", "-", "--run-id", "nightly", "--trigger", "circuit_breaker")
    assert machine.run(*words, stdin=state).returncode == 0


@pytest.mark.parametrize("place", ["spooled", "stored", "both"])
def test_a_run_that_waits_for_a_person_says_so_and_the_command_runs(machine: Machine, place: str) -> None:
    submit_breaker(machine)
    if place != "spooled":
        assert machine.run("drain").returncode == 0
    if place == "both":
        machine.exec("lint", "true")

    ended = machine.exec("build", "echo", "built")

    assert (ended.returncode, ended.stdout) == (0, b"built\n")
    assert ended.stderr.count(b"\n") == 1
    assert ended.stderr.startswith(b"holdfast: the run waits for a person since ")
    assert (
        b"because 5 errors, until a review decides: holdfast review nightly --decision continue"
        in ended.stderr
    )
    assert machine.done()["build"] == "built\n"


def test_a_run_whose_review_is_decided_says_nothing(machine: Machine) -> None:
    words = ("submit", "-", "--run-id", "nightly", "--trigger", "escalation")
    assert machine.run(*words, stdin=b"{}").returncode == 0
    assert b"waits for a person" in machine.exec("lint", "true").stderr
    assert machine.run("review", "nightly", "--decision", "continue").returncode == 0

    ended = machine.exec("build", "true")

    assert (ended.returncode, ended.stderr) == (0, b"")


def test_an_exclusive_step_runs_only_if_nobody_else_drives_the_run(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "data")
    inner = [PYTHON, "-m", "holdfast", "exec", "nightly", "--step", "inner", "--exclusive", "--"]
    marked = [PYTHON, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"]

    outer = machine.run("exec", "nightly", "--step", "outer", "--exclusive", "--", *inner, *marked)
    alone = machine.run("exec", "nightly", "--step", "alone", "--exclusive", "--", *marked)

    assert outer.returncode == 75
    assert b"is driven by" in outer.stderr
    assert b"the command was not run" in outer.stderr
    assert alone.returncode == 0, alone.stderr
    assert (tmp_path / "ran").exists()
    assert "alone" in machine.done()
    assert "inner" not in machine.done()


def test_a_step_of_a_job_whose_run_was_taken_over_is_not_run(machine: Machine) -> None:
    job = {"HOLDFAST_RUN_ID": "nightly", "HOLDFAST_FENCE": "1"}
    assert machine.exec("lint", "true", **job).returncode == 0
    taken_over = b'{"run_id": "nightly", "trigger": "manual", "state": {"by": "another"}, "fence": 2}'
    assert machine.run("submit", "-", stdin=taken_over).returncode == 0

    ended = machine.exec("build", "echo", "built", **job)
    of_another_run = machine.run("exec", "weekly", "--step", "build", "--", "echo", "built", stdin=b"", **job)

    assert (ended.returncode, ended.stdout) == (75, b"")
    assert b"step 'build' is not run: run 'nightly' is not yours any more (fence 1)" in ended.stderr
    assert of_another_run.stdout == b"built\n"


@pytest.mark.parametrize("place", ["spooled", "stored"])
def test_a_run_that_was_stopped_runs_no_step_and_says_how_to_go_on(machine: Machine, place: str) -> None:
    machine.exec("lint", "true")
    submit_breaker(machine)
    assert machine.run("review", "nightly", "--decision", "stop").returncode == 0
    if place == "stored":
        assert machine.run("drain").returncode == 0
    before = machine.triggers()

    ended = machine.exec("build", "echo", "built")

    assert (ended.returncode, ended.stdout) == (1, b"")
    assert ended.stderr.startswith(b"holdfast: step 'build' is not run: the run was stopped by a review at ")
    assert b"holdfast fork nightly AT NEW_RUN" in ended.stderr
    assert machine.triggers() == before
    assert machine.plan()["resumable"] is False
    assert machine.run("fork", "nightly", "1", "again").returncode == 0
    words = ("exec", "again", "--step", "build", "--", "echo", "built")
    assert machine.run(*words).stdout == b"built\n"


def test_a_step_that_is_running_is_not_run_a_second_time(machine: Machine, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    script = f"echo ready; read x < '{tmp_path / 'go'}'"

    with machine.start("exec", "nightly", "--step", "build", "--", "sh", "-c", script) as first:
        assert first.stdout
        assert first.stdout.readline() == b"ready\n"
        second = machine.exec("build", "echo", "twice")
        other = machine.exec("lint", "echo", "beside")
        (tmp_path / "go").write_bytes(b"go\n")
        assert first.wait(timeout=120) == 0

    assert (second.returncode, second.stdout) == (75, b"")
    expected = b"holdfast: step 'build' of nightly is running already, and is not run a second time\n"
    assert second.stderr == expected
    assert (other.returncode, other.stdout) == (0, b"beside\n")
    assert machine.triggers() == ["before_step", "before_step", "step_complete", "step_complete"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere locks end with the process that took them")
def test_a_command_that_outlives_us_is_still_its_step(machine: Machine, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    script = f"echo ready; read x < '{tmp_path / 'go'}'; exec >&-; : > '{tmp_path / 'over'}'"

    with machine.start("exec", "nightly", "--step", "build", "--", "sh", "-c", script) as first:
        assert first.stdout
        assert first.stdout.readline() == b"ready\n"
        first.kill()
    second = machine.exec("build", "echo", "twice")
    (tmp_path / "go").write_bytes(b"go\n")
    while not (tmp_path / "over").exists():
        os.sched_yield()
    third = wait_for_turn(machine)

    assert (second.returncode, second.stdout) == (75, b"")
    assert b"is running already" in second.stderr
    assert (third.returncode, third.stdout) == (0, b"again\n")


def wait_for_turn(machine: Machine) -> "subprocess.CompletedProcess[bytes]":
    """Run the step once the command that was left behind has ended."""
    for _ in range(100):
        ended = machine.exec("build", "echo", "again")
        if ended.returncode != 75:
            break
    return ended


def test_what_a_command_leaves_running_does_not_keep_its_step(machine: Machine, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    script = f"(read x < '{tmp_path / 'go'}') > /dev/null 2>&1 & exit 1"

    first = machine.exec("build", "sh", "-c", script)
    second = machine.exec("build", "echo", "again")
    (tmp_path / "go").write_bytes(b"go\n")

    assert (first.returncode, second.returncode, second.stdout) == (1, 0, b"again\n")


@pytest.mark.parametrize(
    "variables",
    [{"HOLDFAST_DATA_DIR": "/dev/null/data"}, {"HOLDFAST_NO_SUCH": "1"}, {"HOLDFAST_WRITE_MODE": "none"}],
    ids=["no folder", "no such setting", "wrong setting"],
)
def test_what_cannot_even_be_told_stops_no_command(machine: Machine, variables: dict[str, str]) -> None:
    machine.environment |= variables
    command = ("exec", "nightly", "--step", "build", "--", "sh", "-c", "echo ran; exit 3")

    with Path("/dev/full").open("wb") as full:
        process = machine.start(*command, stderr=full)
        out, _ = process.communicate(timeout=120)

    assert (process.returncode, out) == (3, b"ran\n")


@pytest.mark.parametrize("script", ["echo lost", "yes | head -c 300000"])
def test_output_that_cannot_be_written_fails_the_step(machine: Machine, script: str) -> None:
    with Path("/dev/full").open("wb") as full:
        process = machine.start(
            "exec", "nightly", "--step", "talk", "--", "sh", "-c", f"{script}; true", stdout=full
        )
        _, err = process.communicate(timeout=120)

    assert process.returncode == 1
    assert err.endswith(b"holdfast: the output could not be written: No space left on device\n")
    plan = machine.plan()
    assert (plan["status"], plan["resume_at"]) == ("failed", 0)
    error = plan["state"]["progress"]["state"]["error"]
    assert error == "its output could not be written: No space left on device"
    assert machine.exec("talk", "echo", "again").stdout == b"again\n"


def test_steps_are_known_again_with_a_key_while_they_wait_in_the_spool(tmp_path: Path) -> None:
    key = json.dumps(make_shared_key())
    machine = Machine(tmp_path / "data", HOLDFAST_ENCRYPTION_KEY=key)
    for step in ("one", "two", "one", "two"):
        assert machine.exec(step, "echo", step).returncode == 0
    assert machine.triggers() == ["before_step", "step_complete"] * 2
    assert machine.done() == {"one": "one\n", "two": "two\n"}


def test_writer_that_cannot_read_runs_the_steps_of_a_run(tmp_path: Path) -> None:
    pair = make_recipient_key()
    folder = tmp_path / "data"
    machine = Machine(folder, HOLDFAST_ENCRYPTION_KEY=json.dumps(public_half(pair)))
    assert machine.exec("one", "echo", "1").returncode == 0
    assert machine.exec("two", "false").returncode == 1
    assert machine.run("drain").returncode == 0

    skipped = machine.exec("one", "echo", "again")
    assert (skipped.returncode, skipped.stdout) == (0, b"")
    assert b"completed: skipped" in skipped.stderr
    assert machine.exec("two", "echo", "2").stdout == b"2\n"
    assert machine.exec("two", "echo", "again").stdout == b""

    reader = Machine(folder, HOLDFAST_ENCRYPTION_KEY=json.dumps(pair))
    assert reader.done() == {"one": None, "two": "2\n"}


def test_writer_that_cannot_read_believes_only_signed_checkpoints(tmp_path: Path) -> None:
    keys = {
        "HOLDFAST_ENCRYPTION_KEY": json.dumps(public_half(make_recipient_key())),
        "HOLDFAST_SIGNING_KEY": json.dumps(make_signing_key()),
    }
    machine = Machine(tmp_path / "data", **keys)
    assert machine.exec("one", "echo", "1").returncode == 0
    assert machine.exec("two", "false").returncode == 1
    assert machine.run("drain").returncode == 0
    intruder = Intruder(tmp_path / "data")
    index = intruder.read("nightly/index.json")
    for entry in index["checkpoints"]:
        entry |= {"trigger": "step_complete", "phase": "two"}
    (intruder.root / "nightly" / "index.json").write_text(json.dumps(index))
    content = restamp(
        intruder.read("nightly/latest.json"), trigger="step_complete", phase="three", sequence_number=9
    )
    (intruder.root / "nightly" / "cp_009_step_complete.json").write_bytes(content)
    intruder.push()

    assert machine.exec("one", "echo", "again").stdout == b""
    assert machine.exec("two", "echo", "2").stdout == b"2\n"
    assert machine.exec("three", "echo", "3").stdout == b"3\n"
