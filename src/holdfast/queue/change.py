"""One change of the spool: rows, totals and receipts that are stored together or not at all."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from holdfast.cache.store import Store
from holdfast.errors import UnknownRun
from holdfast.format.receipt import Delivery, Progress, Receipt
from holdfast.queue import keys
from holdfast.queue.records import Record, RunNumbers, Totals


@contextmanager
def changing(store: Store, now: float) -> Iterator["Change"]:
    """Hold the write lock for one change; it is on disk when this ends, unless an exception ended it."""
    with store.transact():
        change = Change(store, now)
        yield change
        change.flush()


class Change:
    """The rows to write and to remove, collected while the write lock is held."""

    def __init__(self, store: Store, now: float) -> None:
        self._store = store
        self._now = now
        self.totals = Totals.decode(store.get(keys.TOTALS))
        self._numbers: dict[str, RunNumbers] = {}
        self._removed: list[str] = []
        self._rows: dict[str, bytes] = {}
        self._digests: dict[str, bytes] = {}

    def record(self, checkpoint_id: str) -> Record:
        """Return what is known of a checkpoint. Raises UnknownRun."""
        for record in self.records([checkpoint_id]):
            return record
        raise UnknownRun(f"checkpoint {checkpoint_id} is not known to this spool")

    def records(self, checkpoint_ids: Iterable[str]) -> list[Record]:
        """Return what is known of the checkpoints; unknown ones are left out."""
        found = self._store.get_many(keys.RECEIPT + each for each in checkpoint_ids)
        return [Record.decode(row) for row in found.values()]

    def body(self, key: str) -> bytes:
        """Return the bytes of a row, damaged or not. Raises UnknownRun."""
        body = self._store.get_unchecked(key)
        if body is None:
            raise UnknownRun("the body of this checkpoint is not in the spool")
        return body

    def write(self, key: str, value: bytes, digest: bytes | None = None) -> None:
        """Store a row."""
        self._rows[key] = value
        if digest:
            self._digests[key] = digest

    def remove(self, key: str) -> None:
        """Remove a row, if it is there."""
        self._removed.append(key)

    def move(self, old: str, new: str) -> None:
        """Store a row under another key, damaged or not."""
        self.write(new, self.body(old))
        self.remove(old)

    def update(self, record: Record, **changes: object) -> Receipt:
        """Store the record with its receipt changed, and return that receipt."""
        changed = record.with_receipt(self._now, **changes)
        self.write(keys.RECEIPT + changed.receipt.checkpoint_id, changed.encode())
        return changed.receipt

    def deliver(self, record: Record, delivery: Delivery, status: Progress) -> None:
        """Let the receipt say where the checkpoint has arrived."""
        self.take_number(record.receipt.run_id, delivery.sequence)
        self.update(
            record,
            status=status,
            sequence_number=delivery.sequence,
            file_path=delivery.file_path,
            commit_sha=delivery.commit_sha,
            blob_sha=delivery.blob_sha,
            reason=None,
        )

    def vacate(self, record: Record) -> None:
        """Take the checkpoint's rows out of the line, or from what is set aside."""
        size_bytes = record.place.item.size_bytes
        if record.receipt.status == Progress.REFUSED:
            self.totals.unshelve(size_bytes)
        self.totals.leave(size_bytes)
        for prefix in (keys.TICKET, keys.ASIDE):
            self.remove(prefix + record.slot)
        self.remove(keys.HOLD + record.receipt.checkpoint_id)

    def take_number(self, run_id: str, sequence: int) -> None:
        """Mark a sequence number of a run as taken."""
        key = keys.RUN + run_id
        if key not in self._numbers:
            self._numbers[key] = RunNumbers.decode(self._store.get(key))
        self._numbers[key].mark(sequence)

    def flush(self) -> None:
        """Hand all rows to the store."""
        if not self._rows:
            return
        for key, numbers in self._numbers.items():
            self.write(key, numbers.encode())
        self.write(keys.TOTALS, self.totals.encode())
        self._store.delete(*self._removed)
        self._store.set_many(self._rows, self._digests)
