"""Every command and snippet of the documentation does what the page says."""

import contextlib
import io
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import structlog
from ruamel.yaml import YAML

from holdfast.cli import build_parser
from holdfast.errors import InvalidCheckpoint
from holdfast.format.checkpoint import draft_from_text
from holdfast.presentation.exits import WrongUse
from holdfast.settings import Settings, unknown_variables
from holdfast.settings.file import read_settings_file
from tests.docs.pages import ROOT, Block, Page, every_page
from tests.docs.parts import real_parts
from tests.docs.shell import Command, Shell, is_as_shown, read_commands

PAGES = every_page()
# What their readers need is more than what a page can start.
WITH_PARTS = {"docs/scaling.md"}
# What shows a layout, a picture or another program's file; nothing in it is for a shell.
SHOWN_ONLY = {"text", "ini", "mermaid"}
MOST_NOT_RUN = 6

# When, the settings, and the words of the command; what a shell does after it is not looked at.
_SCHEDULED = re.compile(r"(?:[\d*/,-]+ +){5}((?:HOLDFAST_\w+=\S+ +)*)holdfast ([^|&;]+)")
_PRINTED = re.compile(r"# => (.*)$", re.MULTILINE)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    structlog.reset_defaults()  # what another test has set up would send events elsewhere
    shell = Shell(tmp_path)
    yield shell
    shell.close()


@pytest.mark.timeout(600)  # a page is many commands; this is there to end one that hangs
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_a_page_does_what_it_shows(page: Page, shell: Shell, tmp_path: Path) -> None:
    with ExitStack() as stack:
        if page.name in WITH_PARTS:
            parts = stack.enter_context(real_parts(tmp_path))
            shell.real |= parts.real
            shell.environment |= parts.environment
            stack.callback(shell.close)  # its servers end before what they need
        _run_all(page, shell)


def _run_all(page: Page, shell: Shell) -> None:
    names: dict[str, Any] = {"__name__": page.name}
    for block in page.blocks:
        if block.not_run is None:
            _run(page, block, shell, names)


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    reasons = [block.not_run for page in PAGES for block in page.blocks if block.not_run]

    assert len(reasons) <= MOST_NOT_RUN
    assert all(len(reason) > 10 for reason in reasons)


def test_what_is_not_run_names_scripts_and_options_that_there_are() -> None:
    lines = [
        line.partition("#")[0]
        for page in PAGES
        for block in page.blocks
        if block.not_run
        for line in block.lines
    ]
    calls = [line.split() for line in lines if line.startswith("./scripts/")]

    assert calls
    for script, *words in calls:
        text = (ROOT / script).read_text("utf-8")
        sources = [*(ROOT / "scripts").rglob("*.py")]
        for option in (word for word in words if word.startswith("--")):
            assert option in text or any(option in source.read_text("utf-8") for source in sources), option


@pytest.mark.parametrize(
    "command",
    [
        Command("echo spooled", ("verified",)),
        Command("echo spooled", ("spooled", "and more")),
        Command("holdfast spooled", ()),
        Command("true   # exits with 75", ()),
    ],
    ids=str,
)
def test_what_is_not_as_shown_is_noticed(command: Command, shell: Shell) -> None:
    with pytest.raises(AssertionError, match="ended with"):
        _check(command, shell, "here")


def test_python_that_prints_something_else_is_noticed(shell: Shell) -> None:
    block = Block("python", ("print(1)  # => 2",), 1)

    with pytest.raises(AssertionError, match="printed"):
        _execute(block, shell, {}, "here")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("* * * * holdfast drain", AssertionError),
        ("* * * * * HOLDFAST_REPOSITORY=a/b holdfast drain", AssertionError),
        ("* * * * * holdfast drain --until 3", WrongUse),
    ],
)
def test_a_crontab_that_would_not_work_is_noticed(line: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        _parse_crontab(Block("crontab", (line,), 1), "here")


def test_a_checkpoint_that_would_be_refused_is_noticed() -> None:
    with pytest.raises(InvalidCheckpoint, match="not a trigger"):
        _parse(Block("json", ('{"trigger": "whim", "state": {}}',), 1), "here")


def _run(page: Page, block: Block, shell: Shell, names: dict[str, Any]) -> None:
    place = f"{page.name}:{block.line}"
    match block.language:
        case "console":
            for command in read_commands(block.lines):
                _check(command, shell, place)
        case "sh" if block.is_apart:
            _run_apart(block, shell, place)
        case "sh":
            _check(Command(block.text.strip(), ()), shell, place)
        case "python":
            _execute(block, shell, names, place)
        case "json":
            _parse(block, place)
        case "yaml":
            assert YAML(typ="safe").load(block.text), place
        case "toml":
            _read_settings(block, shell)
        case "crontab":
            _parse_crontab(block, place)
        case language:
            assert language in SHOWN_ONLY, f"{place}: nothing checks a block of {language!r}"
            assert not any(line.startswith("$ ") for line in block.lines), f"{place}: make it console"
            assert not any(map(_SCHEDULED.match, block.lines)), f"{place}: make it crontab"


def _run_apart(block: Block, shell: Shell, place: str) -> None:
    """Save with the settings that a block exports, and go on without them."""
    before = dict(shell.environment)
    text = block.text.strip().replace("…", "0")
    emulator = (
        "holdfast emulator --port 8799 --root ~/apart-github --repo $HOLDFAST_REPO --token $HOLDFAST_TOKEN &"
    )
    for command in (
        Command(text, ()),
        Command(emulator, ("Serving … at http://127.0.0.1:8799 …",)),
        Command("export HOLDFAST_API_URL=http://127.0.0.1:8799 HOLDFAST_DATA_DIR=~/apart", ()),
        Command(
            "echo '{}' | holdfast submit - --run-id apart --wait", ("…", "status           verified", "…")
        ),
    ):
        _check(command, shell, place)
    shell.environment = before


def _check(command: Command, shell: Shell, place: str) -> None:
    code, printed = shell.run(command)
    told = f"{place}: {command.text}\nended with {code} and printed:\n{printed}"
    assert code == command.code, told
    if command.shown:
        output = shell.as_documented(printed)
        assert is_as_shown("\n".join(command.shown), output), f"{told}\nbut the page shows other output"


def _execute(block: Block, shell: Shell, names: dict[str, Any], place: str) -> None:
    """Run Python; what it prints is what stands after `# =>`, in that order."""
    printed = io.StringIO()
    program = compile("\n" * block.line + block.text, place, "exec")
    with shell.entered(), contextlib.redirect_stdout(printed):
        exec(program, names)
    shown = "\n".join(_PRINTED.findall(block.text))
    assert is_as_shown(shown, printed.getvalue()), f"{place} printed:\n{printed.getvalue()}"


def _read_settings(block: Block, shell: Shell) -> None:
    """A settings file that is shown is in order."""
    path = shell.folder / "shown.toml"
    path.write_text(block.text, "utf-8")
    Settings.from_environment({}, file=read_settings_file(path))


def _parse_crontab(block: Block, place: str) -> None:
    """Each line of a crontab says when, and calls a command that there is, with settings that there are."""
    for line in block.lines:
        scheduled = _SCHEDULED.match(line)
        assert scheduled, place
        assignments, words = scheduled.groups()
        settings = dict(each.split("=", 1) for each in assignments.split())
        assert not unknown_variables(settings), place
        build_parser().parse_args(words.split())


def _parse(block: Block, place: str) -> None:
    """Parse JSON; what has a trigger and a state must be a checkpoint that is accepted."""
    document = json.loads(block.text)
    if "trigger" in document and {"state", "state_snapshot"} & document.keys():
        draft = draft_from_text(
            block.text.encode(),
            now="2026-11-17T12:00:00Z",
            new_id=lambda: str(_ID),
            run_id=document.get("run_id", "r"),
        )
        assert draft.run_id, place


_ID = "00000000-0000-4000-8000-000000000000"
