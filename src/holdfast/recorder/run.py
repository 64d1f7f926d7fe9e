"""The recorder: a run, and the parts of its work, that save their checkpoints by themselves in any style."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, TypeVar, overload

from holdfast.errors import DecisionRefused, InvalidCheckpoint, UnknownRun
from holdfast.format.header import RunStatus
from holdfast.format.ids import parse_run_id
from holdfast.format.receipt import Receipt
from holdfast.format.review import Review
from holdfast.format.triggers import Trigger
from holdfast.logs import log
from holdfast.recorder.options import Options, RunClaim, Storage, check_number
from holdfast.recorder.saver import Autosave, Pause
from holdfast.recorder.state import RunState
from holdfast.styles.measures import add_cost, add_evaluation, nears_limit
from holdfast.styles.resume import ResumePlan, style_of
from holdfast.styles.style import Style
from holdfast.styles.values import Document, as_dict, freeze

T = TypeVar("T")
IdT = TypeVar("IdT", str, int)

_STYLE_OF_PART = {"step": "steps", "task": "tasks", "phase": "phases", "layer": "layers", "agent": "agents"}


class Recorder(ABC):
    """A run that saves its checkpoints by itself. Use it with `with`, or in a coroutine with `async with`.

    `state` is yours to fill with whatever JSON can express; every checkpoint has it as it is at that moment.
    `context_fields` is saved beside it, but not restored. `plan` is the resume plan, once `resume` has found
    one. Calls such as `checkpoint` wait for the disk; in a coroutine, use `asyncio.to_thread` for them.

    What is done must be left out by the caller, since a `with` block cannot skip what is inside of it:
    `for name in run.remaining([...])`, or `if run.is_done(name): continue`.

    A checkpoint that cannot be saved is logged and told to `on_failed`; the work goes on. With `strict`, the
    error is raised, unless another one is on its way, or the checkpoint was saved in the background; so is
    Fenced in any case: an `exclusive` run that another process has taken over must not go on.
    """

    _style: ClassVar[Style]

    def __init__(self, run_id: str, storage: Storage, options: Options, *, pause: Pause = Event.wait) -> None:
        try:
            self.run_id = parse_run_id(run_id)
        except ValueError as error:
            raise InvalidCheckpoint("run_id", str(error)) from error
        self.plan: ResumePlan | None = None
        self._storage = storage
        self._options = options
        self._claim: RunClaim | None = None
        self._run = RunState(self.run_id, self._style, storage, options, self._new_progress())
        self._autosave = Autosave(self._run.record_changes, options.autosave_s, pause)

    @property
    def style(self) -> str:
        """Return the name of the workflow style."""
        return self._style.name

    @property
    def state(self) -> dict[str, Any]:
        """Return the state, to be filled freely; only the member `progress` is the recorder's own."""
        return self._run.members

    @property
    def context_fields(self) -> dict[str, Any]:
        """Return what is saved beside the state, to be filled freely."""
        return self._run.context_fields

    @property
    def progress(self) -> Document:
        """Return how far the run is, as the next checkpoint will say. It is not to be altered."""
        return self._run.progress

    def update(self) -> AbstractContextManager[None]:
        """Hold off checkpoints and signals for as long as a few changes of the state belong together."""
        return self._run.changing()

    def checkpoint(self, trigger: str | Trigger = Trigger.MANUAL) -> Receipt | None:
        """Save a checkpoint now; return its receipt, or None if that failed."""
        return self._run.record(trigger)

    def cost(self, usd: float, *, item: str | None = None) -> float:
        """Add to what the run has cost so far, on an item if one is named, and return all that it has cost.

        Near the `cost_limit`, a checkpoint is saved. Raises InvalidCheckpoint for what is no number.
        """
        usd = check_number("usd", usd)
        with self._run.changing():
            before: float = self.state.get("cost_accumulated") or 0
            self.state.update(add_cost(self.state, usd, item, self._run.now()))
            total: float = self.state["cost_accumulated"]
        if nears_limit(before, total, self._options.cost_limit):
            self._run.record(Trigger.COST_THRESHOLD)
        return total

    def evaluation(
        self,
        score: float,
        *,
        scores: Mapping[str, float] | None = None,
        iteration: int | None = None,
        passed: bool | None = None,
        issues: Sequence[str] | None = None,
        feedback: str | None = None,
    ) -> Receipt | None:
        """Save an evaluation of the work, whole or partial; `scores` are those by criterion.

        All of them stay in `state["evaluation_history"]`; the iteration is the next one unless given. Raises
        InvalidCheckpoint for a score that is no number.
        """
        score = check_number("score", score)
        if scores is not None:
            scores = {name: check_number(name, each) for name, each in scores.items()}
        details = {"scores": scores, "passed": passed, "issues": issues, "feedback": feedback}
        now = self._run.now()
        return self._run.record(
            Trigger.EVALUATION_COMPLETED,
            state=lambda state: add_evaluation(state, score, now, iteration=iteration, details=details),
        )

    def trip(self, reason: str, *, breaker: str | None = None) -> Receipt | None:
        """Save that the circuit breaker has tripped: the run waits until a person decides.

        Where there are several, `breaker` names the one. Leaving the block does not complete the run then.
        """
        tripped = {"state": "open", "reason": reason, "tripped_at": self._run.now()}

        def trip(state: Document) -> Document:
            breakers = as_dict(state.get("circuit_breaker_state"))
            return {"circuit_breaker_state": {**breakers, **({breaker: tripped} if breaker else tripped)}}

        return self._run.record(Trigger.CIRCUIT_BREAKER, state=trip)

    def resume(
        self, *, at: int | str | None = None, active_lessons: Sequence[Any] | None = None
    ) -> dict[str, Any]:
        """Return the state of the newest good checkpoint, and go on from there; an empty one for a new run.

        `at` names another checkpoint to go on from, by its number or its id. The plan, with its warnings, is
        then in `plan`; it warns if other lessons are active now. Raises what reading the run raises,
        InvalidCheckpoint if the run is of another style, and DecisionRefused if a review has stopped it.
        """
        try:
            plan = self._storage.resume(self.run_id, at=at, active_lessons=active_lessons, dag=self._dag())
        except UnknownRun:
            return self.state
        if not plan.resumable and plan.status is RunStatus.FAILED:
            raise DecisionRefused("stopped", plan.warnings[0])
        stored = dict(as_dict(freeze(plan.state)))
        if "progress" in stored and style_of(stored) != self.style:
            style = style_of(stored)
            raise InvalidCheckpoint("style", f"{self.run_id} was saved as {style!r}; open it as that")
        run = self._run
        with run.changing():
            progress = as_dict(stored.pop("progress", None))
            run.members.clear()
            run.members.update(stored)
            run.progress = self._style.restore(progress, self._new_progress())
            run.saver.workflow = self._options.workflow or run.progress.get("workflow_path")
            run.saver.take_as_saved(plan.status if plan.status is RunStatus.COMPLETED else None)
            run.saver.review = plan.review
            self.plan = plan
        return self.state

    @abstractmethod
    def is_done(self, name: Any) -> bool:
        """Whether this part of the work is completed."""

    @overload
    def remaining(self) -> list[Any]: ...
    @overload
    def remaining(self, every: Iterable[IdT]) -> list[IdT]: ...
    def remaining(self, every: Iterable[Any] | None = None) -> list[Any]:
        """Return what is not completed of `every`, in that order; of the run's `work` if nothing is given.

        What waits for a person's decision is left out.
        """
        names = self._all_work() if every is None else every
        return [name for name in names if not (self.is_done(name) or self._is_in_doubt(name))]

    def __enter__(self) -> Self:
        self._take()
        return self._open()

    def _take(self) -> None:
        """Claim the run, if it is to be driven by this process alone."""
        if self._options.exclusive:
            self._claim = self._storage.claim(self.run_id, self._options.owner)

    def _open(self) -> Self:
        self._run.saver.take_as_saved()
        if self._options.handle_signals:
            self._run.signals.open()
        self._autosave.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._finish(error)
        finally:
            self._run.signals.close()
            self._release()

    async def __aenter__(self) -> Self:
        if self._options.exclusive:
            await _in_thread(self._take)
        return self._open()  # signals can be handled by the main thread alone

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await _in_thread(partial(self._finish, error))
        finally:
            self._run.signals.close()
            if self._claim is not None:
                await _in_thread(self._release)

    def _release(self) -> None:
        """Let another process drive the run."""
        if self._claim is not None:
            self._claim.release()
            self._claim = None

    @abstractmethod
    def _new_progress(self) -> Document: ...

    def _is_in_doubt(self, _name: Any) -> bool:
        """Whether only a person can tell if this part of the work is to be done."""
        return False

    def _dag(self) -> Any:
        """Return the graph of the work, where there is one."""
        return None

    def _all_work(self) -> Iterable[Any]:
        if not self._options.work:
            raise InvalidCheckpoint("work", "say what there is to do, here or when the run is opened")
        return self._options.work

    def _finish(self, error: BaseException | None) -> None:
        self._autosave.close()
        run, saver = self._run, self._run.saver
        if error is None and isinstance(saver.review, Review):
            log.warning("run_waits_for_review", run_id=self.run_id, cause=saver.review.reason)
            run.record(Trigger.MANUAL, is_new_only=True)
        elif error is None and run.failed_parts:
            saver.final_status = RunStatus.FAILED
            log.warning("run_not_completed", run_id=self.run_id, failed=sorted(run.failed_parts))
            run.record(Trigger.ERROR, status=RunStatus.FAILED, is_new_only=True)
        elif error is None:
            saver.final_status = RunStatus.COMPLETED
            run.record(Trigger.RUN_COMPLETE, status=RunStatus.COMPLETED, is_new_only=True)
        elif run.is_interruption(error):
            saver.final_status = RunStatus.INTERRUPTED
            run.record_interruption()
        else:
            saver.final_status = RunStatus.FAILED
            run.record_failure(Trigger.ERROR, None, error)
        if self._options.drain_at_end:
            self._drain(may_raise=error is None)

    def _drain(self, *, may_raise: bool) -> None:
        try:
            self._storage.drain()
        except Exception as error:
            log.warning("drain_failed", run_id=self.run_id, cause=str(error) or repr(error))
            if self._options.strict and may_raise:
                raise

    if not TYPE_CHECKING:  # for a type checker, an unknown name stays unknown

        def __getattr__(self, name: str) -> NoReturn:
            advice = f"; open it with style={_STYLE_OF_PART[name]!r}" if name in _STYLE_OF_PART else ""
            raise AttributeError(f"a run of style {self.style!r} has no {name!r}{advice}")


class WorkBlock(ABC):
    """A step, task, phase, layer or agent: use it with `with`, or in a coroutine with `async with`.

    It has no other attributes than it says: what was meant for another one must not be lost without a word.
    """

    __slots__ = ("_began_at", "_run", "name")

    def __init__(self, run: RunState, name: str) -> None:
        self.name = name
        self._run = run
        self._began_at = 0.0

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _complete(self) -> None: ...

    def _fail(self, error: BaseException) -> None:
        self._run.record_failure(Trigger.ERROR, self.name, error)

    def _elapsed_s(self) -> float:
        """Return for how long the work has been under way, in seconds."""
        return round(max(0.0, self._run.clock.now() - self._began_at), 3)

    def __enter__(self) -> Self:
        self._began_at = self._run.clock.now()
        self._run.watch_memory()
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._run.watch_memory()
            self._complete()
            self._run.failed_parts.discard(self.name)
        elif self._run.is_interruption(error):
            self._run.record_interruption()
        else:
            # The program may go on without it, but the run is not completed then.
            self._run.failed_parts.add(self.name)
            self._fail(error)

    async def __aenter__(self) -> Self:
        return await _in_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await _in_thread(partial(self.__exit__, kind, error, trace))


async def _in_thread(work: Callable[[], T]) -> T:
    """Return what `work` returns, done in a thread. If the task is cancelled meanwhile, it is still done."""
    under_way = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(under_way)
    except asyncio.CancelledError:
        await under_way
        raise
