"""From the environment to the exit code: reads the inputs, carries out the command, tells what came of it."""

import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import redirect_stderr

from holdfast.action.claims import find_claim
from holdfast.action.commands import CANCELLED, ActionStep, carry_out
from holdfast.action.handover import hand_over
from holdfast.action.inputs import (
    must_fail,
    read_inputs,
    read_matrix,
    read_secrets,
    read_settings,
    variables_of_job,
)
from holdfast.action.job import Job
from holdfast.action.runner import Runner, StepOutcome, budget_sentence, format_summary
from holdfast.errors import HoldfastError
from holdfast.library import FENCE_VARIABLE
from holdfast.logs import escape_controls
from holdfast.presentation.exits import ExitCode, WrongUse, describe, exit_code_of
from holdfast.presentation.session import open_with
from holdfast.presentation.stopping import release_signals, stop_on_signals

# A cancelled job gets SIGINT, and SIGTERM 7.5 s later: by then everything is told. At first the work goes on,
# so that a checkpoint still reaches a GitHub that answers: maybe no later step carries it on.
GRACE_S = 3.0
END_S = 2.0
_POLL_S = 0.2

Work = Callable[[], StepOutcome]


def main(environment: Mapping[str, str]) -> int:
    """Carry out one step and return its exit code, which is 0 unless a failure is to fail the step.

    Everything goes to standard output, so that the runner sees commands and logs in their order.
    """
    with redirect_stderr(sys.stdout):
        return _main(environment, Runner(environment, sys.stdout))


def _main(environment: Mapping[str, str], runner: Runner) -> int:
    is_fatal = must_fail(environment)
    for secret in read_secrets(environment):
        runner.mask(secret)
    variables: dict[str, str] = {}
    try:
        outcome, summary = _run(environment, runner, variables)
    except (HoldfastError, WrongUse, OSError) as error:
        outcome, summary = _failure(describe(error), exit_code_of(error))
    except Exception as error:
        # A checkpoint never breaks a build, also not by what nobody thought of.
        with runner.group("Holdfast: traceback"):
            traceback.print_exception(error, file=sys.stdout)
        outcome, summary = _failure(f"an unexpected {type(error).__name__}: {error}", ExitCode.FAILED)
    for problem in outcome.problems:
        (runner.fail if is_fatal else runner.warn)(problem)
    try:
        runner.mask(outcome.outputs.get("claim-token", ""))
        runner.set_outputs(outcome.outputs)
        runner.offer_commands(variables)
        runner.add_summary(summary)
    except OSError as error:
        runner.warn(f"outputs or summary could not be written: {error}")
    return outcome.code if is_fatal else ExitCode.DONE


def _run(
    environment: Mapping[str, str], runner: Runner, variables: dict[str, str]
) -> tuple[StepOutcome, str]:
    """Carry out the command in the time that a cancelled job has. Returns the outcome and its summary.

    Into `variables` go those with which later steps of the job work on the same run.
    """
    job = Job.from_environment(environment, matrix=read_matrix(environment))
    inputs, settings = read_inputs(environment, job), read_settings(environment, job)
    variables |= variables_of_job(inputs, settings)
    stop = threading.Event()
    with (
        stop_on_signals() as cancelled,
        runner.group(f"Holdfast: {inputs.command}"),
        open_with(settings, stop=stop) as session,
    ):
        release_signals()
        step = ActionStep(inputs, job, session, cancelled)
        try:
            outcome = finish_in_time(lambda: carry_out(step), cancelled, stop) or _abandon(step)
        finally:
            # Also where there is none: it may be set for another run, by an earlier step.
            claim = find_claim(job, inputs.run_id)
            variables[FENCE_VARIABLE] = str(claim.fence) if claim else ""
        budget = budget_sentence(session.holdfast.status()["budget"], session.assembly.clock.now())
        for line in (outcome.title, *outcome.facts, budget):
            sys.stdout.write(f"{escape_controls(line)}\n")

        def link(path: str) -> str:
            run_id = path.removeprefix(f"{settings.base_path}/").partition("/")[0]
            return job.file_url(session.assembly.home(run_id).repository, settings.branch, path)

        return outcome, format_summary(outcome, budget, link)


def finish_in_time(work: Work, cancelled: threading.Event, stop: threading.Event) -> StepOutcome | None:
    """Return what `work` returns, or raise what it raises; None if a cancelled job has no more time for it.

    It is told to `stop` after the grace, and left behind if that does not help: a request may hang for long.
    """
    future: Future[StepOutcome] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # it is raised again where someone waits for it
            future.set_exception(error)

    thread = threading.Thread(target=run, name="holdfast-step", daemon=True)
    thread.start()
    while thread.is_alive() and not cancelled.is_set():
        thread.join(_POLL_S)
    thread.join(GRACE_S)
    stop.set()
    thread.join(END_S)
    return future.result() if future.done() else None


def _abandon(step: ActionStep) -> StepOutcome:
    """Write out what is unsent while a request still hangs."""
    handover = hand_over(step.session, step.inputs.spool_dir, CANCELLED)
    return StepOutcome(
        title=f"{step.inputs.command} was cancelled",
        outputs={"status": "spooled" if handover.left else "error", **handover.outputs},
        problems=handover.problems or ("cancelled before it was done",),
        code=ExitCode.WORK_LEFT if handover.left else ExitCode.FAILED,
    )


def _failure(reason: str, code: ExitCode) -> tuple[StepOutcome, str]:
    outcome = StepOutcome(title="failed", outputs={"status": "error"}, problems=(reason,), code=code)
    return outcome, format_summary(outcome, "", str)
