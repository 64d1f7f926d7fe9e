"""Saving for the recorder, when asked to and in the background, and never to the harm of the work."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from holdfast.errors import Fenced, InvalidCheckpoint
from holdfast.format.checkpoint import Draft
from holdfast.format.header import RunStatus
from holdfast.format.receipt import Receipt
from holdfast.format.review import Held
from holdfast.format.triggers import Trigger
from holdfast.logs import log
from holdfast.recorder.options import Options, Storage
from holdfast.recorder.signals import signals_deferred
from holdfast.styles.review import Reviewed, review_after
from holdfast.styles.values import as_mapping

_TRIES = 3

Pause = Callable[[threading.Event, float], bool]


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """Why a checkpoint is saved, and what is to change before it is."""

    trigger: Trigger | str
    status: RunStatus = RunStatus.IN_PROGRESS
    phase: str | None = None
    change: Callable[[], None] | None = None
    is_new_only: bool = False
    may_raise: bool = True


@dataclass(frozen=True, slots=True)
class _NewestCheckpoint:
    """What the newest checkpoint holds, and the run's status in it."""

    content_hash: int
    status: RunStatus | None


class Saver:
    """Saves the state that `compose` gives, in the order of its changes, from any thread.

    There are two locks. One is held for the short time in which the state changes or is encoded, so that a
    change does not wait for the disk. The other is held until the checkpoint is on disk, so that an older
    state is never saved after a newer one.
    """

    def __init__(
        self, storage: Storage, options: Options, run_id: str, compose: Callable[[], Mapping[str, Any]]
    ) -> None:
        self._storage = storage
        self._options = options
        self._run_id = run_id
        self._compose = compose
        self._saving = threading.Lock()
        self._changing = threading.RLock()
        self._newest: _NewestCheckpoint | None = None
        self.workflow = options.workflow
        self.review: Held | None = None
        """What the run waits for that needs a person."""
        self.final_status: RunStatus | None = None

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold off every checkpoint while the state changes."""
        with signals_deferred(), self._changing:
            yield

    def take_as_saved(self, status: RunStatus | None = None) -> None:
        """Take the present state for that of the newest checkpoint: it is saved once something changes."""
        try:
            with self.changing():
                draft = self._draft(SaveRequest(Trigger.MANUAL))
                self._newest = _NewestCheckpoint(_content_hash(draft), status)
        except InvalidCheckpoint:
            self._newest = None

    def save(self, request: SaveRequest) -> Receipt | None:
        """Save a checkpoint; return its receipt, or None if there is none: it failed, or is nothing new.

        A failure is logged and told to `on_failed`; it is raised only if the run is strict and may be raised.
        """
        outcome: Receipt | Exception | None
        with signals_deferred():
            # A deferred signal's handler may raise at the end of this block: that is no failed save.
            try:
                with self._saving:
                    outcome = self._save(request)
            except Exception as error:
                outcome = error
        if isinstance(outcome, Exception):
            self._report(outcome, str(request.trigger), may_raise=request.may_raise)
            return None
        if outcome is not None:
            self._call(self._options.on_saved, outcome)
        return outcome

    def amend(self, change: Callable[[], None]) -> None:
        """Carry out a change of the state without saving it. A failure is treated like one of `save`."""
        failure: Exception | None = None
        with signals_deferred():
            try:
                with self._changing:
                    change()
            except Exception as error:
                failure = error
        if failure is not None:
            self._report(failure, "change", may_raise=True)

    def _save(self, request: SaveRequest) -> Receipt | None:
        status = self.final_status or request.status
        with self._changing:
            if request.is_new_only and self._is_saved(request, status):
                return None
            if request.change is not None:
                request.change()
            draft = self._draft(request, status)
            self._note_review(draft)
        receipt = self._storage.put(draft)
        self._newest = _NewestCheckpoint(_content_hash(draft), status)
        return receipt

    def _note_review(self, draft: Draft) -> None:
        """Know what the run waits for once this checkpoint is saved."""
        composed = self._compose()
        state, context = as_mapping(composed.get("state")), as_mapping(composed.get("context_fields"))
        self.review = review_after(self.review, Reviewed(draft.header, state, context))

    def _is_saved(self, request: SaveRequest, status: RunStatus) -> bool:
        if self._newest is None:
            return False
        # The clock alone is no reason to save the same state under another status.
        if request.trigger is not Trigger.INTERVAL and self._newest.status is not status:
            return False
        try:
            return self._newest.content_hash == _content_hash(self._draft(request, status))
        except InvalidCheckpoint:
            return False

    def _draft(self, request: SaveRequest, status: RunStatus = RunStatus.IN_PROGRESS) -> Draft:
        for _ in range(_TRIES):
            try:
                return self._storage.draft(
                    {
                        "run_id": self._run_id,
                        "trigger": request.trigger,
                        "phase": request.phase,
                        "status": status,
                        "workflow": self.workflow,
                        **self._compose(),
                    }
                )
            except RuntimeError:  # another thread has altered the state while it was read
                continue
        raise InvalidCheckpoint("state", "it kept changing while it was saved; change it within run.update()")

    def _report(self, error: Exception, trigger: str, *, may_raise: bool) -> None:
        """Log a failure and hand it to `on_failed`; raise it if the user wants that."""
        cause = str(error) or repr(error)
        log.warning("checkpoint_failed", run_id=self._run_id, trigger=trigger, cause=cause)
        self._call(self._options.on_failed, error)
        if (self._options.strict or isinstance(error, Fenced)) and may_raise:
            raise error

    def _call(self, callback: Callable[[Any], object] | None, value: object) -> None:
        if callback is None:
            return
        try:
            callback(value)
        except Exception as error:
            log.warning("callback_failed", run_id=self._run_id, cause=repr(error))


class Autosave:
    """Calls `save` every `interval_s` seconds from a thread of its own, between `open` and `close`.

    `pause` waits for the event, that long at most, and returns whether it is set.
    """

    def __init__(self, save: Callable[[], None], interval_s: float | None, pause: Pause) -> None:
        self._save = save
        self._interval_s = interval_s
        self._pause = pause
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Begin, unless there is no interval."""
        if self._interval_s is None:
            return
        self._thread = threading.Thread(
            target=self._repeat, args=(self._interval_s,), name="holdfast-autosave", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop, once a save that is under way is done."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _repeat(self, interval_s: float) -> None:
        while not self._pause(self._stop, interval_s):
            self._save()


def _content_hash(draft: Draft) -> int:
    """Return a hash of what the caller put into a checkpoint; it holds in this process alone."""
    return hash(tuple(draft.texts.values()))
