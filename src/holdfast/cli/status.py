"""`holdfast status`: how the spool and the budget stand."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.cli.arguments import Commands, open_session
from holdfast.presentation.exits import ExitCode
from holdfast.presentation.render import Screen, format_bytes, format_clock, format_count, format_duration

_DESCRIPTION = """\
Show the spool, the budget and the last error. GitHub is not asked, and nothing is changed."""


def register(commands: Commands) -> None:
    """Add the command."""
    commands.add("status", run, description=_DESCRIPTION, example="holdfast status --json")


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Print how things stand."""
    with open_session(arguments) as session:
        status = session.holdfast.status()
    if screen.is_json:
        screen.document(status)
    else:
        screen.facts(list(_facts(status)))
    return ExitCode.DONE


def _facts(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    where = f"{status['repository']}, branch {status['branch']}"
    yield "repository", f"{where} (the embedded GitHub)" if status["is_embedded"] else where
    yield "spool", _spool(status["spool"])
    yield from _set_aside(status)
    yield "budget", _budget(status["budget"])
    # The embedded GitHub has no limits to make a forecast from.
    if status["spool"]["depth"] and not status["is_embedded"]:
        yield "forecast", _forecast(status["budget"]["drain_forecast_s"])
    if status["drained_by"]:
        yield "drained by", status["drained_by"]
    if status["saves_refused"]:
        yield "refuses", f"new checkpoints: {status['saves_refused']}"
    yield "last error", status["last_error"] or "none"
    if status["next_try"]:
        yield "next try", _next_try(status)
    for shard in status["shards"]:
        yield "shard", f"{shard['repository']}: {_spool(shard['spool'])}; {_budget(shard['budget'])}"
    for other in status["other_targets"]:
        yield "elsewhere", _other(other)


def _forecast(drain_forecast_s: float | None) -> str:
    if drain_forecast_s is None:
        return "not known before the error below is mended or over"
    return f"{format_duration(drain_forecast_s)} to drain, as the limits stand"


def _next_try(status: Mapping[str, Any]) -> str:
    next_try = status["next_try"]
    when = f"in {format_duration(next_try['in_s'])}, at {format_clock(next_try['at'])}"
    if not status["last_error"]:
        return f"{when}: {next_try['because']}"
    return f"{when if next_try['in_s'] else 'due'}; holdfast drain makes one at once"


def _spool(spool: Mapping[str, Any]) -> str:
    if not spool["depth"]:
        return "empty"
    age = format_duration(spool["oldest_age_s"])
    return f"{format_count(spool['depth'])}, {format_bytes(spool['bytes'])}, the oldest waits for {age}"


def _set_aside(status: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    number = status["spool"]["set_aside"]
    if number:
        yield "set aside", f"{format_count(number)}, {format_bytes(status['spool']['set_aside_bytes'])}"
    for entry in status["set_aside"]:
        yield (
            "",
            f"{entry['run_id']} #{entry['sequence_number']} ({entry['checkpoint_id']}): {entry['reason']}",
        )
    if number:
        yield "", "they are kept; once GitHub takes them: holdfast spool restore [ID…] && holdfast drain"
    if status["spool"]["lost"]:
        yield "lost", f"{format_count(status['spool']['lost'])} in a damaged spool, which is kept beside it"


def _budget(budget: Mapping[str, Any]) -> str:
    calls = format_count(budget["calls_this_run"], "call")
    if budget["last_remaining"] is None:
        return f"GitHub has not been asked yet; {calls} this run"
    left = f"{budget['last_remaining']:,} of {budget['limit']:,} calls left"
    parts = [f"{left} until {format_clock(budget['resets_at'])}", f"{calls} this run"]
    if budget["blocked_until"]:
        parts.append(f"no calls before {format_clock(budget['blocked_until'])}: {budget['blocked_because']}")
    return "; ".join(parts)


def _other(other: Mapping[str, Any]) -> str:
    if other["depth"] is None:
        return f"the spool for {other['repository']} cannot be opened ({other['folder']})"
    waiting = format_count(other["depth"] + other["set_aside"])
    return f"{waiting} for {other['repository']}, in {other['folder']}; drain with the settings of that time"
