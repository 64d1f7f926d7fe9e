"""What the index of a run tells of a thread: which records are in force, without reading them."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from holdfast.format.index import IndexEntry
from holdfast.langgraph.names import Kind, Place, parse_phase


@dataclass(frozen=True, slots=True)
class Filed:
    """One checkpoint of a thread: the record that has it, and the records of writes for it, in order."""

    place: Place
    record_id: str
    write_ids: tuple[str, ...]


@dataclass
class ThreadIndex:
    """The records of a thread that are in force, by the checkpoints that they are about."""

    checkpoints: dict[Place, str] = field(default_factory=dict)
    writes: dict[Place, list[str]] = field(default_factory=dict)

    def find(self, namespace: str, checkpoint_id: str | None) -> Filed | None:
        """Return a checkpoint of a namespace, the newest unless its id is given; None if there is none."""
        if checkpoint_id is None:
            return next(iter(self.newest_first(namespace)), None)
        return self._filed(Place(namespace, checkpoint_id))

    def newest_first(self, namespace: str | None = None) -> list[Filed]:
        """Return the checkpoints of a namespace, or of all. LangGraph's ids sort by their time."""
        places = (place for place in self.checkpoints if namespace in (None, place.namespace))
        ordered = sorted(places, key=lambda place: place.checkpoint_id, reverse=True)
        return [filed for place in ordered if (filed := self._filed(place))]

    def _filed(self, place: Place) -> Filed | None:
        record_id = self.checkpoints.get(place)
        if record_id is None:
            return None
        return Filed(place, record_id, tuple(self.writes.get(place, ())))

    def forget(self, places: Collection[Place]) -> None:
        """Take out these checkpoints and the writes for them."""
        for place in places:
            self.checkpoints.pop(place, None)
            self.writes.pop(place, None)


def index_thread(
    entries: Iterable[IndexEntry], read_deleted: Callable[[str], Collection[Place]]
) -> ThreadIndex:
    """Return what is in force. Of what was saved twice the later one is; a deletion is for what came before.

    `read_deleted` returns what the record of a deletion, by its id, has deleted.
    """
    index = ThreadIndex()
    for entry in sorted(entries, key=lambda entry: entry.sequence):
        name = parse_phase(entry.phase)
        if name is None:
            continue
        if name.kind is Kind.CHECKPOINT:
            index.checkpoints[name.place] = entry.checkpoint_id
        elif name.kind is Kind.WRITES:
            index.writes.setdefault(name.place, []).append(entry.checkpoint_id)
        else:
            index.forget(read_deleted(entry.checkpoint_id))
    return index
