"""The job summary, as Markdown in which nothing but our own marks means anything."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.action.outcome import Cell, StepOutcome, StoredFile, Table
from holdfast.logs import escape_controls
from holdfast.presentation.render import format_clock, format_duration

SHOWN_ROWS = 200

_MEANINGFUL = re.compile(r"[^\w ,.:/-]|_")

Link = Callable[[str], str]


def format_summary(outcome: StepOutcome, budget: str, link: Link) -> str:
    """Return one step's part of the summary; `budget` is a sentence, `link` gives the address of a file."""
    parts = [f"### Holdfast: {escape(outcome.title)}"]
    parts += [f"> [!WARNING]\n> {escape(problem)}" for problem in outcome.problems]
    parts += [escape(fact) for fact in outcome.facts]
    if outcome.table.rows:
        parts.append(_table(outcome.table, link))
    if budget:
        parts.append(escape(budget))
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


def escape(text: str) -> str:
    r"""Return `text` as Markdown that shows it, on one line.

    >>> escape("a|b\n<img> step_1")
    'a&#124;b&#92;n&#60;img&#62; step&#95;1'
    """
    return _MEANINGFUL.sub(lambda match: f"&#{ord(match[0])};", escape_controls(text))


def _table(table: Table, link: Link) -> str:
    lines = [f"| {' | '.join(table.columns)} |", "|" + " --- |" * len(table.columns)]
    lines += [f"| {' | '.join(_cell(cell, link) for cell in row)} |" for row in table.rows[:SHOWN_ROWS]]
    if len(table.rows) > SHOWN_ROWS:
        lines.append(f"\nand {len(table.rows) - SHOWN_ROWS:,} more.")
    return "\n".join(lines)


def _cell(cell: Cell, link: Link) -> str:
    if isinstance(cell, StoredFile):
        return f"[{escape(cell.path)}]({link(cell.path)})"
    return escape(cell)
