"""Saving for the recorder: one checkpoint after the other, and never to the harm of the work."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from holdfast.errors import InvalidCheckpoint
from holdfast.format.checkpoint import Draft, RunStatus
from holdfast.format.receipt import Receipt
from holdfast.format.triggers import Trigger
from holdfast.logs import log
from holdfast.recorder.options import Options, Storage
from holdfast.recorder.signals import sheltered

_TRIES = 3


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
class _Known:
    """What the newest checkpoint says."""

    mark: int
    status: RunStatus | None


class Saver:
    """Saves the state that `compose` gives, in the order of its changes, from any thread.

    There are two locks. One is held while the state changes or is encoded, which is short. The other is held
    until the checkpoint is on disk: a state is never saved after one that is newer than it, and who only
    changes the state does not wait for the disk.
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
        self._known: _Known | None = None
        self.workflow = options.workflow
        self.final_status: RunStatus | None = None

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold off every checkpoint while the state changes."""
        with sheltered(), self._changing:
            yield

    def note(self, status: RunStatus | None = None) -> None:
        """Take the state as it is as known, so that it is not saved before something changes."""
        try:
            with self.changing():
                self._known = _Known(_mark(self._draft(SaveRequest(Trigger.MANUAL))), status)
        except InvalidCheckpoint:
            self._known = None

    def save(self, request: SaveRequest) -> Receipt | None:
        """Save a checkpoint; return its receipt, or None if there is none: it failed, or is nothing new.

        A failure is logged and told to `on_failed`; it is raised only if the run is strict and may be raised.
        """
        outcome: Receipt | Exception | None
        with sheltered():
            # What a signal's handler raises on leaving the shelter must not be taken for a failed save.
            try:
                with self._saving:
                    outcome = self._save(request)
            except Exception as error:
                outcome = error
        if isinstance(outcome, Exception):
            self._settle(outcome, str(request.trigger), may_raise=request.may_raise)
            return None
        if outcome is not None:
            self._call(self._options.on_saved, outcome)
        return outcome

    def amend(self, change: Callable[[], None]) -> None:
        """Carry out a change of the state without saving it. A failure is treated like one of `save`."""
        failure: Exception | None = None
        with sheltered():
            try:
                with self._changing:
                    change()
            except Exception as error:
                failure = error
        if failure is not None:
            self._settle(failure, "change", may_raise=True)

    def _save(self, request: SaveRequest) -> Receipt | None:
        status = self.final_status or request.status
        with self._changing:
            if request.is_new_only and self._is_known(request, status):
                return None
            if request.change is not None:
                request.change()
            draft = self._draft(request, status)
        receipt = self._storage.put(draft)
        self._known = _Known(_mark(draft), status)
        return receipt

    def _is_known(self, request: SaveRequest, status: RunStatus) -> bool:
        if self._known is None:
            return False
        # The clock alone is no reason to save the same state under another status.
        if request.trigger is not Trigger.INTERVAL and self._known.status is not status:
            return False
        try:
            return self._known.mark == _mark(self._draft(request, status))
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

    def _settle(self, error: Exception, trigger: str, *, may_raise: bool) -> None:
        """Tell of a failure, and raise it if the user wants that."""
        cause = str(error) or repr(error)
        log.warning("checkpoint_failed", run_id=self._run_id, trigger=trigger, cause=cause)
        self._call(self._options.on_failed, error)
        if self._options.strict and may_raise:
            raise error

    def _call(self, callback: Callable[[Any], object] | None, value: object) -> None:
        if callback is None:
            return
        try:
            callback(value)
        except Exception as error:
            log.warning("callback_failed", run_id=self._run_id, cause=repr(error))


def _mark(draft: Draft) -> int:
    """Return a number that tells the content of one draft from that of another, in this process alone."""
    return hash(tuple(draft.texts.values()))
