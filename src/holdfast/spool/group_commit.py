"""Sharing disk syncs: what arrives while one commit runs goes into the next one together."""

import threading
from dataclasses import dataclass, field

from holdfast.core.ticket import Persistence, Receipt
from holdfast.errors import SpoolUnwritable
from holdfast.spool.admission import Entry, Outcome
from holdfast.spool.queue import Spool

_MAX_TOGETHER = 256
_INTERRUPTED = "the commit that this checkpoint shared was interrupted; submit it again"


@dataclass(slots=True, eq=False)
class _Request:
    entry: Entry
    persistence: Persistence
    answer: Receipt | BaseException | None = None
    woken: threading.Event = field(default_factory=threading.Event)

    def settle(self, answer: Outcome | BaseException) -> None:
        self.answer = answer
        self.woken.set()


class GroupCommit:
    """Puts checkpoints into a spool for many threads at once, with far fewer syncs than checkpoints.

    There is no timer: a lone caller commits at once, and callers that arrive meanwhile share the next commit.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._lock = threading.Lock()
        self._waiting: list[_Request] = []
        self._has_leader = False

    def put(self, entry: Entry, *, persistence: Persistence = Persistence.NORMAL) -> Receipt:
        """Accept a checkpoint as `Spool.put` does, with the same promises and the same errors."""
        request = _Request(entry, persistence)
        with self._lock:
            self._waiting.append(request)
            is_leader, self._has_leader = not self._has_leader, True
        if not is_leader:
            # Woken with an answer, or without one to lead the next commit.
            request.woken.wait()
        if request.answer is None:
            self._lead(request)
        if isinstance(request.answer, Receipt):
            return request.answer
        assert request.answer is not None  # noqa: S101 (every request that was taken is settled)
        raise request.answer

    def _lead(self, own: _Request) -> None:
        """Commit until the own request is answered, then hand over to one that waits."""
        try:
            while own.answer is None:
                self._commit(self._take(), own)
        finally:
            with self._lock:
                self._has_leader = bool(self._waiting)
                if self._waiting:
                    self._waiting[0].woken.set()

    def _take(self) -> list[_Request]:
        """Return the next requests of one kind, in the order of their arrival."""
        with self._lock:
            kind = self._waiting[0].persistence
            together = [each for each in self._waiting if each.persistence == kind][:_MAX_TOGETHER]
            self._waiting = [each for each in self._waiting if each not in together]
        return together

    def _commit(self, requests: list[_Request], own: _Request) -> None:
        entries = [each.entry for each in requests]
        try:
            outcomes = self._spool.put_all(entries, persistence=requests[0].persistence)
        except BaseException as error:
            # An interrupt is meant for this thread alone; the others are told that nothing was stored.
            shared = error if isinstance(error, Exception) else SpoolUnwritable(_INTERRUPTED)
            for each in requests:
                each.settle(error if each is own else shared)
            return
        for each, outcome in zip(requests, outcomes, strict=True):
            each.settle(outcome)
