import errno
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import pytest

from holdfast.presentation.exits import CommandFailed
from holdfast.presentation.render import Screen, has_colour, writing_answer


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 60 columns."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


@contextmanager
def shown_on(terminal: Terminal) -> Iterator[Screen]:
    """Have both streams write to the terminal; pytest sets its own between a fixture and its test."""
    with redirect_stdout(terminal), redirect_stderr(terminal):
        yield Screen()


ROWS = [("r", "completed"), ("s", "failed")]


def test_a_table_on_a_terminal_has_colour(terminal: Terminal) -> None:
    with shown_on(terminal) as screen:
        screen.table(("run", "status"), ROWS)

    assert "\x1b[32mcompleted\x1b[0m" in terminal.getvalue()
    assert "\x1b[31mfailed" in terminal.getvalue()


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_nobody_who_declines_colour_gets_any(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    with shown_on(terminal) as screen:
        screen.table(("run", "status"), ROWS)
        screen.facts([("spool", "empty")])
        screen.say("done", style="green")

    assert "completed" in terminal.getvalue()
    assert "\x1b" not in terminal.getvalue()


def test_an_empty_no_color_does_not_count(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")

    assert has_colour(terminal)


def test_a_pipe_gets_no_colour() -> None:
    assert not has_colour(io.StringIO())


def test_a_long_cell_is_folded_on_a_terminal_and_nothing_of_it_lost(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    with shown_on(terminal) as screen:
        screen.table(("run", "file"), [("r", "x" * 150)])

    assert terminal.getvalue().count("x") == 150
    assert max(len(line) for line in terminal.getvalue().splitlines()) <= 60


def test_a_sentence_is_never_wrapped(terminal: Terminal) -> None:
    with shown_on(terminal) as screen:
        screen.say("word " * 40 + "end", style="bold")

    assert len(terminal.getvalue().splitlines()) == 1


def test_square_brackets_are_text(terminal: Terminal) -> None:
    with shown_on(terminal) as screen:
        screen.table(("run",), [("[red]r[/red]",)])

    assert "[red]r[/red]" in terminal.getvalue()


def test_progress_is_shown_on_a_terminal(terminal: Terminal) -> None:
    with shown_on(terminal) as screen, screen.progress("draining", 3) as advance:
        advance(1, 2)
        advance(3, 0)

    assert "draining" in terminal.getvalue()
    assert "3/3" in terminal.getvalue()


@pytest.mark.parametrize(("is_json", "total"), [(True, 3), (False, 0)])
def test_no_bar_is_shown_for_machines_or_for_nothing(terminal: Terminal, is_json: bool, total: int) -> None:
    with shown_on(terminal), Screen(is_json=is_json).progress("draining", total) as advance:
        advance(total, 0)

    assert terminal.getvalue() == ""


def test_no_bar_is_shown_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with Screen().progress("draining", 3) as advance:
        advance(3, 0)

    assert capsys.readouterr() == ("", "")


def test_beside_a_document_nothing_else_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(is_json=True)
    screen.say("hello")
    screen.table(("run",), [("r",)])
    screen.facts([("spool", "empty")])
    screen.document({"a": [1, None]})
    screen.warn("mind")

    assert capsys.readouterr() == ('{"a":[1,null]}\n', "holdfast: mind\n")


def test_json_on_a_terminal_has_nothing_that_it_would_obey(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="utf-8")
    monkeypatch.setattr(stream, "isatty", lambda: True)
    state = {"text": "\x9b31m\u202eevil\u2066\u200f", "letters": "äß漢"}

    with redirect_stdout(stream):
        Screen(is_json=True).document(state)
    shown = written.getvalue().decode()

    assert not set("\x9b\u202e\u2066\u200f") & set(shown)
    assert "äß漢" in shown
    assert json.loads(shown) == state


def test_json_for_a_program_stays_as_it_is(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    Screen(is_json=True).content('{"a":"\u202e"}'.encode())

    assert capfdbinary.readouterr().out == '{"a":"\u202e"}\n'.encode()


def test_a_large_table_has_the_same_columns(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    rows = [(str(number), "漢" * (number % 3), "end") for number in range(100)]
    columns, right = ("#", "name", "last"), ("#",)

    with shown_on(terminal) as screen:
        screen.table(columns, rows, right=right)
    laid_out = terminal.getvalue()
    with redirect_stdout(io.StringIO()) as pipe:
        Screen().table(columns, rows, right=right)

    assert pipe.getvalue() == laid_out


def test_a_table_of_ten_thousand_rows_is_not_laid_out_by_rich(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rich.table.Table.add_row", lambda *_: pytest.fail("laid out cell by cell"))

    with shown_on(terminal) as screen:
        screen.table(("#", "text"), [(str(number), "a\nb") for number in range(10_000)])

    assert len(terminal.getvalue().splitlines()) == 10_001
    assert "a\\nb" in terminal.getvalue()


def test_an_output_that_is_full_is_not_taken_for_another_disk() -> None:
    with (
        pytest.raises(CommandFailed, match="standard output cannot be written to: No space"),
        writing_answer(),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("style", [None, "bold"])
def test_line_for_people_stays_one_line_whatever_is_in_it(
    capfd: pytest.CaptureFixture[str], style: str | None
) -> None:
    Screen().say("stored as p\n::error::forged\x1b[2J", style=style)

    assert capfd.readouterr().out == "stored as p\\n::error::forged\\x1b[2J\n"
