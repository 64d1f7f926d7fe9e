import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import __version__, cli
from holdfast.cli import build_parser, status
from holdfast.cli.arguments import Commands
from holdfast.errors import (
    UnknownRun,
)
from holdfast.presentation.exits import ExitCode

from .conftest import Holdfast

# Only there to end a test that hangs.
LONGEST_S = 60

COMMANDS = [*((name,) for name in cli.COMMANDS), ("spool", "export"), ("spool", "import")]


@pytest.mark.slow
@pytest.mark.parametrize("command", [(), *COMMANDS], ids=" ".join)
def test_every_help_has_an_example_and_the_shared_options(
    holdfast: Holdfast, command: tuple[str, ...]
) -> None:
    ended = holdfast(*command, "--help")

    assert ended.code == 0
    _, _, example = ended.out.partition("example:\n  ")
    assert " ".join(("holdfast", *command)) in example
    assert "--data-dir" in ended.out
    assert ended.err == ""


def test_help_names_every_command(holdfast: Holdfast) -> None:
    out = holdfast("--help").out

    assert [name for name, *_ in COMMANDS if f"\n    {name} " not in out] == []


def test_each_command_is_declared_by_the_module_that_it_is_known_to_be_in() -> None:
    declared = {command: names_of(build_parser(command)) for command in cli.COMMANDS}

    assert names_of(build_parser()) == list(cli.COMMANDS)
    assert [command for command, names in declared.items() if command not in names] == []


def names_of(parser: argparse.ArgumentParser) -> list[str]:
    (commands,) = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return list(commands.choices)


def test_version_is_printed(holdfast: Holdfast) -> None:
    assert holdfast("--version").out == f"holdfast {__version__}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "name a command; see holdfast --help"),
        (("spool",), "name a command; see holdfast spool --help"),
        (("frobnicate",), "invalid choice: 'frobnicate'"),
        (("show",), "the following arguments are required: RUN"),
        (("show", "r", "0"), "'0' is no checkpoint: use"),
        (("show", "r", "two"), "'two' is no checkpoint: use"),
        (("drain", "--timeout", "soon"), "'soon' is not a number of seconds"),
        (("drain", "--timeout", "-1"), "'-1' is not a number of seconds"),
        (("drain", "--timeout", "inf"), "'inf' is not a number of seconds"),
        (("runs", "--write-mode", "wish"), "invalid choice: 'wish'"),
        (("status", "--repo", "no-slash"), "HOLDFAST_REPO (from the command line): use owner/name"),
        (("runs", "--resum"), "unrecognized arguments: --resum"),
    ],
)
def test_wrong_use_is_told_in_one_line_and_exits_2(
    holdfast: Holdfast, words: tuple[str, ...], complaint: str
) -> None:
    ended = holdfast(*words)

    assert ended.code == 2
    assert ended.out == ""
    assert ended.err.startswith("holdfast: ")
    assert complaint in ended.err
    assert ended.err.count("\n") == 1


def test_every_wrong_variable_is_reported_at_once(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_LOW_BUDGET", "many")
    monkeypatch.setenv("HOLDFAST_BRANCH", "a..b")

    ended = holdfast("status")

    assert ended.code == 2
    assert "HOLDFAST_LOW_BUDGET" in ended.err
    assert "HOLDFAST_BRANCH" in ended.err


def test_shared_options_are_taken_before_and_after_the_command(holdfast: Holdfast, tmp_path: Path) -> None:
    before = holdfast("--branch", "early", "config", "--json").document["settings"]["branch"]
    after = holdfast("config", "--json", "--branch", "late").document["settings"]["branch"]
    both = holdfast("--branch", "early", "config", "--json", "--branch", "late").document["settings"][
        "branch"
    ]

    assert [each["value"] for each in (before, after, both)] == ["early", "late", "late"]
    assert before["source"] == "command line"


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def run(*_: object) -> ExitCode:
        raise error

    def register(commands: Commands) -> None:
        commands.add("status", run, description="Fails.", example="holdfast status")

    monkeypatch.setattr(status, "register", register)


def test_our_own_errors_show_no_traceback_and_no_control_characters(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(monkeypatch, UnknownRun("no run \x1b[31m\nhere"))

    ended = holdfast("status")

    assert (ended.code, ended.err) == (1, "holdfast: no run \\x1b[31m\\nhere\n")


def test_debug_level_shows_the_traceback_too(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, UnknownRun("no such run"))

    ended = holdfast("status", "--log-level", "debug")

    assert ended.code == 1
    assert "Traceback" in ended.err
    assert ended.err.endswith("holdfast: no such run\n")


def test_ctrl_c_ends_without_a_traceback(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, KeyboardInterrupt())

    ended = holdfast("status")

    assert (ended.code, ended.err) == (1, "holdfast: interrupted\n")


def run_process(*words: str, **keywords: object) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "holdfast", *words]
    return subprocess.run(command, stderr=subprocess.PIPE, timeout=60, check=False, **keywords)  # type: ignore[call-overload,no-any-return]


@pytest.mark.processes
def test_a_reader_that_goes_away_ends_a_command_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = run_process("config", stdout=writing)
    finally:
        os.close(writing)

    assert ended.returncode == 1
    assert ended.stderr == b""


@pytest.mark.processes
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_that_cannot_be_written_is_a_failure_in_one_line() -> None:
    with Path("/dev/full").open("wb") as full:
        ended = run_process("config", "--json", stdout=full)

    assert ended.returncode == 1
    assert ended.stderr.startswith(b"holdfast: ")
    assert ended.stderr.count(b"\n") == 1


SHARED_QUEUE = ("psycopg", "holdfast.queue.postgres", "holdfast.queue.fallback")


def loaded_modules(*words: str) -> set[str]:
    script = (
        "import sys; from holdfast.cli import main; main(sys.argv[1:]);"
        "sys.stderr.write('\\n'.join(sys.modules))"
    )
    command = [sys.executable, "-c", script, *words]
    environment = dict(os.environ)  # readline, where it is loaded, adds to what a process passes on otherwise
    ended = subprocess.run(command, capture_output=True, timeout=60, check=True, text=True, env=environment)
    return set(ended.stderr.split())


@pytest.mark.processes
def test_help_loads_nothing_heavy() -> None:
    heavy = {
        "pydantic",
        "structlog",
        "rich",
        "orjson",
        "httpx",
        "githubkit",
        "diskcache",
        "langgraph",
        "mcp",
        "sqlite3",
        "asyncio",
    }

    assert loaded_modules("--help") & heavy == set()


@pytest.mark.processes
def test_a_submit_loads_nothing_that_it_does_not_use(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text("{}")

    loaded = loaded_modules("submit", str(state), "--run-id", "r", "--json")

    assert "holdfast.library" in loaded
    heavy = {
        "githubkit",
        "httpx",
        "graphql",
        "pygit2",
        "structlog",
        "psycopg",
        "psycopg_pool",
        "holdfast.queue.fallback",
        "holdfast.emulator",
        "holdfast.repository.reader",
    }
    assert loaded & heavy == set()


@pytest.mark.processes
@pytest.mark.parametrize(
    "command", [["submit", "-", "--run-id", "r"], ["status"], ["resume", "r"], ["drain"]]
)
def test_a_shared_queue_without_its_driver_is_told_in_a_sentence_with_what_to_install(
    command: list[str], tmp_path: Path
) -> None:
    script = (
        "import sys; sys.modules['psycopg'] = None;"
        "from holdfast.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    given = {
        "HOLDFAST_DATABASE_URL": "postgresql://me@db/work",
        "HOLDFAST_REPO": "acme/state",
        "HOLDFAST_TOKEN": "t",
        "HOLDFAST_DATA_DIR": str(tmp_path),
    }

    ended = subprocess.run(
        [sys.executable, "-c", script, *command],
        input="{}",
        capture_output=True,
        timeout=60,
        check=False,
        text=True,
        env={**os.environ, **given},
    )

    assert ended.returncode == 2
    assert "HOLDFAST_DATABASE_URL: its driver is not installed: run pip install '.[postgres]'" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.processes
@pytest.mark.parametrize("words", ["submit - --run-id r --wait", "status", "drain", "resume r"])
def test_without_a_shared_queue_nothing_of_it_is_loaded(words: str) -> None:
    assert "holdfast.queue.sqlite_queue" in (loaded := loaded_modules(*words.split()))

    assert not [name for name in loaded if name.startswith(SHARED_QUEUE)]


@pytest.mark.processes
@pytest.mark.parametrize(
    "word", ["holdfast.library", "holdfast.sidecar.serving", "holdfast.cli.serve", "holdfast.mcp"]
)
def test_no_door_loads_the_shared_queue_by_itself(word: str) -> None:
    program = f"import sys, {word}; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert not [name for name in loaded.stdout.split() if name.startswith(SHARED_QUEUE)]


HEAVY_FOR_EXEC = {
    *("githubkit", "httpx", "graphql", "pygit2", "structlog", "rich", "asyncio", "pydantic", "tenacity"),
    *("cryptography", "joserfc", "prometheus_client", "psycopg", "opentelemetry", "starlette"),
    *("holdfast.emulator.app", "holdfast.github.client", "holdfast.drain.worker", "holdfast.recorder"),
    *("holdfast.github.write_calls", "holdfast.github.rest_on_demand", "holdfast.github.inspection"),
}


@pytest.mark.processes
def test_an_exec_loads_nothing_heavy_and_leaves_the_environment_alone(tmp_path: Path) -> None:
    kept = tmp_path / "environment"
    words = ("exec", "r", "--no-output", "--step")
    before = set(os.environ)

    loaded = loaded_modules(*words, "a", "--", "sh", "-c", f"env > {kept}")
    loaded |= loaded_modules(*words, "b", "--", "true")  # of a run in the spool
    loaded |= loaded_modules(*words, "b", "--", "true")  # skipped

    assert "holdfast.library" in loaded
    read = {"diskcache", "holdfast.repository.reader"}
    assert loaded & (HEAVY_FOR_EXEC | read) == set()
    assert {line.partition("=")[0] for line in kept.read_text().splitlines()} - before <= {
        "_",
        "SHLVL",
        "PWD",
    }

    run_process("drain")
    loaded |= loaded_modules(*words, "b", "--", "true")  # of a run that the embedded GitHub has
    loaded |= loaded_modules(*words, "c", "--", "true")
    loaded |= loaded_modules("exec", "new", "--step", "a", "--", "true")
    assert read <= loaded
    assert loaded & HEAVY_FOR_EXEC == set()


@pytest.mark.processes
def test_a_terminal_that_knows_only_ascii_is_no_error() -> None:
    ended = run_process("--help", stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": "ascii"})

    assert ended.returncode == 0
    assert b"HOLDFAST_\\u2026 variable" in ended.stdout


def run_with_closed(
    words: list[str], *numbers: int, stdin: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command that has no standard stream of these numbers."""
    closed = " ".join(f"{number}>&-" for number in numbers)
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "holdfast", *words]
    return subprocess.run(command, input=stdin, capture_output=True, check=False, timeout=LONGEST_S)


SUBMIT = ["submit", "-", "--run-id", "closed", "--trigger", "manual", "--phase", "p"]


@pytest.mark.processes
def test_a_closed_output_stops_nothing(holdfast: Holdfast) -> None:
    ended = run_with_closed(SUBMIT, 1, stdin=b'{"a": 1}')

    assert (ended.returncode, ended.stderr) == (0, b"")
    assert holdfast("status", "--json").document["spool"]["depth"] == 1


@pytest.mark.processes
def test_a_closed_input_is_an_empty_one() -> None:
    ended = run_with_closed(SUBMIT, 0)

    assert ended.returncode == 2
    assert b"standard input is empty" in ended.stderr
    assert b"Traceback" not in ended.stderr


@pytest.mark.processes
def test_closed_errors_go_nowhere() -> None:
    assert run_with_closed(["show", "nothing"], 2).returncode == 1


@pytest.mark.processes
def test_a_full_output_is_named_and_the_checkpoint_is_safe(holdfast: Holdfast) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "holdfast", *SUBMIT],
            input=b'{"a": 1}',
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=LONGEST_S,
        )

    assert ended.returncode == 1
    assert ended.stderr.startswith(
        b"holdfast: standard output cannot be written to: No space left on device;"
    )
    assert ended.stderr.count(b"\n") == 1
    assert holdfast("status", "--json").document["spool"]["depth"] == 1


def test_an_embedded_github_that_cannot_be_made_is_told(holdfast: Holdfast, data_dir: Path) -> None:
    data_dir.mkdir()
    (data_dir / "github").write_text("in the way")

    ended = holdfast("runs")

    assert ended.code == 1
    assert ended.err.startswith("holdfast: the embedded GitHub cannot be opened: ")
    assert "HOLDFAST_DATA_DIR" in ended.err


def test_the_embedded_github_is_for_this_user_alone(holdfast: Holdfast, data_dir: Path) -> None:
    (data_dir / "github").mkdir(mode=0o755, parents=True)

    holdfast("runs")

    assert (data_dir / "github").stat().st_mode & 0o777 == 0o700
