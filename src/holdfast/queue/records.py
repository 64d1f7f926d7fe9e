"""The small rows beside the bodies: receipts, the numbers of a run, holds, totals."""

from dataclasses import dataclass, field, replace

import orjson

from holdfast.format.receipt import Persistence, Progress, Receipt
from holdfast.queue.keys import Slot, parse_slot

DAMAGED = "damaged: its bytes on disk are not the bytes that were stored"

_MAX_RANGES = 500


@dataclass(frozen=True, slots=True)
class Record:
    """All that the spool knows of one checkpoint besides its body."""

    receipt: Receipt
    slot: str
    body_sha256: str
    fingerprint: str | None
    updated_at: float

    @property
    def place(self) -> Slot:
        """Return the item and its place in the line."""
        return parse_slot("|" + self.slot)

    def encode(self) -> bytes:
        """Return the row to store."""
        return orjson.dumps(self)

    @classmethod
    def decode(cls, row: bytes) -> "Record":
        """Return the record that `encode` made a row of."""
        fields = orjson.loads(row)
        receipt = fields.pop("receipt")
        status, persistence = Progress(receipt.pop("status")), Persistence(receipt.pop("persistence"))
        return cls(receipt=Receipt(status=status, persistence=persistence, **receipt), **fields)

    def with_receipt(self, now: float, **changes: object) -> "Record":
        """Return the record with its receipt changed at `now`."""
        return replace(self, receipt=replace(self.receipt, **changes), updated_at=now)  # type: ignore[arg-type]


@dataclass(slots=True)
class RunNumbers:
    """Which sequence numbers of a run are taken here, as ranges, and the highest known anywhere.

    >>> numbers = RunNumbers()
    >>> [numbers.take(wanted) for wanted in (None, None, 7, 2, 5, None)]
    [1, 2, 7, 8, 5, 9]
    """

    highest: int = 0
    taken: list[list[int]] = field(default_factory=list)

    def encode(self) -> bytes:
        """Return the row to store."""
        return orjson.dumps([self.highest, self.taken])

    @classmethod
    def decode(cls, row: bytes | None) -> "RunNumbers":
        """Return the numbers that `encode` made a row of; of a new run if there is none."""
        return cls(*orjson.loads(row)) if row else cls()

    def choose(self, wanted: int | None) -> int:
        """Return `wanted` if it is free, else the number after the highest."""
        is_free = wanted is not None and not any(first <= wanted <= last for first, last in self.taken)
        return wanted if is_free and wanted else self.highest + 1

    def take(self, wanted: int | None) -> int:
        """Return the number that `choose` chooses, and mark it as taken."""
        number = self.choose(wanted)
        self.mark(number)
        return number

    def mark(self, number: int) -> None:
        """Mark `number` as taken."""
        self.highest = max(self.highest, number)
        if self.taken and self.taken[-1][1] == number - 1:
            self.taken[-1][1] = number
        else:
            self.taken = _join_ranges([*self.taken, [number, number]])

    def joined(self, others: "RunNumbers | None") -> "RunNumbers":
        """Return new numbers in which all is taken that is taken in one of the two."""
        if others is None:
            return RunNumbers(self.highest, [list(each) for each in self.taken])
        return RunNumbers(max(self.highest, others.highest), _join_ranges([*self.taken, *others.taken]))


def _join_ranges(ranges: list[list[int]]) -> list[list[int]]:
    joined: list[list[int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1][1] = max(joined[-1][1], last)
        else:
            joined.append([first, last])
    if len(joined) > _MAX_RANGES:
        # A run numbered with gaps throughout: its oldest gaps count as taken, or the row grows for ever.
        joined[:2] = [[joined[0][0], joined[1][1]]]
    return joined


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a item waits: how often it was tried, when to try again, and what stood in the way."""

    attempts: int
    not_before: float
    reason: str

    def encode(self) -> bytes:
        """Return the row to store."""
        return orjson.dumps([self.attempts, self.not_before, self.reason])

    @classmethod
    def decode(cls, row: bytes) -> "Hold":
        """Return the hold that `encode` made a row of."""
        return cls(*orjson.loads(row))


@dataclass(slots=True)
class Totals:
    """Running totals, changed in the same transaction as the rows that they count."""

    arrivals: int = 0
    depth: int = 0
    depth_bytes: int = 0
    aside: int = 0
    aside_bytes: int = 0
    salvaged: int = 0
    lost: int = 0

    def encode(self) -> bytes:
        """Return the row to store."""
        return orjson.dumps(self)

    @classmethod
    def decode(cls, row: bytes | None) -> "Totals":
        """Return the totals that `encode` made a row of; zeros if there is none."""
        return cls(**orjson.loads(row)) if row else cls()

    def with_more(self, count: int, size_bytes: int) -> "Totals":
        """Return new totals, after `count` more items have arrived, of so many bytes together."""
        return Totals(
            self.arrivals + count,
            self.depth + count,
            self.depth_bytes + size_bytes,
            self.aside,
            self.aside_bytes,
            self.salvaged,
            self.lost,
        )

    def enter(self, size_bytes: int) -> None:
        """Count a item in."""
        self.depth += 1
        self.depth_bytes += size_bytes

    def leave(self, size_bytes: int) -> None:
        """Count a item out."""
        self.depth -= 1
        self.depth_bytes -= size_bytes

    def shelve(self, size_bytes: int) -> None:
        """Count a item from the line to what is set aside."""
        self.leave(size_bytes)
        self.aside += 1
        self.aside_bytes += size_bytes

    def unshelve(self, size_bytes: int) -> None:
        """Count a item from what is set aside back into the line."""
        self.aside -= 1
        self.aside_bytes -= size_bytes
        self.enter(size_bytes)
