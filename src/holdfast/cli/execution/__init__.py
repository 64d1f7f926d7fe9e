"""`holdfast exec`: a command as a step of a run."""

import argparse
import gc
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, overrides
from holdfast.logs import escape_controls
from holdfast.presentation.exits import ExitCode, WrongUse
from holdfast.presentation.render import Screen
from holdfast.presentation.session import open_with, settings_from
from holdfast.presentation.user_input import check_run_id

if TYPE_CHECKING:
    from holdfast.assembly import Assembly
    from holdfast.cli.execution.passage import Passage
    from holdfast.cli.execution.record import StepRecord
    from holdfast.cli.execution.shared_steps import SharedSteps
    from holdfast.cli.execution.signals import SignalRelay
    from holdfast.repository.reader import Reader

RUN_VARIABLE = "HOLDFAST_RUN_ID"

_DESCRIPTION = """\
Run a command as a step of a run, so that the script around it can be started again and goes on from there.

A step that is completed is skipped. It is saved before and after, when it fails, and when a signal comes.
Output, input, signals and the exit code are those of the command; nothing that goes wrong here stops it.
Only what is meant to does: a step that is running already, or a claim that was lost (exit 75); a run that was
stopped (exit 1).
RUN may stand in HOLDFAST_RUN_ID instead."""


def register(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "exec",
        run,
        operands="[RUN] --step NAME -- COMMAND …",
        description=_DESCRIPTION,
        example="holdfast exec nightly-7 --step build -- make all",
        prints_data=False,
    )
    parser.takes_command = True
    parser.add_argument("run_id", metavar="RUN", nargs="?", type=check_run_id)
    parser.add_argument("--step", metavar="NAME", required=True, help="the step, by a name of your own")
    parser.add_argument("--workflow", help="name or path of the workflow")
    parser.add_argument(
        "--exclusive",
        action="store_true",
        help="only if no other process drives the run: else the command is not run, and the exit code is 75",
    )
    parser.set_defaults(claim=None)
    parser.add_argument(
        "--no-output",
        action="store_true",
        help="keep nothing of the output; the command writes straight to where we would",
    )


def run(arguments: argparse.Namespace, _screen: Screen) -> int:
    """Run the command unless its step is completed, and return its exit code."""
    from holdfast.cli.execution.passage import Passage
    from holdfast.cli.execution.record import StepRecord
    from holdfast.cli.execution.signals import SignalRelay

    if not arguments.command:
        raise WrongUse("name the command after --, such as: holdfast exec nightly-7 --step build -- make all")
    if not arguments.step.strip():
        raise WrongUse("--step needs a name")
    if not _is_text(arguments.step):
        raise WrongUse("--step: this name is not UTF-8; use one that is")
    arguments.run_id = arguments.run_id or _run_from_environment()
    relay = SignalRelay()
    relay.open()
    try:
        record = StepRecord(arguments.step, lambda stack: _open_steps(arguments, record, stack), _warn)
        with _loading_quickly():
            beginning = record.begin()
        if arguments.exclusive and arguments.claim is None:
            _warn(
                f"{arguments.run_id} could not be claimed: the command was not run; try again later, or see "
                "holdfast doctor"
            )
            record.close("if it was claimed all the same, the claim ends by itself")
            return ExitCode.WORK_LEFT
        if not beginning.is_to_run:
            _warn(beginning.sentence)
            record.close()
            return beginning.code
        inherited = () if beginning.lock is None else (beginning.lock,)
        passage = Passage(relay, keeps_output=not arguments.no_output, inherited=inherited)
        code = _run_step(arguments, record, relay, passage)
        if arguments.claim and not arguments.claim.is_held:
            _warn(f"{arguments.run_id} may have been taken over meanwhile: this step counts as not done")
            code = code or ExitCode.WORK_LEFT
        record.close()
        passage.leave_behind()
    finally:
        relay.close()
        _settle_errors()
    return code


@contextmanager
def _loading_quickly() -> Iterator[None]:
    """Look for no garbage meanwhile: what is loaded stays, and looking takes a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _run_step(
    arguments: argparse.Namespace, record: "StepRecord", relay: "SignalRelay", passage: "Passage"
) -> int:
    """Run the command and save how it ended; return its exit code."""
    from holdfast.cli.execution.passage import NOT_EXECUTABLE, NOT_FOUND
    from holdfast.cli.execution.signals import ENDING, name_of

    if relay.is_stopped():
        record.interrupt()
        return 128 + (relay.stopped_by or 0)
    relay.stopping = lambda _number: record.interrupt()
    began_at = time.monotonic()
    try:
        ended = passage.run(arguments.command)
    except OSError as error:
        _warn(f"cannot run {arguments.command[0]!r}: {error.strerror}")
        record.fail(f"it could not be started: {error.strerror}", None)
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
    duration_s = round(time.monotonic() - began_at, 3)
    output = None if arguments.no_output else passage.tail.text()
    # A step that was told to stop is repeated, whatever it says: skipping it could lose work.
    if relay.is_stopped():
        return ended.code
    if passage.unwritten and not ended.code:
        # Without us, the command itself would have been told.
        _warn(f"the output could not be written: {passage.unwritten}")
        record.fail(f"its output could not be written: {passage.unwritten}", output)
        return ExitCode.FAILED
    if ended.signal in ENDING:
        record.interrupt()
    elif ended.signal is not None:
        record.fail(f"ended by {name_of(ended.signal)}", output)
    elif ended.code:
        record.fail(f"exit code {ended.code}", output)
    else:
        record.complete(output, duration_s)
    return ended.code


def _open_steps(arguments: argparse.Namespace, record: "StepRecord", stack: ExitStack) -> "SharedSteps":
    from holdfast.cli.execution.shared_steps import SharedSteps
    from holdfast.disk import make_private_folder
    from holdfast.security.trust import Trust

    settings = settings_from(overrides(arguments))
    if "log_level" not in settings.sources:
        # What matters is told in a sentence; the rest of standard error is the command's.
        settings = replace(settings, log_level="error")
    session = stack.enter_context(open_with(settings))
    assembly = session.assembly
    if arguments.exclusive:
        arguments.claim = stack.enter_context(session.holdfast.claim(arguments.run_id))
    elif fence := _fence_from_environment(arguments.run_id):
        session.holdfast.carry_fence(arguments.run_id, fence)

    def read() -> "Reader | None":
        home = assembly.home(arguments.run_id)
        seen = home.peek(arguments.run_id)
        if seen and not seen[1]:
            return None
        if seen:
            return read_at(home, *seen)
        # Loaded before anyone looks at the time: what is waited for is GitHub's answer.
        _ = home.reading_client
        return home.reader

    make_private_folder(assembly.folder)  # that of several shards is made by nobody else
    return SharedSteps(
        run_id=arguments.run_id,
        reader=read,
        local_reader=lambda: assembly.intake(arguments.run_id).reader,
        spool=assembly.spool,
        submit=session.holdfast.submit,
        folder=assembly.folder,
        clock=assembly.clock,
        warn=record.tell,
        workflow=arguments.workflow,
        working_directory=str(Path.cwd()),
        trust=Trust(assembly.keyring),
    )


def read_at(home: "Assembly", head: str, files: Mapping[str, str]) -> "Reader":
    """Return what reads a run of which these are the files in the newest commit, name to blob SHA.

    Where the local copy does not have what is read first, GitHub is started: not while the time is looked at.
    """
    from holdfast.format.paths import INDEX, LATEST
    from holdfast.format.run_snapshot import RemoteFile

    wanted = [files.get(name, "") for name in (INDEX, LATEST)]
    if len(home.cache.blobs(wanted)) < len(wanted):
        _ = home.reading_client
    # Not kept: without the sizes, it is no listing that others could use.
    return home.reader.at_commit(head, {name: RemoteFile(sha, 0) for name, sha in files.items()})


def _fence_from_environment(run_id: str) -> int:
    """Return the fence of the claim that the job holds of its run; 0 if it holds none."""
    from holdfast.library import FENCE_VARIABLE

    fence = os.environ.get(FENCE_VARIABLE, "")
    is_its_run = run_id == os.environ.get(RUN_VARIABLE)
    return int(fence) if is_its_run and fence.isdecimal() else 0


def _run_from_environment() -> str:
    named = os.environ.get(RUN_VARIABLE)
    if not named:
        raise WrongUse(f"name the run, or set {RUN_VARIABLE}; see holdfast exec --help")
    try:
        return check_run_id(named)
    except argparse.ArgumentTypeError as error:
        raise WrongUse(f"{RUN_VARIABLE}: {error}") from error


def _is_text(argument: str) -> bool:
    try:
        argument.encode()
    except UnicodeEncodeError:  # bytes of the command line that are no UTF-8
        return False
    return True


def _warn(sentence: str) -> None:
    # Past the buffer of sys.stderr: what cannot be written there would change our exit code.
    with suppress(OSError):
        os.write(2, f"holdfast: {escape_controls(sentence)}\n".encode(errors="backslashreplace"))


def _settle_errors() -> None:
    """Drop what others could not write to standard error: the interpreter's exit code would tell of it."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        with suppress(OSError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)
