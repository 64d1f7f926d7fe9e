"""The record of one step, kept beside its command: nothing that goes wrong here stops or delays that."""

import queue
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from holdfast.errors import Fenced, HoldfastError, SpoolBusy
from holdfast.presentation.exits import ExitCode, describe

if TYPE_CHECKING:
    from holdfast.cli.execution.shared_steps import SharedSteps

# How long a command waits at most for a disk that hangs. Until it begins, more has to be loaded and read.
BEGIN_S = 30.0
SAVE_S = 10.0

ResultT = TypeVar("ResultT")


class Beginning(NamedTuple):
    """Whether a step is to run; if not, the exit code and a sentence say why.

    `lock` is a descriptor that the command is to inherit: should we be killed, it runs on, and is the step.
    """

    is_to_run: bool = True
    code: int = ExitCode.DONE
    sentence: str = ""
    lock: int | None = None


class StepRecord:
    """Saves how one step fares. Every failure becomes a sentence for `warn`, each of them once.

    Everything is done by a thread of its own, one thing after the other, so that a disk or a server that
    hangs holds up nothing but that thread.
    """

    def __init__(
        self, step: str, open_steps: Callable[[ExitStack], "SharedSteps"], warn: Callable[[str], object]
    ) -> None:
        self._step = step
        self._open_steps = open_steps
        self._warn = warn
        self._told: set[str] = set()
        self._steps: SharedSteps | None = None
        self._resources = ExitStack()
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._labour, name="holdfast-step", daemon=True).start()

    def begin(self) -> Beginning:
        """Save that the step begins; return whether it is to run.

        One that is completed is not, nor one that runs already, nor any of a run that a person has stopped
        or someone else has taken over.
        """
        late = f"step {self._step!r} could not be begun within {BEGIN_S:.0f} s"
        return self._wait(self._begin, BEGIN_S, late) or Beginning()

    def complete(self, output: str | None, duration_s: float) -> None:
        """Save that the step is completed."""
        self._save(lambda steps: steps.complete(self._step, output=output, duration_s=duration_s))

    def fail(self, error: str, output: str | None) -> None:
        """Save that the step has failed."""
        self._save(lambda steps: steps.fail(self._step, error, output=output))

    def interrupt(self) -> None:
        """Begin to save that the step was told to stop; `close` waits for that."""
        self._work.put(lambda: self._guard(lambda: self._use(lambda steps: steps.interrupt(self._step))))

    def close(self, late: str = "") -> None:
        """Wait until everything is saved, as long as that may take, and let go of all files.

        The sentence `late` is told if that takes too long; without it, that the step is not saved.
        """
        self._wait(self._resources.close, SAVE_S, late or self._unsaved)

    def tell(self, sentence: str) -> None:
        """Warn of something, once."""
        if sentence not in self._told:
            self._told.add(sentence)
            self._warn(sentence)

    def _begin(self) -> Beginning:
        self._steps = steps = self._open_steps(self._resources)
        try:
            lock = self._resources.enter_context(steps.alone(self._step))
        except SpoolBusy as error:
            return self._refuse(ExitCode.WORK_LEFT, str(error))
        if steps.is_done(self._step):
            reason = f"step {self._step!r} of {steps.run_id} is completed: skipped"
            return self._refuse(ExitCode.DONE, reason)
        if stop := steps.stop():
            return self._refuse(ExitCode.FAILED, f"step {self._step!r} is not run: {stop}")
        if review := steps.review():
            self.tell(f"{review}; the command runs all the same")
        try:
            steps.begin(self._step)
        except Fenced as error:
            return self._refuse(ExitCode.WORK_LEFT, f"step {self._step!r} is not run: {error}")
        return Beginning(lock=lock)

    def _refuse(self, code: ExitCode, sentence: str) -> Beginning:
        self._steps = None
        return Beginning(is_to_run=False, code=code, sentence=sentence)

    def _save(self, save: Callable[["SharedSteps"], object]) -> None:
        self._wait(lambda: self._use(save), SAVE_S, self._unsaved)

    @property
    def _unsaved(self) -> str:
        return f"step {self._step!r} could not be saved within {SAVE_S:.0f} s"

    def _use(self, save: Callable[["SharedSteps"], object]) -> None:
        if self._steps is not None:
            save(self._steps)

    def _wait(self, work: Callable[[], ResultT], timeout_s: float, late: str) -> ResultT | None:
        """Return what the work returns; None if it fails, or takes too long: then `late` is told."""
        results: list[ResultT] = []
        is_over = threading.Event()

        def labour() -> None:
            try:
                self._guard(lambda: results.append(work()))
            finally:
                is_over.set()

        self._work.put(labour)
        if not is_over.wait(timeout_s):
            self.tell(late)
        return results[0] if results else None

    def _guard(self, work: Callable[[], object]) -> None:
        try:
            work()
        except HoldfastError as error:
            self.tell(f"step {self._step!r} is not saved: {describe(error)}")
        except Exception as error:  # whatever it is: the command has to run
            self.tell(f"step {self._step!r} is not saved: {error!r}")

    def _labour(self) -> None:
        while True:
            self._work.get()()
