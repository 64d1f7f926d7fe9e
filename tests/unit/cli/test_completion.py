"""Completion scripts are made from the parsers, and the shells themselves take them."""

import shutil
import subprocess

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


def test_every_command_and_option_is_in_every_script(holdfast: Holdfast) -> None:
    words = list(find_words(build_parser()))
    assert len({word.command for word in words}) > 30
    for shell in ("bash", "zsh", "fish"):
        script = holdfast("completion", shell).out
        for word in words:
            text = word.text if shell != "fish" or not word.is_option else word.text.lstrip("-")
            assert text in script, (shell, word)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_shell_itself_takes_the_script(shell: str, holdfast: Holdfast) -> None:
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell} here")
    script = holdfast("completion", shell).out
    ended = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (0, "")


def test_another_shell_is_refused_with_those_that_are_there(holdfast: Holdfast) -> None:
    ended = holdfast("completion", "tcsh")

    assert ended.code == 2
    assert "bash" in ended.err
