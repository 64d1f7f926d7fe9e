"""The job summary, as Markdown in which nothing but our own marks means anything."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdfast.action.outcome import Outcome, Row
from holdfast.cli.render import format_clock
from holdfast.logs import escape_controls

SHOWN_ROWS = 200

_MEANINGFUL = re.compile(r"[^\w ,.:/-]|_")
_COLUMNS = ("run", "#", "trigger", "phase", "status", "file")

Link = Callable[[str], str]


def format_summary(outcome: Outcome, budget: Mapping[str, Any] | None, link: Link) -> str:
    """Return one step's part of the summary; `link` gives the address of a file."""
    parts = [f"### Holdfast: {escape(outcome.title)}"]
    parts += [f"> [!WARNING]\n> {escape(problem)}" for problem in outcome.problems]
    parts += [escape(fact) for fact in outcome.facts]
    if outcome.rows:
        parts.append(_table(outcome.rows, link))
    if sentence := budget and budget_sentence(budget):
        parts.append(escape(sentence))
    return "\n\n".join(parts) + "\n\n"


def budget_sentence(budget: Mapping[str, Any]) -> str:
    """Return what GitHub still allows, as far as it has said; empty if it has said nothing."""
    if budget["last_remaining"] is None:
        return ""
    of_limit = f" of {budget['limit']:,}" if budget["limit"] else ""
    until = f" until {format_clock(budget['last_reset'])}" if budget["last_reset"] else ""
    return f"Budget: {budget['last_remaining']:,}{of_limit} requests left{until}."


def escape(text: str) -> str:
    r"""Return `text` as Markdown that shows it, on one line.

    >>> escape("a|b\n<img> step_1")
    'a&#124;b&#92;n&#60;img&#62; step&#95;1'
    """
    return _MEANINGFUL.sub(lambda match: f"&#{ord(match[0])};", escape_controls(text))


def _table(rows: Sequence[Row], link: Link) -> str:
    lines = [f"| {' | '.join(_COLUMNS)} |", "|" + " --- |" * len(_COLUMNS)]
    for row in rows[:SHOWN_ROWS]:
        cells = [escape(text) for text in (row.run_id, row.sequence, row.trigger, row.phase, row.status)]
        lines.append(f"| {' | '.join([*cells, _file(row, link)])} |")
    if len(rows) > SHOWN_ROWS:
        lines.append(f"\nand {len(rows) - SHOWN_ROWS:,} more.")
    return "\n".join(lines)


def _file(row: Row, link: Link) -> str:
    """Return the file's name; as a link once the file is there."""
    name = escape(row.file_path.rpartition("/")[2])
    return f"[{name}]({link(row.file_path)})" if row.status in ("verified", "stored") else name
