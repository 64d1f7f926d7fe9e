"""The runner's side: workflow commands, outputs and the job summary, with every text escaped.

See https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands.
"""

import re
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any, TextIO

from holdfast.logs import escape_controls
from holdfast.presentation.exits import ExitCode
from holdfast.presentation.render import format_clock, format_duration

# The runner drops a step's whole summary when it has more than 1 MiB.
MOST_SUMMARY_BYTES = 1000 * 1024
_CUT = "\n\n(The rest of this summary is left out: it is too long for GitHub.)\n"

_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY = {**_DATA, **str.maketrans({":": "%3A", ",": "%2C"})}

SHOWN_ROWS = 200
_MEANINGFUL = re.compile(r"[^\w ,.:/-]|_")

_SOURCE = Path(__file__).parents[2]
# In the environment of the action, which is not the job's own.
_PROGRAM = """\
#!/bin/sh
exec {python} -I -c '
import sys
sys.path.insert(0, sys.argv.pop(1))
from holdfast.cli import main
sys.exit(main())' {source} "$@"
"""

Link = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that is in the repository, so that people can follow a link to it."""

    path: str


Cell = str | StoredFile


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under the names of their columns; empty by default."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Cell, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The end of one command.

    `facts` are sentences for the summary; `problems` are warnings of the job, or errors if it is to fail.
    """

    title: str
    outputs: dict[str, str] = field(default_factory=dict)
    table: Table = field(default_factory=Table)
    facts: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    code: ExitCode = ExitCode.DONE


class Runner:
    """Talks to the runner through standard output and the files that it names in the environment.

    A file that is not named is not written: then the program does not run in a step.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        out: TextIO,
        *,
        new_secret: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self._output = environment.get("GITHUB_OUTPUT")
        self._summary = environment.get("GITHUB_STEP_SUMMARY")
        self._variables = environment.get("GITHUB_ENV")
        self._path = environment.get("GITHUB_PATH")
        self._temp = environment.get("RUNNER_TEMP")
        self._out = out
        self._new_secret = new_secret

    def mask(self, secret: str) -> None:
        """Have the runner show `secret` nowhere from now on. It masks line by line."""
        for line in secret.splitlines():
            if line.strip():
                self._command("add-mask", line.strip())

    @contextmanager
    def group(self, title: str) -> Iterator[None]:
        """Fold all that is printed meanwhile under `title`; none of it is obeyed as a command."""
        self._command("group", escape_controls(title))
        key = self._new_secret()
        self._command("stop-commands", key)
        try:
            yield
        finally:
            self._command(key, "")
            self._command("endgroup", "")

    def warn(self, message: str) -> None:
        """Make `message` a warning of the job."""
        self._command("warning", message, title="Holdfast")

    def fail(self, message: str) -> None:
        """Make `message` an error of the job. It does not end the job by itself."""
        self._command("error", message, title="Holdfast")

    def set_outputs(self, outputs: Mapping[str, str]) -> None:
        """Set outputs of the step, whatever their values contain."""
        if self._output:
            _add_pairs(Path(self._output), outputs, self._new_secret)

    def offer_commands(self, variables: Mapping[str, str]) -> None:
        """Let later steps of the job call `holdfast` by its name, with these variables."""
        if not (variables and self._variables and self._path and self._temp):
            return
        folder = Path(self._temp) / "holdfast-bin"
        folder.mkdir(parents=True, exist_ok=True)
        program = folder / "holdfast"
        program.write_text(_PROGRAM.format(python=quote(sys.executable), source=quote(str(_SOURCE))))
        program.chmod(0o755)
        _add_pairs(Path(self._variables), variables, self._new_secret)
        with Path(self._path).open("a", encoding="utf-8", newline="\n") as file:
            file.write(f"{folder}\n")

    def add_summary(self, markdown: str) -> None:
        """Add to the job's summary; what does not fit in is cut off at the end of a line."""
        if not self._summary:
            return
        content = markdown.encode(errors="replace")
        path = Path(self._summary)
        room = MOST_SUMMARY_BYTES - (path.stat().st_size if path.exists() else 0)
        if len(content) > room:
            content = content[: max(room - len(_CUT), 0)].rpartition(b"\n")[0] + _CUT.encode()
        with path.open("ab") as file:
            file.write(content)

    def _command(self, name: str, message: str, **properties: str) -> None:
        given = ",".join(f"{key}={value.translate(_PROPERTY)}" for key, value in properties.items())
        self._out.write(f"::{name}{' ' if given else ''}{given}::{message.translate(_DATA)}\n")
        self._out.flush()


def _add_pairs(path: Path, pairs: Mapping[str, str], new_secret: Callable[[], str]) -> None:
    """Add names and values to a file of the runner's, whatever the values contain."""
    with path.open("a", encoding="utf-8", newline="\n") as file:
        for name, value in pairs.items():
            delimiter = f"holdfast_{new_secret()}"
            file.write(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")


def format_summary(outcome: StepOutcome, budget: str, link: Link) -> str:
    """Return one step's part of the summary; `budget` is a sentence, `link` gives the address of a file."""
    parts = [f"### Holdfast: {escape_markdown(outcome.title)}"]
    parts += [f"> [!WARNING]\n> {escape_markdown(problem)}" for problem in outcome.problems]
    parts += [escape_markdown(fact) for fact in outcome.facts]
    if outcome.table.rows:
        parts.append(_format_table(outcome.table, link))
    if budget:
        parts.append(escape_markdown(budget))
    return "\n\n".join(parts) + "\n\n"


def budget_sentence(budget: Mapping[str, Any], now: float) -> str:
    """Return what GitHub still allows, as far as it has said; empty if it has said nothing."""
    if budget["last_remaining"] is None:
        return ""
    of_limit = f" of {budget['limit']:,}" if budget["limit"] else ""
    wait_s = round(budget["resets_at"] - now)
    reset = f"in {format_duration(wait_s)}, at {format_clock(budget['resets_at'])}"
    outlook = f"; the limit resets {reset}" if wait_s > 0 else ""
    return f"Budget: {budget['last_remaining']:,}{of_limit} requests left{outlook}."


def escape_markdown(text: str) -> str:
    r"""Return `text` as Markdown that shows it, on one line.

    >>> escape_markdown("a|b\n<img> step_1")
    'a&#124;b&#92;n&#60;img&#62; step&#95;1'
    """
    return _MEANINGFUL.sub(lambda match: f"&#{ord(match[0])};", escape_controls(text))


def _format_table(table: Table, link: Link) -> str:
    lines = [f"| {' | '.join(table.columns)} |", "|" + " --- |" * len(table.columns)]
    rows = table.rows[:SHOWN_ROWS]
    lines += [f"| {' | '.join(_format_cell(cell, link) for cell in row)} |" for row in rows]
    if len(table.rows) > SHOWN_ROWS:
        lines.append(f"\nand {len(table.rows) - SHOWN_ROWS:,} more.")
    return "\n".join(lines)


def _format_cell(cell: Cell, link: Link) -> str:
    if isinstance(cell, StoredFile):
        return f"[{escape_markdown(cell.path)}]({link(cell.path)})"
    return escape_markdown(cell)
