"""The recorder: a run that saves its checkpoints by itself, whatever its style."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar, overload

from holdfast.errors import InvalidCheckpoint, UnknownRun
from holdfast.format.checkpoint import RunStatus
from holdfast.format.ids import parse_run_id
from holdfast.format.receipt import Receipt
from holdfast.format.triggers import Trigger
from holdfast.logs import log
from holdfast.recorder.autosave import Autosave, Pause
from holdfast.recorder.block import in_thread
from holdfast.recorder.outlets import Options, Outlets
from holdfast.recorder.recording import Recording
from holdfast.styles.progress.values import Document, as_dict, format_error, freeze
from holdfast.styles.resume import ResumePlan, style_of

IdT = TypeVar("IdT", str, int)

_DIGITS_OF_COST = 10
_STYLE_OF_PART = {"step": "steps", "task": "tasks", "phase": "phases", "layer": "layers", "agent": "agents"}


class Recorder(ABC):
    """A run that saves its checkpoints by itself. Use it with `with`, or in a coroutine with `async with`.

    `state` is yours to fill with whatever JSON can express; every checkpoint has it as it is at that moment.
    `context_fields` is saved beside it, but not restored. `plan` is the resume plan, once `resume` has found
    one. Calls such as `checkpoint` wait for the disk; in a coroutine, use `asyncio.to_thread` for them.

    What is done must be left out by the caller, since a `with` block cannot skip what is inside of it:
    `for name in run.remaining([...])`, or `if run.is_done(name): continue`.

    A checkpoint that cannot be saved is logged and told to `on_failed`; the work goes on. With `strict`, the
    error is raised, unless another one is on its way, or the checkpoint was saved in the background.
    """

    style: ClassVar[str]

    def __init__(
        self, run_id: str, outlets: Outlets, options: Options, *, pause: Pause | None = None
    ) -> None:
        try:
            self.run_id = parse_run_id(run_id)
        except ValueError as error:
            raise InvalidCheckpoint("run_id", str(error)) from error
        self.plan: ResumePlan | None = None
        self._outlets = outlets
        self._options = options
        progress = self._new_progress()
        self._recording = Recording(
            self.run_id, outlets, options, progress, interrupt=self._interrupted, label=self._label
        )
        waiting = {"pause": pause} if pause else {}
        self._autosave = Autosave(self._recording.record_changes, options.autosave_s, **waiting)

    @property
    def state(self) -> dict[str, Any]:
        """Return the state, to be filled freely; only the member `progress` is the recorder's own."""
        return self._recording.state

    @property
    def context_fields(self) -> dict[str, Any]:
        """Return what is saved beside the state, to be filled freely."""
        return self._recording.context_fields

    @property
    def progress(self) -> Document:
        """Return how far the run is, as the next checkpoint will say. It is not to be altered."""
        return self._recording.progress

    def update(self) -> AbstractContextManager[None]:
        """Hold off checkpoints and signals for as long as a few changes of the state belong together."""
        return self._recording.changing()

    def checkpoint(self, trigger: str | Trigger = Trigger.MANUAL) -> Receipt | None:
        """Save a checkpoint now; return its receipt, or None if that failed."""
        return self._recording.record(trigger)

    def cost(self, usd: float) -> float:
        """Add to what the run has cost so far, and return that."""
        with self._recording.changing():
            before = self.state.get("cost_accumulated") or 0
            total: float = round(before + usd, _DIGITS_OF_COST)
            self.state["cost_accumulated"] = total
        return total

    def trip(self, breaker: str, reason: str) -> Receipt | None:
        """Save that a circuit breaker has tripped: a person should look before the run goes on."""
        tripped = {"state": "open", "reason": reason, "tripped_at": self._recording.now()}

        def change() -> None:
            breakers = as_dict(self.state.get("circuit_breaker_state"))
            self.state["circuit_breaker_state"] = {**breakers, breaker: tripped}

        return self._recording.record(Trigger.CIRCUIT_BREAKER, change)

    def resume(self, *, active_lessons: Sequence[Any] | None = None) -> dict[str, Any]:
        """Return the state of the newest good checkpoint, and go on from there; an empty one for a new run.

        The plan, with its warnings, is then in `plan`; it warns if other lessons are active now. Raises what
        reading the run raises, and InvalidCheckpoint if the run is of another style.
        """
        try:
            plan = self._outlets.resume(self.run_id, active_lessons=active_lessons, dag=self._dag())
        except UnknownRun:
            return self.state
        stored = dict(as_dict(freeze(plan.state)))
        if "progress" in stored and style_of(stored) != self.style:
            style = style_of(stored)
            raise InvalidCheckpoint("style", f"{self.run_id} was saved as {style!r}; open it as that")
        recording = self._recording
        with recording.changing():
            progress = as_dict(stored.pop("progress", None))
            recording.state.clear()
            recording.state.update(stored)
            recording.progress = self._restored(progress)
            recording.saver.workflow = self._options.workflow or recording.progress.get("workflow_path")
            recording.saver.note(plan.status if plan.status is RunStatus.COMPLETED else None)
            self.plan = plan
        return self.state

    @abstractmethod
    def is_done(self, name: Any) -> bool:
        """Tell whether this part of the work is completed."""

    @overload
    def remaining(self) -> list[Any]: ...
    @overload
    def remaining(self, every: Iterable[IdT]) -> list[IdT]: ...
    def remaining(self, every: Iterable[Any] | None = None) -> list[Any]:
        """Return what is not completed of `every`, in that order; of the run's `work` if nothing is given."""
        names = self._all_work() if every is None else every
        return [name for name in names if not self.is_done(name)]

    def __enter__(self) -> Self:
        self._recording.saver.note()
        if self._options.handle_signals:
            self._recording.signals.open()
        self._autosave.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._finish(error)
        finally:
            self._recording.signals.close()

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await in_thread(partial(self._finish, error))
        finally:
            self._recording.signals.close()

    @abstractmethod
    def _new_progress(self) -> Document: ...

    @abstractmethod
    def _restored(self, stored: Document) -> Document: ...

    def _interrupted(self, progress: Document) -> Document:
        """Return the progress of a run that is told to stop; most styles have no word for that."""
        return progress

    def _dag(self) -> Any:
        """Return the graph of the work, where there is one."""
        return None

    @abstractmethod
    def _label(self) -> str | None: ...

    def _all_work(self) -> Iterable[Any]:
        if not self._options.work:
            raise InvalidCheckpoint("work", "say what there is to do, here or when the run is opened")
        return self._options.work

    def _finish(self, error: BaseException | None) -> None:
        self._autosave.close()
        recording, saver = self._recording, self._recording.saver
        if error is None:
            saver.final_status = RunStatus.COMPLETED
            recording.record(Trigger.RUN_COMPLETE, status=RunStatus.COMPLETED, is_new_only=True)
        elif recording.is_interruption(error):
            saver.final_status = RunStatus.INTERRUPTED
            recording.record_interruption()
        else:
            saver.final_status = RunStatus.FAILED
            change = partial(recording.add_error, "run", format_error(error))
            recording.record(
                Trigger.ERROR, change, status=RunStatus.FAILED, is_new_only=True, may_raise=False
            )
        if self._options.drain_at_end:
            self._drain(may_raise=error is None)

    def _drain(self, *, may_raise: bool) -> None:
        try:
            self._outlets.drain()
        except Exception as error:
            log.warning("drain_failed", run_id=self.run_id, cause=str(error) or repr(error))
            if self._options.strict and may_raise:
                raise

    if not TYPE_CHECKING:  # for a type checker, an unknown name stays unknown

        def __getattr__(self, name: str) -> NoReturn:
            advice = f"; open it with style={_STYLE_OF_PART[name]!r}" if name in _STYLE_OF_PART else ""
            raise AttributeError(f"a run of style {self.style!r} has no {name!r}{advice}")
