"""`holdfast drain`: from the spool into the repository."""

import argparse
import threading
from functools import partial
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, add_timeout, open_session
from holdfast.presentation.exits import ExitCode
from holdfast.presentation.render import Advance, Screen, format_count, format_duration
from holdfast.presentation.session import Session
from holdfast.presentation.stopping import LastWords, stop_on_signals

if TYPE_CHECKING:
    from holdfast.drain.worker import DrainResult

_DESCRIPTION = """\
Drain the spool into the repository. Each checkpoint leaves the spool once it is verified there.

Where GitHub's limits leave no room, or it does not answer, --timeout says how long to wait and to try again;
then, if anything is left, the exit code is 75 and the reason is told. SIGTERM or SIGINT ends a drain after
the write under way, in the same way."""

_HANGING = "GitHub did not answer in time; whether the write under way has landed is found out next time"


def register(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add("drain", run, description=_DESCRIPTION, example="holdfast drain --timeout 600")
    add_timeout(parser)


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Drain once and tell what came of it."""
    last_words = LastWords(ExitCode.WORK_LEFT)
    # Before anything else: what follows takes a while to load.
    with stop_on_signals(last_words) as stop, open_session(arguments, stop=stop) as session:
        from holdfast.drain.worker import DrainResult
        from holdfast.errors import DatabaseAway, SpoolBusy

        verified = 0

        def count(done: int, _left: int) -> None:
            nonlocal verified
            verified = done

        def result_so_far(reason: str) -> DrainResult:
            return DrainResult(verified, session.assembly.spool.status(0.0).depth, reason)

        last_words.tell = lambda: _report(result_so_far(_HANGING), session, screen, stop)
        try:
            result = drain(session, screen, timeout_s=arguments.timeout, on_progress=count)
        except SpoolBusy as error:
            result = result_so_far(str(error))
        except DatabaseAway as error:
            # How many wait there is not known; what waits on this disk moves over once it is back.
            depth = session.assembly.spool.status(0.0).depth
            screen.warn(f"{error}; on this disk: {format_count(depth)}, to move over once it is back")
            return ExitCode.WORK_LEFT
        return _report(result, session, screen, stop)


def drain(
    session: Session,
    screen: Screen,
    *,
    timeout_s: float = 0.0,
    on_progress: Advance = lambda _verified, _left: None,
    tidies: bool = True,
) -> "DrainResult":
    """Drain what is spooled, with a progress bar on a terminal. Raises SpoolBusy."""
    from holdfast.drain.worker import DrainResult
    from holdfast.errors import Stopped

    spool = session.assembly.spool
    # A list cannot be had of a database that has no room for what waits on this disk, until it is drained.
    depth = spool.status(0.0).depth
    if not depth:
        return DrainResult(0, 0)
    shards = session.assembly.shards
    done: dict[int, int] = {}

    with screen.progress("draining", depth) as advance:

        def note(place: int, verified: int, left: int) -> None:
            done[place] = verified
            others = sum(shard.spool.status(0.0).depth for shard in shards if shard is not shards[place])
            advance(sum(done.values()), left + others)
            on_progress(sum(done.values()), left + others)

        for place, shard in enumerate(shards):
            shard.worker.on_progress(partial(note, place))
            shard.rate_limiter.begin_run()
        try:
            return session.holdfast.drain(timeout_s=timeout_s, tidies=tidies)
        except Stopped as error:
            return DrainResult(sum(done.values()), spool.status(0.0).depth, str(error))


def _report(result: "DrainResult", session: Session, screen: Screen, stop: threading.Event) -> ExitCode:
    status = session.holdfast.status()
    set_aside = status["spool"]["set_aside"]
    is_stopped = stop.is_set()
    if screen.is_json:
        screen.document(
            {
                "verified": result.verified,
                "left": result.left,
                "set_aside": set_aside,
                "reason": result.reason or None,
                "retry_in_s": round(result.retry_in_s, 1),
                "stopped": is_stopped,
                "calls": status["budget"]["calls_this_run"] if result.verified else 0,
            }
        )
    else:
        screen.say(f"{format_count(result.verified)} verified, {result.left:,} left in the spool.")
    if set_aside:
        screen.warn(f"{format_count(set_aside)} set aside, which GitHub will not take; see holdfast status")
    if not result.left:
        return ExitCode.DONE
    reason = result.reason or "they came in while this drain ended"
    outlook = f"; the next try is in {format_duration(result.retry_in_s)}" if result.retry_in_s else ""
    screen.warn(f"{format_count(result.left)} left in the spool: {reason.rstrip('.')}{outlook}")
    return ExitCode.WORK_LEFT
