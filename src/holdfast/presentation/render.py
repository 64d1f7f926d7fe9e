"""What people see: sentences, tables, a progress bar; colour on a terminal only. Or one JSON document."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

from holdfast.logs import escape_controls, escape_json
from holdfast.presentation.exits import CommandFailed

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

Advance = Callable[[int, int], None]

# Wide enough for every row: what reads a pipe must not have to join lines again.
_PIPE_WIDTH = 10_000
# To lay out a larger one cell by cell takes rich a minute for ten thousand rows.
_MOST_ROWS_LAID_OUT = 200
_GAP = "  "
_STYLES = {
    "verified": "green",
    "stored": "green",
    "completed": "green",
    "in_progress": "cyan",
    "spooled": "yellow",
    "committed": "yellow",
    "delayed": "yellow",
    "interrupted": "yellow",
    "failed": "red",
    "refused": "red",
    "ok": "green",
    "FAILED": "bold red",
}


def has_colour(stream: TextIO) -> bool:
    """Whether `stream` is a terminal whose user wants colour (see https://no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at `stream`."""
    return not stream.closed and stream.isatty()


class Screen:
    """Where a command prints. With `is_json`, only the JSON document goes to standard output."""

    def __init__(self, *, is_json: bool = False) -> None:
        self.is_json = is_json

    def say(self, text: str = "", *, style: str | None = None) -> None:
        """Print a line for people."""
        if self.is_json:
            return
        with writing_answer():
            if style and has_colour(sys.stdout):
                _console(sys.stdout).print(escape_controls(text), style=style, soft_wrap=True)
            else:
                sys.stdout.write(f"{escape_controls(text)}\n")

    def warn(self, text: str) -> None:
        """Print a line for people on standard error, also beside a JSON document."""
        sys.stderr.write(f"holdfast: {escape_controls(text)}\n")

    def document(self, value: object) -> None:
        """Print the one JSON document, on one line, and let go of it at once."""
        import orjson

        self.content(orjson.dumps(value))

    def content(self, text: bytes) -> None:
        """Print JSON, or a line, exactly as it is; what a terminal would obey is spelled out there."""
        if is_terminal(sys.stdout):
            text = escape_json(text.decode(errors="backslashreplace")).encode()
        with writing_answer():
            sys.stdout.flush()
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.write(b"\n")
            sys.stdout.buffer.flush()

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
    ) -> None:
        """Print a table for people; the columns named in `right` hold numbers."""
        if not is_terminal(sys.stdout) or len(rows) > _MOST_ROWS_LAID_OUT:
            self._print_plain(columns, rows, right)
            return
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column, justify="right" if column in right else "left", overflow="fold")
        for row in rows:
            table.add_row(*map(_cell, row))
        self._print(table)

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Print names with what there is to say of each."""
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, text in facts:
            table.add_row(_cell(name), _cell(text))
        self._print(table)

    @contextmanager
    def progress(self, label: str, total: int) -> Iterator[Advance]:
        """Show a bar on standard error while this lasts, if that is a terminal; it is told (done, left)."""
        if self.is_json or total == 0 or not is_terminal(sys.stderr):
            yield lambda _done, _left: None
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=_console(sys.stderr), transient=True) as bar:
            task = bar.add_task(label, total=total)
            yield lambda done, left: bar.update(task, completed=done, total=done + left)

    def _print_plain(
        self, columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str]
    ) -> None:
        """Print a table as it looks on a page of any width, a line for each row."""
        if self.is_json:
            return
        cells = [columns, *([escape_controls(cell) for cell in row] for row in rows)]
        widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
        for row in cells:
            padded = (
                " " * (width - _width(cell)) + cell if name in right else cell + " " * (width - _width(cell))
                for name, cell, width in zip(columns, row, widths, strict=True)
            )
            with writing_answer():
                sys.stdout.write(f"{_GAP.join(padded).rstrip()}\n")

    def _print(self, renderable: "RenderableType") -> None:
        if self.is_json:
            return
        console = _console(sys.stdout)
        with writing_answer(), console.capture() as captured:
            console.print(renderable)
        with writing_answer():
            for line in captured.get().splitlines():
                sys.stdout.write(f"{line.rstrip()}\n")


@contextmanager
def writing_answer() -> Iterator[None]:
    """Say that it is standard output that cannot be written to, and no other disk. Raises CommandFailed."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise CommandFailed(
            f"standard output cannot be written to: {reason}; only what it would have said is lost"
        ) from error


def _width(text: str) -> int:
    """Return how many columns a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def format_bytes(number: int) -> str:
    """Return a number of bytes for people.

    >>> format_bytes(512), format_bytes(1536), format_bytes(12 * 1024**2)
    ('512 B', '1.5 KB', '12.0 MB')
    """
    size = float(number)
    for unit in ("B", "KB", "MB"):
        if size < 1024:
            return f"{size:.1f} {unit}" if unit != "B" else f"{number} B"
        size /= 1024
    return f"{size:.1f} GB"


def format_duration(duration_s: float) -> str:
    """Return a length of time for people.

    >>> format_duration(0.4), format_duration(59), format_duration(180), format_duration(9000)
    ('less than 1 s', '59 s', '3 min', '2.5 h')
    """
    if duration_s < 1:
        return "less than 1 s"
    if duration_s < 120:
        return f"{duration_s:.0f} s"
    if duration_s < 7200:
        return f"{duration_s / 60:.0f} min"
    return f"{duration_s / 3600:.1f} h"


def format_clock(seconds: float) -> str:
    """Return a moment, given in seconds since the epoch, for people.

    >>> format_clock(0)
    '1970-01-01 00:00:00 UTC'
    """
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def format_count(number: int, noun: str = "checkpoint") -> str:
    """Return a number with what it counts.

    >>> format_count(1), format_count(1200)
    ('1 checkpoint', '1,200 checkpoints')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _cell(text: str) -> "Text":
    from rich.text import Text

    return Text(escape_controls(text), style=_STYLES.get(text, ""))


def _console(stream: TextIO) -> "Console":
    from rich.console import Console

    return Console(
        file=stream,
        color_system="auto" if has_colour(stream) else None,
        width=None if is_terminal(stream) else _PIPE_WIDTH,
        highlight=False,
        markup=False,
        emoji=False,
    )
