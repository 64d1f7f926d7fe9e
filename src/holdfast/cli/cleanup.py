"""`holdfast cleanup` and `preserve`: retention, and what is kept from it."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, add_run, open_session
from holdfast.errors import GatewayError, RunArchived, UnknownRun
from holdfast.presentation.exits import ExitCode, WrongUse
from holdfast.presentation.render import Screen, format_bytes, format_count
from holdfast.presentation.session import Session
from holdfast.presentation.stopping import stop_on_signals
from holdfast.presentation.user_input import parse_number

if TYPE_CHECKING:
    from holdfast import Holdfast
    from holdfast.retention import SquashReport, SweepReport

_DESCRIPTION = """\
Clean up the repository by the rules of retention. Of the runs last written to, 10 keep everything, up to 50
keep their newest checkpoint, and of older ones that are completed a summary stays.

Nothing is deleted that someone may still need: preserved runs, runs with checkpoints in the spool, the
checkpoint that a run can be resumed from, parts of a kept checkpoint, files that Holdfast did not write. What
is damaged is left alone and named. Everything happens in one commit; when the budget is low the exit code is
75, and the next cleanup goes on.

Deleted files stay in git's history. --squash-history rewrites the branch to a commit of its present files,
without parents; nothing that is written meanwhile is lost. GitHub frees the space some time later."""


def register(commands: Commands) -> None:
    """Add the two commands."""
    cleanup = commands.add("cleanup", run, description=_DESCRIPTION, example="holdfast cleanup --dry-run")
    cleanup.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    cleanup.add_argument(
        "--squash-history", action="store_true", help="then rewrite the branch without what was deleted"
    )
    cleanup.add_argument(
        "--keep-days", type=days, metavar="D", help="with --squash-history: keep the commits of D days"
    )
    cleanup.add_argument(
        "--force", metavar="BRANCH", default="", help="squash even the default branch, which this must name"
    )
    cleanup.add_argument(
        "--unguarded",
        action="store_true",
        help="squash even where the server has no GraphQL; nobody may write meanwhile",
    )
    preserve = commands.add(
        "preserve",
        preserve_run,
        operands="RUN",
        description="Preserve a run: cleanup never touches it. preserved_runs.json on the branch lists them.",
        example="holdfast preserve build-42",
    )
    add_run(preserve)
    preserve.add_argument("--remove", action="store_true", help="let the run be cleaned up again")


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Clean up, or say what that would do."""
    is_about_squash = arguments.keep_days is not None or arguments.force or arguments.unguarded
    if is_about_squash and not arguments.squash_history:
        raise WrongUse(
            "--keep-days, --force and --unguarded go with --squash-history; see holdfast cleanup --help"
        )
    if arguments.squash_history and arguments.dry_run:
        raise WrongUse("--squash-history has no dry run; leave one of them out")
    with stop_on_signals() as stop, open_session(arguments, stop=stop) as session:
        return _clean_up(arguments, session, screen)


def _clean_up(arguments: argparse.Namespace, session: Session, screen: Screen) -> ExitCode:
    from holdfast.errors import Stopped, SweepBusy, Throttled
    from holdfast.presentation.sweeps import sweep_document
    from holdfast.retention import SweepReport
    from holdfast.retention.plan import RetentionPlan

    holdfast = session.holdfast
    report, squashed = SweepReport(RetentionPlan(())), None
    try:
        report = holdfast.cleanup(dry_run=arguments.dry_run)
        if arguments.squash_history and not report.rest_because:
            squashed = holdfast.squash_history(
                keep_days=arguments.keep_days, force=arguments.force, unguarded=arguments.unguarded
            )
    except (Throttled, SweepBusy, Stopped) as error:
        report.rest_because = str(error)
    if screen.is_json:
        document = sweep_document(report, session.assembly.layout, is_dry_run=arguments.dry_run)
        screen.document({**asdict(document), "squash": asdict(squashed) if squashed else None})
    elif report.plan.runs or not report.rest_because:
        _print_sweep(report, screen, is_dry_run=arguments.dry_run)
        if squashed:
            _print_squash(squashed, screen)
    if report.rest_because:
        screen.warn(f"not everything is cleaned up, the next cleanup goes on: {report.rest_because}")
        return ExitCode.WORK_LEFT
    return ExitCode.DONE


def _print_sweep(report: "SweepReport", screen: Screen, *, is_dry_run: bool) -> None:
    """Print what becomes of the runs: a table of those that change or are left alone, and the sum."""
    from holdfast.presentation.sweeps import COLUMNS, changes_of, size_of, sweep_rows

    rows = sweep_rows(report, is_dry_run=is_dry_run)
    if rows:
        screen.table(COLUMNS, rows, right=("files", "bytes"))
        screen.say()
    for path in report.strangers:
        screen.say(f"Left alone, as Holdfast did not write it: {path}")
    changes = changes_of(report, is_dry_run=is_dry_run)
    runs = format_count(len(report.plan.runs), "run")
    if not changes:
        screen.say(f"Nothing to clean up in {runs}.")
    elif is_dry_run:
        screen.say(f"Would delete {size_of(changes)} of {len(changes):,} of {runs}.")
    else:
        screen.say(f"Deleted {size_of(changes)} in {format_count(len(report.commits), 'commit')}.")


def _print_squash(report: "SquashReport", screen: Screen) -> None:
    """Print what a squash did."""

    def say(number: int | None) -> str:
        return "not known" if number is None else f"{number:,}"

    before, after = report.bytes_before, report.bytes_after
    late = "by GitHub's own figure, which falls once it has collected its garbage"
    files = "not known" if report.branch_bytes is None else format_bytes(report.branch_bytes)
    screen.facts(
        [
            ("commits", f"{say(report.commits_before)} before, {say(report.commits_after)} now"),
            ("files", files),
            ("repository", f"{format_bytes(before)} before, {format_bytes(after)} now {late}"),
        ]
    )


def preserve_run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Put a run into the list of preserved ones, or take it out."""
    run_id = arguments.run_id
    with open_session(arguments) as session:
        holdfast = session.holdfast
        is_changed = holdfast.unpreserve(run_id) if arguments.remove else holdfast.preserve(run_id)
        doubt = _doubt(holdfast, run_id) if is_changed and not arguments.remove else ""
    is_preserved = not arguments.remove
    if doubt:
        screen.warn(doubt)
    if screen.is_json:
        screen.document({"run_id": run_id, "preserved": is_preserved, "changed": is_changed})
        return ExitCode.DONE
    words = {
        (True, True): f"{run_id} is preserved: cleanup never touches it.",
        (True, False): f"{run_id} was preserved already.",
        (False, True): f"{run_id} is no longer preserved.",
        (False, False): f"{run_id} was not preserved.",
    }
    screen.say(words[is_preserved, is_changed])
    return ExitCode.DONE


def _doubt(holdfast: "Holdfast", run_id: str) -> str:
    """Return why it may not be what was meant to preserve this run; nothing if it has checkpoints."""
    try:
        holdfast.checkpoints(run_id)
    except RunArchived:
        left = "of its checkpoints only a summary is left, which is preserved from now on"
        return f"Run {run_id} is archived: {left}; its checkpoints are gone."
    except UnknownRun:
        return f"There is no run {run_id} yet, neither stored nor spooled. Is it spelled right?"
    except GatewayError:
        return ""  # it cannot be told just now, and need not be
    return ""


def days(text: str) -> float:
    """Return a number of days. Raises ArgumentTypeError."""
    number = parse_number(text)
    if not 0 < number < 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days, such as 7")
    return number
