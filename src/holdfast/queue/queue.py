"""The spool: a durable queue of checkpoints on the local disk.

What `put` returned for is on disk. It leaves the spool when it is acknowledged, and in no other way: a
item that cannot be sent is released to be tried again, or set aside with its body for a person to see.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from holdfast.cache.store import Store
from holdfast.clock import Clock
from holdfast.disk import digest_of
from holdfast.errors import HoldfastError, SpoolDamaged, SpoolError, SpoolUnwritable, UnknownRun
from holdfast.format.paths import Layout
from holdfast.format.receipt import Delivery, Persistence, Progress, QueueItem, Receipt
from holdfast.format.triggers import Priority
from holdfast.queue import keys
from holdfast.queue.admission import Entry, Outcome, SpoolLimits, Terms, check_room
from holdfast.queue.change import changing
from holdfast.queue.home import Home
from holdfast.queue.intake import Intake
from holdfast.queue.journal import Journal
from holdfast.queue.lookup import list_items, read_body
from holdfast.queue.records import DAMAGED, Hold, Record, RunNumbers, Totals

T = TypeVar("T")

_PURGE_CHUNK = 500
_SETTLED = frozenset({Progress.VERIFIED, Progress.REFUSED})


@dataclass(frozen=True, slots=True)
class SpoolStatus:
    """The spool in numbers. `salvaged` and `lost` count items, over all repairs of a damaged database."""

    depth: int
    bytes: int
    oldest_age_s: float
    set_aside: int
    set_aside_bytes: int
    salvaged: int
    lost: int


@dataclass(frozen=True, slots=True)
class SetAside:
    """A checkpoint that is kept but no longer sent, and why."""

    item: QueueItem
    reason: str


class Spool:
    """The durable queue in one folder. Threads and processes may put at once; one of them drains.

    Every method raises SpoolUnwritable when the disk does not take a write: then nothing has happened.
    """

    def __init__(self, home: Home, *, limits: SpoolLimits, clock: Clock, layout: Layout) -> None:
        self._home = home
        self._journal = Journal(home.folder)
        self._intake = Intake(self._journal)
        self._limits = limits
        self._clock = clock
        self._layout = layout
        self._next_numbers: dict[str, int] = {}
        self._items: dict[str, QueueItem] = {}

    @classmethod
    def open(cls, folder: Path, *, limits: SpoolLimits, clock: Clock, layout: Layout) -> "Spool":
        """Open the spool in `folder`; what is left of a damaged one is salvaged first.

        Raises SpoolUnwritable, and SpoolBusy if another process keeps it from being opened.
        """
        return cls(Home.open(folder, clock=clock, layout=layout), limits=limits, clock=clock, layout=layout)

    @property
    def folder(self) -> Path:
        """Return the folder that was opened."""
        return self._home.folder

    def put(self, entry: Entry, *, persistence: Persistence = Persistence.NORMAL) -> Receipt:
        """Accept a checkpoint. When this returns, the disk has confirmed it.

        The same checkpoint again is answered with its first receipt, as that stands now. Raises
        CheckpointChanged if this id is known with other content, SpoolFull, SpoolUnwritable.
        """
        (outcome,) = self.put_all([entry], persistence=persistence)
        if isinstance(outcome, HoldfastError):
            raise outcome
        return outcome

    def put_all(
        self,
        entries: Sequence[Entry],
        *,
        persistence: Persistence = Persistence.NORMAL,
        are_new: bool = False,
    ) -> list[Outcome]:
        """Accept many checkpoints with one sync. A wrong one has its error in place of a receipt.

        If they `are_new`, an id that was made here is not looked for. Raises SpoolUnwritable if none of them
        could be stored.
        """
        terms = Terms(self._limits, self._layout, self._clock.now(), persistence, self._next_numbers, are_new)
        return self._home.use(lambda store: self._intake.admit(store, entries, terms))

    def check_room(self) -> None:
        """Raise what the next checkpoint would be refused with: SpoolFull, SpoolUnwritable."""
        self._use(lambda store: check_room(store, self._limits))

    def pending(self, now: float | None = None) -> list[QueueItem]:
        """Return the waiting items: critical first, then as they came in. No body is read.

        With `now`, those that were released until a later time are left out.
        """

        def work(store: Store) -> list[QueueItem]:
            # A drain lists again and again, and most keys are those of the last time.
            known = self._items
            self._items = {key: known.get(key) or keys.parse_slot(key).item for key in list_items(store)}
            items = list(self._items.values())
            if now is None:
                return items
            held = {
                key.removeprefix(keys.HOLD)
                for key, row in store.items(keys.HOLD)
                if Hold.decode(row).not_before > now
            }
            return [item for item in items if item.checkpoint_id not in held]

        return self._use(work)

    def read(self, item: QueueItem) -> bytes:
        """Return the body of a item, exactly as it was put.

        Raises SpoolDamaged if the disk has altered it; the item is then set aside, the others go on.
        UnknownRun if it has left the spool.
        """
        body, fault = self._use(lambda store: read_body(store, item.checkpoint_id))
        if fault is None:
            return body
        self.set_aside(item, DAMAGED)
        raise SpoolDamaged(f"checkpoint {item.checkpoint_id} is set aside: {fault}")

    def renumber(self, item: QueueItem, sequence: int, body: bytes) -> QueueItem:
        """Give a waiting item another number and the body that goes with it; its receipt follows.

        When this returns, the disk has confirmed it, so that it may be sent under the new number.
        """
        digest = digest_of(body)

        def work(store: Store) -> QueueItem:
            with changing(store, self._clock.now()) as change:
                record = change.record(item.checkpoint_id)
                if record.receipt.status in _SETTLED:
                    raise UnknownRun(f"checkpoint {item.checkpoint_id} does not wait in the spool any more")
                old = record.place
                moved = replace(old.item, sequence=sequence, size_bytes=len(body))
                slot = keys.Slot(old.arrival, moved).name
                path = self._layout.checkpoint_path(moved.run_id, sequence, moved.trigger)
                change.totals.leave(old.item.size_bytes)
                change.totals.enter(len(body))
                change.take_number(moved.run_id, sequence)
                change.remove(keys.TICKET + record.slot)
                change.write(keys.TICKET + slot, body, digest)
                record = replace(record, slot=slot, body_sha256=digest.hex())
                change.update(record, sequence_number=sequence, file_path=path)
                return moved

        return self._use(work)

    def mark_committed(self, outcomes: Mapping[str, Delivery]) -> None:
        """Note that these checkpoints, by id, are in a commit that is still to be verified. They stay."""

        def work(store: Store) -> None:
            with changing(store, self._clock.now()) as change:
                for record in change.records(outcomes):
                    if record.receipt.status == Progress.SPOOLED:
                        change.deliver(record, outcomes[record.receipt.checkpoint_id], Progress.COMMITTED)

        self._use(work)

    def acknowledge(self, outcomes: Mapping[str, Delivery]) -> None:
        """Let these checkpoints, by id, leave the spool: they are verified in the repository."""

        def work(store: Store) -> None:
            with changing(store, self._clock.now()) as change:
                for record in change.records(outcomes):
                    if record.receipt.status == Progress.VERIFIED:
                        continue
                    change.vacate(record)
                    change.deliver(record, outcomes[record.receipt.checkpoint_id], Progress.VERIFIED)

        self._use(work)

    def release(self, items: Sequence[QueueItem], reason: str, *, not_before: float) -> None:
        """Count a failed attempt; the items wait in their places until `not_before`."""
        names = [keys.HOLD + item.checkpoint_id for item in items]

        def work(store: Store) -> None:
            with store.transact():
                holds = {name: Hold.decode(row) for name, row in store.get_many(names).items()}
                attempts = {name: holds[name].attempts + 1 if name in holds else 1 for name in names}
                store.set_many({name: Hold(attempts[name], not_before, reason).encode() for name in names})

        self._use(work)

    def hold(self, checkpoint_id: str) -> Hold | None:
        """Return why a item waits, and how often it was tried; None if it was never released."""
        row = self._use(lambda store: store.get(keys.HOLD + checkpoint_id))
        return Hold.decode(row) if row else None

    def set_aside(self, item: QueueItem, reason: str) -> None:
        """Take a item out of the line and keep its body; its receipt says that, and why, it is refused."""

        def work(store: Store) -> None:
            with changing(store, self._clock.now()) as change:
                record = change.record(item.checkpoint_id)
                if record.receipt.status in _SETTLED:
                    return
                change.totals.shelve(record.place.item.size_bytes)
                change.move(keys.TICKET + record.slot, keys.ASIDE + record.slot)
                change.remove(keys.HOLD + item.checkpoint_id)
                change.update(record, status=Progress.REFUSED, reason=reason)

        self._use(work)

    def restore(self, checkpoint_id: str) -> Receipt:
        """Put a checkpoint that was set aside back into its place in the line.

        Raises UnknownRun if there is no such checkpoint, SpoolDamaged if its body is damaged.
        """

        def work(store: Store) -> Receipt:
            with changing(store, self._clock.now()) as change:
                record = change.record(checkpoint_id)
                if record.receipt.status != Progress.REFUSED:
                    return record.receipt
                body = change.body(keys.ASIDE + record.slot)
                if digest_of(body).hex() != record.body_sha256:
                    raise SpoolDamaged(
                        f"the body of checkpoint {checkpoint_id} is damaged; it stays set aside"
                    )
                change.totals.unshelve(record.place.item.size_bytes)
                change.remove(keys.ASIDE + record.slot)
                change.write(keys.TICKET + record.slot, body)
                return change.update(record, status=Progress.SPOOLED, reason=None)

        return self._use(work)

    def receipt(self, checkpoint_id: str) -> Receipt | None:
        """Return how far a checkpoint has come, or None if it is not known here.

        While it waits after a failed attempt, `reason` says what stood in the way.
        """

        def work(store: Store) -> Receipt | None:
            names = (keys.RECEIPT + checkpoint_id, keys.HOLD + checkpoint_id)
            found = store.get_many(names)
            if names[0] not in found:
                return None
            receipt = Record.decode(found[names[0]]).receipt
            if names[1] in found and receipt.status != Progress.VERIFIED:
                receipt = replace(receipt, reason=Hold.decode(found[names[1]]).reason)
            return receipt

        return self._use(work)

    def arrivals(self, checkpoint_ids: Iterable[str]) -> dict[str, int]:
        """Return the how-manieth each of these is that came in here; unknown ones are left out."""
        wanted = [keys.RECEIPT + each for each in checkpoint_ids]
        rows = self._use(lambda store: store.get_many(wanted))
        return {key.removeprefix(keys.RECEIPT): Record.decode(row).place.arrival for key, row in rows.items()}

    def known_sequence(self, run_id: str) -> int:
        """Return the highest sequence number of a run that is known here; 0 for an unknown run."""
        row = self._use(lambda store: store.get(keys.RUN + run_id))
        return RunNumbers.decode(row).highest

    def learn_sequence(self, run_id: str, sequence: int) -> None:
        """Let the next numbers of a run begin after `sequence`, because the repository is that far."""

        def work(store: Store) -> None:
            with store.transact():
                numbers = RunNumbers.decode(store.get(keys.RUN + run_id))
                if numbers.highest < sequence:
                    numbers.highest = sequence
                    store.set(keys.RUN + run_id, numbers.encode())

        self._use(work)

    def note(self, name: str, value: bytes) -> None:
        """Keep a note of a pending write. When this returns, the disk has confirmed it."""
        self._home.use(lambda store: store.set(keys.NOTE + name, value))

    def notes(self) -> dict[str, bytes]:
        """Return all notes by name."""
        rows = self._home.use(lambda store: dict(store.items(keys.NOTE)))
        return {key.removeprefix(keys.NOTE): value for key, value in rows.items()}

    def forget(self, *names: str) -> None:
        """Drop notes; unknown ones are passed over."""
        self._drop([keys.NOTE + name for name in names])

    def status(self, now: float) -> SpoolStatus:
        """Return the spool in numbers, at no cost that grows with it."""

        def work(store: Store) -> SpoolStatus:
            totals = Totals.decode(store.get(keys.TOTALS))
            firsts = [store.keys(f"{keys.TICKET}{rank}|", limit=1) for rank in range(len(Priority))]
            arrived = [keys.parse_slot(key).item.arrived_at for found in firsts for key in found]
            return SpoolStatus(
                depth=totals.depth,
                bytes=totals.depth_bytes,
                oldest_age_s=max(0.0, now - min(arrived, default=now)),
                set_aside=totals.aside,
                set_aside_bytes=totals.aside_bytes,
                salvaged=totals.salvaged,
                lost=totals.lost,
            )

        return self._use(work)

    def is_kept_aside(self, checkpoint_id: str) -> bool:
        """Return whether a checkpoint is set aside with its body whole."""
        return any(
            each.item.checkpoint_id == checkpoint_id and each.reason != DAMAGED
            for each in self.set_aside_entries()
        )

    def set_aside_entries(self) -> list[SetAside]:
        """Return all that is set aside, with the reasons."""

        def work(store: Store) -> list[SetAside]:
            items = [keys.parse_slot(key).item for key in store.keys(keys.ASIDE)]
            rows = store.get_many(keys.RECEIPT + item.checkpoint_id for item in items)
            records = {key.removeprefix(keys.RECEIPT): Record.decode(row) for key, row in rows.items()}
            return [SetAside(each, records[each.checkpoint_id].receipt.reason or "") for each in items]

        return self._use(work)

    def purge_receipts(self, *, older_than: float, keep: int) -> int:
        """Drop the receipts of what was verified before `older_than`, but for the newest `keep`.

        Returns how many went. A checkpoint whose receipt is gone would be stored anew if it came again.
        """

        def work(store: Store) -> list[str]:
            records = ((key, Record.decode(row)) for key, row in store.items(keys.RECEIPT))
            verified = [
                (each.updated_at, key) for key, each in records if each.receipt.status == Progress.VERIFIED
            ]
            newest_first = sorted(verified, reverse=True)
            return [key for updated_at, key in newest_first[keep:] if updated_at < older_than]

        chosen = self._use(work)
        for start in range(0, len(chosen), _PURGE_CHUNK):
            self._drop(chosen[start : start + _PURGE_CHUNK])
        return len(chosen)

    def drainer(self) -> AbstractContextManager[None]:
        """Be the one that drains, until the context ends or this process does. Raises SpoolBusy."""
        return self._home.drainer()

    def close(self) -> None:
        """Close the files; no thread may be at work."""
        with suppress(SpoolError):
            # It would be safe in the journal, too; so the next one finds less to do.
            self._home.use(self._intake.absorb)
        self._journal.close()
        self._home.close()

    def _use(self, work: Callable[[Store], T]) -> T:
        """Return what `work` does with the store once that holds all that was accepted."""

        def absorb_and_work(store: Store) -> T:
            try:
                self._intake.absorb(store)
            except SpoolUnwritable as error:
                return self._intake.rehearse(store, work, error)
            return work(store)

        return self._home.use(absorb_and_work)

    def _drop(self, names: list[str]) -> None:
        self._home.use(lambda store: store.delete(*names))
