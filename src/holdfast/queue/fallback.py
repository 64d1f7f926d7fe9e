"""The shared queue with the local disk behind it: while the database is away, checkpoints wait here.

They move over once it is back: each once, because its id tells, and in the order of their arrival. Until the
last of them has moved, new ones queue up behind them, so that no run overtakes itself.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from holdfast.errors import DatabaseAway, SpoolError, SpoolFull, SpoolUnwritable
from holdfast.format.receipt import Delivery, Persistence, QueueItem, Receipt
from holdfast.logs import log
from holdfast.queue.contract import (
    Backoff,
    Hear,
    Journey,
    NewItem,
    PutOutcome,
    Quarantined,
    Queue,
    QueueStatus,
    Wake,
)
from holdfast.queue.moving import first_batch, move_batch
from holdfast.queue.sqlite_queue import SqliteQueue
from holdfast.queue.table_queue import CommonQueue

TRY_EVERY_S = 1.0
_MOST_REMEMBERED = 10_000


class FallbackQueue(CommonQueue):
    """A shared queue that goes on accepting while its database is away, as the protocol `Queue` promises.

    `open_shared` opens the shared queue, or raises DatabaseAway. What only the database knows raises that,
    too, while it is away.
    """

    def __init__(self, open_shared: Callable[[], Queue], local: SqliteQueue) -> None:
        self._open_shared = open_shared
        self._local = local
        self._shared: Queue | None = None
        self._away: DatabaseAway | None = None
        self._lock = threading.RLock()
        self._is_locked = False
        self._opening = threading.Lock()
        self._moving = threading.Lock()
        self._mover: threading.Thread | None = None
        self._draining: int | None = None
        """The thread of this process that drains, if there is one."""
        self._closed = threading.Event()
        self._listening: tuple[Wake, Hear] | None = None
        self._is_local = local.status(0.0).depth > 0
        self._highest: dict[str, int] = {}
        """The highest number of each run that went to the database last, for the case that it goes away."""

    def open(self) -> None:
        """Reach for the database now, so that a wrong address shows; begin to move what waits here.

        Raises InvalidSettings if a person must act, DatabaseAway.
        """
        self._reach()
        if self._is_local:
            self._start_mover()

    def begin_away(self, error: DatabaseAway) -> None:
        """Begin with a database that is away, and wait for it to come back."""
        self._note_away(error)

    def put_all(
        self,
        new_items: Sequence[NewItem],
        *,
        persistence: Persistence = Persistence.NORMAL,
        are_new: bool = False,
    ) -> list[PutOutcome]:
        shared = self._shared
        if shared and not self._is_local:
            try:
                outcomes = shared.put_all(new_items, persistence=persistence, are_new=are_new)
            except DatabaseAway as error:
                self._note_away(error)
            else:
                self._remember(outcomes)
                return outcomes
        with self._alone():
            self._go_on_numbering(new_items)
            outcomes = self._local.put_all(new_items, persistence=Persistence.DELAYED, are_new=are_new)
            self._is_local = True
        self._start_mover()
        return outcomes

    def check_room(self) -> None:
        if self._is_local or not self._shared:
            self._local.check_room()
            return
        try:
            self._shared.check_room()
        except DatabaseAway as error:
            self._note_away(error)
            self._local.check_room()

    def trouble(self) -> str | None:
        away = self._away
        if away is None and not self._is_local:
            return None
        depth = self._local.status(0.0).depth
        if away:
            return f"{away}; checkpoints are kept on the local disk until it is back ({depth} so far)"
        return f"{depth} checkpoints that were kept on the local disk move to the database" if depth else None

    def receipt(self, checkpoint_id: str) -> Receipt | None:
        return self._local.receipt(checkpoint_id) or self._reach().receipt(checkpoint_id)

    def status(self, now: float) -> QueueStatus:
        """Return the shared queue in numbers, and what waits here on top; this alone while that is away.

        Once it is known to be away, it is not asked: whoever looks is not to wait for that each time.
        """
        local = self._local.status(now)
        if self._away:
            self._start_mover()  # it finds out when that is back, and a forked process has none yet
            return local
        try:
            shared = self._reach().status(now)
        except DatabaseAway as error:
            self._note_away(error)
            return local
        return replace(
            shared,
            depth=shared.depth + local.depth,
            bytes=shared.bytes + local.bytes,
            oldest_age_s=max(shared.oldest_age_s, local.oldest_age_s),
            set_aside=shared.set_aside + local.set_aside,
            set_aside_bytes=shared.set_aside_bytes + local.set_aside_bytes,
        )

    def pending(self, now: float | None = None) -> list[QueueItem]:
        return self._whole().pending(now)

    def newer_runs(self) -> frozenset[str]:
        return self._whole().newer_runs()

    def read(self, item: QueueItem) -> bytes:
        return self._reach().read(item)

    def renumber(self, item: QueueItem, sequence: int, body: bytes) -> QueueItem:
        return self._reach().renumber(item, sequence, body)

    def mark_committed(self, outcomes: Mapping[str, Delivery]) -> None:
        self._reach().mark_committed(outcomes)

    def acknowledge(self, outcomes: Mapping[str, Delivery]) -> None:
        self._reach().acknowledge(outcomes)

    def release(self, items: Sequence[QueueItem], reason: str, *, not_before: float) -> None:
        self._reach().release(items, reason, not_before=not_before)

    def backoff(self, checkpoint_id: str) -> Backoff | None:
        return self._reach().backoff(checkpoint_id)

    def set_aside(self, item: QueueItem, reason: str) -> None:
        self._reach().set_aside(item, reason)

    def set_aside_entries(self) -> list[Quarantined]:
        return [*self._reach().set_aside_entries(), *self._local.set_aside_entries()]

    def is_kept_aside(self, checkpoint_id: str) -> bool:
        return self._local.is_kept_aside(checkpoint_id) or self._reach().is_kept_aside(checkpoint_id)

    def restore(self, checkpoint_id: str) -> Receipt:
        if not self._local.is_kept_aside(checkpoint_id):
            return self._reach().restore(checkpoint_id)
        with self._alone():
            receipt = self._local.restore(checkpoint_id)
            self._is_local = True
        self._start_mover()
        return receipt

    def discard(self, checkpoint_ids: Iterable[str]) -> int:
        wanted = list(checkpoint_ids)
        return self._whole().discard(wanted) + self._local.discard(wanted)

    def fingerprint(self, checkpoint_id: str, body: bytes, /) -> str | None:
        return self._whole().fingerprint(checkpoint_id, body)

    def hand_over(self, checkpoint_ids: Iterable[str]) -> None:
        self._whole().hand_over(checkpoint_ids)

    def forget_receipts(self, run_id: str) -> int:
        return self._whole().forget_receipts(run_id) + self._local.forget_receipts(run_id)

    def purge_receipts(self, *, older_than: float, keep: int) -> int:
        return self._reach().purge_receipts(older_than=older_than, keep=keep)

    def arrivals(self, checkpoint_ids: Iterable[str]) -> dict[str, int]:
        return self._reach().arrivals(checkpoint_ids)

    def journeys(self, run_id: str | None = None, *, most: int) -> list[Journey]:
        local = self._local.journeys(run_id, most=most)
        try:
            return [*local, *self._reach().journeys(run_id, most=most)][:most]
        except DatabaseAway:
            return local

    def verified_between(self, begin: float, end: float) -> int:
        return self._reach().verified_between(begin, end)

    def known_sequence(self, run_id: str) -> int:
        return self._whole().known_sequence(run_id)

    def learn_sequence(self, run_id: str, sequence: int) -> None:
        self._reach().learn_sequence(run_id, sequence)

    def note(self, name: str, value: bytes) -> None:
        self._reach().note(name, value)

    def notes(self) -> dict[str, bytes]:
        return self._reach().notes()

    def forget(self, *names: str) -> None:
        self._reach().forget(*names)

    def drainer(self) -> AbstractContextManager[None]:
        return self._drain_with(self._reach().drainer())

    def drained_by(self) -> str | None:
        try:
            return self._reach().drained_by()
        except DatabaseAway:
            return None

    def listen(self, wake: Wake, hear: Hear) -> None:
        self._listening = wake, hear
        if self._shared:
            self._shared.listen(wake, hear)

    def write_back(self) -> None:
        if self._is_local:
            self._local.write_back()

    def close(self) -> None:
        if not self._closed.is_set() and self._is_local:
            self._try_to_move()
        self._closed.set()
        if mover := self._mover:
            mover.join()
        if self._shared:
            self._shared.close()
        self._local.close()

    def move(self) -> int:
        """Move what waits here to the shared queue, and return how many that were. Raises DatabaseAway."""
        moved = 0
        with self._moving:
            self._look_for_return()
            while True:
                with self._alone():
                    # Decided while nothing can be put here: from now on, new ones may go there directly.
                    batch = first_batch(self._local, self._local.pending())
                    if not batch:
                        self._is_local = False
                        self._note_back()  # who failed before it was back may have said so only now
                        break
                reached = self._reach()
                moved += len(move_batch(self._local, reached, batch, persistence=Persistence.DELAYED))
        if moved:
            log.info("moved_to_database", checkpoints=moved)
        return moved

    def _whole(self) -> Queue:
        """Return the shared queue, with everything in it that waited here.

        If it is full, the drainer gets it as it is: what waits here came later, and moves once there is room.
        """
        if not self._is_local and self._local.status(0.0).depth:
            # Another process of this machine found the database away, and may have ended since.
            with self._alone():
                self._is_local = True
            self._start_mover()
        if self._is_local:
            try:
                self.move()
            except SpoolFull:
                if self._draining != threading.get_ident():
                    raise
        return self._reach()

    def _reach(self) -> Queue:
        """Return the shared queue. Raises DatabaseAway if it was never reached."""
        if self._shared is None:
            with self._opening:
                if self._shared is None:
                    self._shared = self._open_shared()
                    if self._listening:
                        self._shared.listen(*self._listening)
        return self._shared

    @contextmanager
    def _drain_with(self, right: AbstractContextManager[None]) -> Iterator[None]:
        with right:
            self._draining = threading.get_ident()
            try:
                yield
            finally:
                self._draining = None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads out. Raises SpoolUnwritable in a signal handler of a thread that is here."""
        with self._lock:
            if self._is_locked:
                raise SpoolUnwritable("this thread is just saving; save again when it has done so")
            self._is_locked = True
            try:
                yield
            finally:
                self._is_locked = False

    def _note_away(self, error: DatabaseAway) -> None:
        with self._alone():
            was_there, self._away = self._away is None, error
            self._is_local = True
        if was_there:
            log.error(
                "database_away",
                cause=str(error),
                advice="Checkpoints are kept on the local disk and move over once it is back.",
            )
        self._start_mover()

    def _note_still_away(self, error: DatabaseAway) -> None:
        with self._alone():
            if self._is_local:  # else another thread has found it back since
                self._away = error

    def _look_for_return(self) -> None:
        """Note that the database is back. Raises DatabaseAway if it is not."""
        # Forgets nothing, but shows that the database takes writes again: a standby answers, too.
        self._reach().forget()
        self._note_back()

    def _note_back(self) -> None:
        if self._away:
            self._away = None
            log.warning("database_back", advice="What was kept on the local disk moves over.")

    def _remember(self, outcomes: Sequence[PutOutcome]) -> None:
        if len(self._highest) > _MOST_REMEMBERED:
            self._highest.clear()
        for outcome in outcomes:
            if isinstance(outcome, Receipt):
                known = self._highest.get(outcome.run_id, 0)
                self._highest[outcome.run_id] = max(known, outcome.sequence_number)

    def _go_on_numbering(self, new_items: Sequence[NewItem]) -> None:
        """See to it that the numbers given here follow those that the database gave through this replica."""
        run_ids = {each.run_id for each in new_items}
        self._local.learn_sequences(
            {run_id: number for run_id in run_ids if (number := self._highest.pop(run_id, 0))}
        )

    def _start_mover(self) -> None:
        with self._alone():
            if self._mover and self._mover.is_alive():  # not the one of the process that we were forked from
                return
            self._mover = threading.Thread(target=self._move_until_done, name="holdfast-mover", daemon=True)
            self._mover.start()

    def _move_until_done(self) -> None:
        while True:
            with self._alone():
                # Decided while nothing can be put here, so that nothing is left without a mover.
                if not self._is_local or self._closed.is_set():
                    self._mover = None
                    return
            if not self._try_to_move():
                self._closed.wait(TRY_EVERY_S)

    def _try_to_move(self) -> bool:
        """Move what waits here, if the database is back; return whether it did."""
        try:
            self._look_for_return()
            self._reach().check_room()
            self.move()
        except SpoolError as error:
            if isinstance(error, DatabaseAway):
                self._note_still_away(error)
            return False
        except Exception:
            log.exception("moving_failed")
            return False
        return True
