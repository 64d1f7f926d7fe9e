"""The spools of all shards as one queue: what is put goes to one of them, what is asked is asked of all."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from heapq import merge
from math import inf
from operator import itemgetter

from holdfast.errors import HoldfastError, UnknownRun
from holdfast.format.receipt import Delivery, Persistence, Progress, QueueItem, Receipt
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

_FAR = [Progress.SPOOLED, Progress.COMMITTED, Progress.REFUSED, Progress.VERIFIED]


class ShardedQueue:
    """Several queues, as the protocol `Queue` promises them; `choose` names the one that takes a run in.

    Each shard's drainer works on its own one. This is for those who save, look and decide. What came first
    in different shards is told by the clock, and within a shard by the shard.
    """

    def __init__(self, open_all: Callable[[], Sequence[Queue]], choose: Callable[[str], Queue]) -> None:
        self._open_all = open_all
        self._choose = choose

    def put(self, new_item: NewItem, *, persistence: Persistence = Persistence.NORMAL) -> Receipt:
        return self._choose(new_item.run_id).put(new_item, persistence=persistence)

    def put_all(
        self,
        new_items: Sequence[NewItem],
        *,
        persistence: Persistence = Persistence.NORMAL,
        are_new: bool = False,
    ) -> list[PutOutcome]:
        shares: dict[int, tuple[Queue, list[int]]] = {}
        for place, new_item in enumerate(new_items):
            queue = self._choose(new_item.run_id)
            shares.setdefault(id(queue), (queue, []))[1].append(place)
        outcomes: dict[int, PutOutcome] = {}
        # One commit for each shard that has something in it: each spool is drained, moved and lost by itself.
        for queue, places in shares.values():
            mine = [new_items[place] for place in places]
            outcomes.update(zip(places, _put(queue, mine, persistence, are_new, len(shares)), strict=True))
        return [outcomes[place] for place in range(len(new_items))]

    def check_room(self) -> None:
        for queue in self._open_all():
            queue.check_room()

    def pending(self, now: float | None = None) -> list[QueueItem]:
        lines = [_with_places(queue.pending(now)) for queue in self._open_all()]
        return [item for _, item in merge(*lines, key=itemgetter(0))]

    def newer_runs(self) -> frozenset[str]:
        return frozenset().union(*(queue.newer_runs() for queue in self._open_all()))

    def read(self, item: QueueItem) -> bytes:
        return self._holding(item.checkpoint_id).read(item)

    def renumber(self, item: QueueItem, sequence: int, body: bytes) -> QueueItem:
        return self._holding(item.checkpoint_id).renumber(item, sequence, body)

    def mark_committed(self, outcomes: Mapping[str, Delivery]) -> None:
        for queue in self._open_all():
            queue.mark_committed(outcomes)

    def acknowledge(self, outcomes: Mapping[str, Delivery]) -> None:
        for queue in self._open_all():
            queue.acknowledge(outcomes)

    def release(self, items: Sequence[QueueItem], reason: str, *, not_before: float) -> None:
        for queue in self._open_all():
            queue.release(items, reason, not_before=not_before)

    def backoff(self, checkpoint_id: str) -> Backoff | None:
        found = (queue.backoff(checkpoint_id) for queue in self._open_all())
        return next((backoff for backoff in found if backoff), None)

    def set_aside(self, item: QueueItem, reason: str) -> None:
        self._holding(item.checkpoint_id).set_aside(item, reason)

    def set_aside_entries(self) -> list[Quarantined]:
        return [entry for queue in self._open_all() for entry in queue.set_aside_entries()]

    def is_kept_aside(self, checkpoint_id: str) -> bool:
        return any(queue.is_kept_aside(checkpoint_id) for queue in self._open_all())

    def restore(self, checkpoint_id: str) -> Receipt:
        return self._holding(checkpoint_id).restore(checkpoint_id)

    def discard(self, checkpoint_ids: Iterable[str]) -> int:
        wanted = list(checkpoint_ids)
        return sum(queue.discard(wanted) for queue in self._open_all())

    def fingerprint(self, checkpoint_id: str, body: bytes, /) -> str | None:
        with suppress(UnknownRun):
            return self._holding(checkpoint_id).fingerprint(checkpoint_id, body)
        return None

    def hand_over(self, checkpoint_ids: Iterable[str]) -> None:
        wanted = list(checkpoint_ids)
        for queue in self._open_all():
            queue.hand_over(wanted)

    def receipt(self, checkpoint_id: str) -> Receipt | None:
        """Return how far a checkpoint has come; on its way from one shard to another it is in both."""
        found = [receipt for queue in self._open_all() if (receipt := queue.receipt(checkpoint_id))]
        return max(found, key=lambda receipt: _FAR.index(receipt.status), default=None)

    def forget_receipts(self, run_id: str) -> int:
        return sum(queue.forget_receipts(run_id) for queue in self._open_all())

    def purge_receipts(self, *, older_than: float, keep: int) -> int:
        return sum(queue.purge_receipts(older_than=older_than, keep=keep) for queue in self._open_all())

    def arrivals(self, checkpoint_ids: Iterable[str]) -> dict[str, int]:
        wanted, queues = list(checkpoint_ids), self._open_all()
        found = [queue.arrivals(wanted) for queue in queues]
        return {
            checkpoint_id: number * len(queues) + place
            for place, numbers in enumerate(found)
            for checkpoint_id, number in numbers.items()
        }

    def journeys(self, run_id: str | None = None, *, most: int) -> list[Journey]:
        found = (each for queue in self._open_all() for each in queue.journeys(run_id, most=most))
        return sorted(found, key=lambda each: each.arrived_at, reverse=True)[:most]

    def verified_between(self, begin: float, end: float) -> int:
        return sum(queue.verified_between(begin, end) for queue in self._open_all())

    def known_sequence(self, run_id: str) -> int:
        return max(queue.known_sequence(run_id) for queue in self._open_all())

    def learn_sequence(self, run_id: str, sequence: int) -> None:
        self._choose(run_id).learn_sequence(run_id, sequence)

    def note(self, name: str, value: bytes) -> None:
        for queue in self._open_all():
            queue.note(name, value)

    def notes(self) -> dict[str, bytes]:
        return {name: value for queue in self._open_all() for name, value in queue.notes().items()}

    def forget(self, *names: str) -> None:
        for queue in self._open_all():
            queue.forget(*names)

    def status(self, now: float) -> QueueStatus:
        every = [queue.status(now) for queue in self._open_all()]
        return QueueStatus(
            depth=sum(each.depth for each in every),
            bytes=sum(each.bytes for each in every),
            oldest_age_s=max(each.oldest_age_s for each in every),
            set_aside=sum(each.set_aside for each in every),
            set_aside_bytes=sum(each.set_aside_bytes for each in every),
            salvaged=sum(each.salvaged for each in every),
            lost=sum(each.lost for each in every),
        )

    @contextmanager
    def drainer(self) -> Iterator[None]:
        with ExitStack() as stack:
            for queue in self._open_all():
                stack.enter_context(queue.drainer())
            yield

    def drained_by(self) -> str | None:
        drainers = dict.fromkeys(name for queue in self._open_all() if (name := queue.drained_by()))
        return "; ".join(drainers) or None

    def listen(self, wake: Wake, hear: Hear) -> None:
        for queue in self._open_all():
            queue.listen(wake, hear)

    def write_back(self) -> None:
        for queue in self._open_all():
            queue.write_back()

    def trouble(self) -> str | None:
        troubles = (queue.trouble() for queue in self._open_all())
        return next((trouble for trouble in troubles if trouble), None)

    def close(self) -> None:
        """Leave that to the shards: each closes its own queue."""

    def _holding(self, checkpoint_id: str) -> Queue:
        """Return the queue that a checkpoint is in. Raises UnknownRun."""
        for queue in self._open_all():
            if queue.receipt(checkpoint_id):
                return queue
        raise UnknownRun(f"checkpoint {checkpoint_id} is not in the spool")


def _with_places(items: Iterable[QueueItem]) -> Iterator[tuple[tuple[int, float], QueueItem]]:
    """Yield the items of one shard in its own order, each with a place that never goes back."""
    rank, latest = -1, -inf
    for item in items:
        latest = max(latest, item.arrived_at) if item.priority.rank == rank else item.arrived_at
        rank = item.priority.rank
        yield (rank, latest), item


def _put(
    queue: Queue, new_items: Sequence[NewItem], persistence: Persistence, are_new: bool, shares: int
) -> Sequence[PutOutcome]:
    """Put what falls to one queue; where others have taken theirs, its failure is told of its own alone."""
    try:
        return queue.put_all(new_items, persistence=persistence, are_new=are_new)
    except HoldfastError as error:
        if shares == 1:
            raise
        return [error] * len(new_items)
