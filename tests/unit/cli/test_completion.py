"""Completion scripts are made from the parsers, and the shells themselves take them."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Self

import pytest

from holdfast.cli import build_parser
from holdfast.cli.completion import find_words

from .conftest import Holdfast


def complete(script: str, *words: str) -> list[str]:
    """Return what bash offers for the last of the words."""
    typed = " ".join(f"'{word}'" for word in ("holdfast", *words))
    program = (
        f"{script}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words)}; _holdfast; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ended = subprocess.run(
        ["bash", "--norc", "-c", program], capture_output=True, text=True, check=True, cwd="/"
    )
    assert ended.stderr == ""
    return ended.stdout.split()


@pytest.fixture
def bash(holdfast: Holdfast) -> str:
    ended = holdfast("completion", "bash")
    assert ended.code == 0
    return ended.out


def test_bash_completes_commands_options_and_values(bash: str) -> None:
    assert complete(bash, "sta") == ["status", "stats"]
    assert "--resumable" in complete(bash, "runs", "--re")
    assert complete(bash, "drain", "--write-mode", "") == ["contents", "commit"]
    assert complete(bash, "--log-level", "d") == ["debug"]
    assert {"export", "import", "restore"} <= set(complete(bash, "spool", ""))
    assert "--redact" in complete(bash, "spool", "restore", "--re")
    assert complete(bash, "completion", "z") == ["zsh"]
    assert complete(bash, "review", "a", "--decision", "s") == ["stop"]


def test_a_command_after_two_dashes_is_not_ours(bash: str) -> None:
    assert complete(bash, "exec", "a", "--step", "b", "--", "sta") == []


@pytest.mark.slow
def test_every_command_and_option_is_in_every_script(holdfast: Holdfast) -> None:
    words = list(find_words(build_parser()))
    assert len({word.command for word in words}) > 30
    for shell in ("bash", "zsh", "fish"):
        script = holdfast("completion", shell).out
        for word in words:
            text = word.text if shell != "fish" or not word.is_option else word.text.lstrip("-")
            assert text in script, (shell, word)


@pytest.mark.skipif(not shutil.which("fish"), reason="there is no fish here")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("sta", ["stats", "status"]),
        ("spool ", ["export", "import", "restore"]),
        ("drain --write-mode ", ["commit", "contents"]),
        ("review a --decision s", ["stop"]),
        ("--log-level d", ["debug"]),
    ],
)
def test_fish_completes_commands_options_and_values(
    holdfast: Holdfast, tmp_path: Path, typed: str, offered: list[str]
) -> None:
    script = tmp_path / "holdfast.fish"
    script.write_text(holdfast("completion", "fish").out)
    program = f"source {script}; complete -C 'holdfast {typed}'"

    ended = subprocess.run(
        ["fish", "--no-config", "-c", program],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )

    assert [line.partition("\t")[0] for line in ended.stdout.splitlines()] == offered


@pytest.mark.skipif(not shutil.which("zsh"), reason="there is no zsh here")
@pytest.mark.parametrize(
    "found_by", ["fpath=({folder} $fpath); {begin}", "{begin}; source {folder}/_holdfast"]
)
def test_zsh_completes_from_the_first_time_on(holdfast: Holdfast, tmp_path: Path, found_by: str) -> None:
    (tmp_path / "_holdfast").write_text(holdfast("completion", "zsh").out)
    begin = "autoload -U compinit; compinit -u -D"

    with Terminal("zsh", "-f", "-i") as terminal:
        terminal.type(found_by.format(folder=tmp_path, begin=begin) + "; print REA''DY\n")
        terminal.wait_for("READY")
        terminal.type("holdfast spool restore --red\t")
        terminal.wait_for("--redact")


class Terminal:
    """A program that takes what is typed for a person's."""

    def __init__(self, *command: str) -> None:
        self._screen, keyboard = os.openpty()
        self._process = subprocess.Popen(
            command,
            env={"PATH": os.environ["PATH"], "TERM": "dumb"},
            stdin=keyboard,
            stdout=keyboard,
            stderr=keyboard,
            start_new_session=True,
        )
        os.close(keyboard)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._screen)

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def wait_for(self, text: str) -> None:
        """Read until the program has shown this; the test's own time limit ends it otherwise."""
        shown = ""
        while text not in shown:
            shown += os.read(self._screen, 4096).decode(errors="replace")


def test_another_shell_is_refused_with_those_that_are_there(holdfast: Holdfast) -> None:
    ended = holdfast("completion", "tcsh")

    assert ended.code == 2
    assert "bash" in ended.err
