"""What killed writers have left behind: a file that no index names, an index that is ahead of `latest.json`.

A writer puts the file, then `index.json`, then `latest.json`. One that is killed in between goes on when it
comes back. If nobody comes back, the run would be left alone for good; so once that is old by GitHub's time,
a clean-up does what the writer would have done.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.errors import HoldfastError, IntegrityFailure
from holdfast.format.checkpoint import Envelope, fingerprint_body
from holdfast.format.index import Index, IndexEntry
from holdfast.format.paths import INDEX, LATEST, Layout, parse_sequences
from holdfast.format.run_snapshot import RemoteFile
from holdfast.format.stored_file import entry_of, open_checkpoint
from holdfast.jsontext.members import join_members, parse_document
from holdfast.retention.scanned_run import ScannedRun, find_unindexed
from holdfast.styles.review import carry_review

SETTLED_AFTER_DAYS = 1.0
"""How old what a writer has left must be: until then, it may be about to go on."""


@dataclass(frozen=True, slots=True)
class Mending:
    """What makes a run whole, and why; nothing but a reason if that needs a person.

    `unread` are files that must be opened before this can be decided. The order of `write` counts: the index
    comes after the files that it names.
    """

    reason: str = ""
    unread: tuple[str, ...] = ()
    write: Mapping[str, bytes] = field(default_factory=dict)
    delete: Mapping[str, RemoteFile] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """A checkpoint in one of the files, its bytes, and what an index would say of it."""

    envelope: Envelope
    text: bytes
    entry: IndexEntry


def find_unfinished(run: ScannedRun, layout: Layout) -> list[str]:
    """Return the files that a writer has put without getting to its end; none if the run is damaged."""
    if run.damage or run.is_archived:
        return []
    if INDEX not in run.files:
        last = run.snapshot.latest_sequence
        return [name for name in run.files if any(number > last for number in parse_sequences(name)[-1:])]
    index = run.index
    if index is None or not index.entries:
        return []
    newest = index.current or index.entries[-1]
    is_behind = run.snapshot.latest_sequence != newest.sequence
    behind = [layout.name_of(run.run_id, newest.file_path)] if is_behind else []
    return [*find_unindexed(run, index, layout), *behind]


def decide_mending(run: ScannedRun, layout: Layout) -> Mending | None:
    """Return how to end what a writer has begun; None if it may be at it, or there is nothing to end.

    A checkpoint that is nowhere else is put into the index. A file goes only if all that is in it says the
    same elsewhere in the run.
    """
    left = find_unfinished(run, layout)
    if not left or not all(run.is_older(name, SETTLED_AFTER_DAYS) for name in left):
        return None
    if unread := tuple(name for name in left if name not in run.texts_of):
        return Mending(unread=unread)
    try:
        found = {name: _open(run, name, layout) for name in left}
        index = run.index
        return (
            _make_index(run, found, layout) if index is None else _Completing(run, index, layout).end(found)
        )
    except IntegrityFailure as failure:
        return Mending(f"{failure.path} is in no index, and damaged: {failure.reason}")


def _open(run: ScannedRun, name: str, layout: Layout) -> list[_Checkpoint]:
    """Return what a file holds. Raises IntegrityFailure unless all of it is sound, and belongs there."""
    path = layout.path(run.run_id, name)
    if lost := sorted(run.parts_of.get(name, frozenset()) - run.files.keys()):
        raise IntegrityFailure(path, f"it refers to {lost[0]}, which is not there")
    return [_open_text(run.run_id, text, path, parse_sequences(name)) for text in run.texts_of[name].values()]


def _open_text(run_id: str, text: bytes, path: str, numbers: range) -> _Checkpoint:
    envelope = open_checkpoint(text, path)
    if envelope.header.run_id != run_id or envelope.sequence not in numbers:
        raise IntegrityFailure(path, "it holds a checkpoint of another run, or under another number")
    entry = entry_of(envelope, path)
    # The file of an older format has other bytes than the checkpoint that is made of it.
    return _Checkpoint(envelope, text, entry if envelope.content == text else replace(entry, blob_sha=""))


def _make_index(run: ScannedRun, found: Mapping[str, Sequence[_Checkpoint]], layout: Layout) -> Mending:
    """Return how a run gets an index that has none: its snapshot has the one that it ought to have."""
    snapshot = run.snapshot
    flaws = [flaw for flaw in snapshot.flaws if flaw.path != layout.path(run.run_id, INDEX)]
    opened = {each.entry.checkpoint_id: each for each in _all(found)}
    newest = snapshot.index.current
    if flaws or newest is None or newest.checkpoint_id not in opened:
        reason = flaws[0].reason if flaws else "its newest file names no checkpoint of it"
        return Mending(f"it has no {INDEX}, and none can be made: {reason}")
    named = {entry.file_path for entry in snapshot.index.all_entries}
    if rival := next((name for name in found if layout.path(run.run_id, name) not in named), ""):
        return Mending(_tell_rival(rival))
    write = {}
    if latest := snapshot.revived:
        path = snapshot.index.by_id[latest.checkpoint_id].file_path
        write[layout.name_of(run.run_id, path)] = latest.content
    review = carry_review(snapshot.index.review, [each.envelope for each in _all(found)])
    write |= _index_files(replace(snapshot.index, review=review), run, layout)
    return Mending(_tell(len(opened), 0), write=write | {LATEST: opened[newest.checkpoint_id].text})


@dataclass(slots=True)
class _Completing:
    """One index on its way to name all that was left beside it."""

    run: ScannedRun
    index: Index
    layout: Layout
    added: list[_Checkpoint] = field(default_factory=list)
    delete: dict[str, RemoteFile] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    stuck: str = ""

    def end(self, found: Mapping[str, Sequence[_Checkpoint]]) -> Mending:
        """Return what is to be done about the files, each after the other."""
        unindexed = set(find_unindexed(self.run, self.index, self.layout))
        for name in sorted(unindexed):
            self._place(name, found[name])
        if self.unread:
            return Mending(unread=tuple(self.unread))
        write = self._index_write() | self._latest_write(found)
        if not write and not self.delete:
            return Mending(self.stuck)
        return Mending(_tell(len(self.added), len(self.delete)), write=write, delete=self.delete)

    def _place(self, name: str, held: Sequence[_Checkpoint]) -> None:
        new = [each for each in held if self._entry_of(each) is None]
        numbers = {entry.sequence for entry in self.index.all_entries}
        numbers |= {each.entry.sequence for each in self.added}
        if any(each.entry.sequence in numbers for each in new):
            self.stuck = _tell_rival(name)
        elif new:
            self.added += new
        elif self._are_copies(held):
            self.delete[name] = self.run.files[name]
        else:
            self.stuck = f"{name} says something else than the checkpoint with the same id in the index"

    def _entry_of(self, checkpoint: _Checkpoint) -> IndexEntry | None:
        identity = checkpoint.entry.checkpoint_id
        added = (each.entry for each in self.added if each.entry.checkpoint_id == identity)
        return self.index.by_id.get(identity) or next(added, None)

    def _are_copies(self, held: Sequence[_Checkpoint]) -> bool:
        """Whether those that the index names, or will name, are there and say the same."""
        owners = [entry for each in held if (entry := self._entry_of(each))]
        names = [self.layout.name_of(self.run.run_id, entry.file_path) for entry in owners]
        texts = self.run.texts_of
        self.unread += [name for name in names if name not in texts]
        return not self.unread and all(
            _is_same(texts[name].get(each.entry.checkpoint_id, b""), each.text)
            for name, each in zip(names, held, strict=True)
        )

    def _index_write(self) -> dict[str, bytes]:
        if not self.added:
            return {}
        entries = [each.entry for each in self.added]
        workflow = next((e.envelope.header.workflow for e in self.added if e.envelope.header.workflow), None)
        # That it is mended does not make it one of the runs last written to.
        united = self.index.with_entries(
            entries, workflow=self.index.workflow or workflow, now=self.index.last_updated
        )
        review = carry_review(self.index.review, [each.envelope for each in self.added])
        return _index_files(replace(united, review=review), self.run, self.layout)

    def _latest_write(self, found: Mapping[str, Sequence[_Checkpoint]]) -> dict[str, bytes]:
        entries = (*self.index.entries[-1:], *(each.entry for each in self.added))
        newest = max(entries, key=lambda entry: (entry.sequence, entry.checkpoint_id))
        if newest.sequence == self.run.snapshot.latest_sequence:
            return {}
        return {LATEST: next(e.text for e in _all(found) if e.entry.checkpoint_id == newest.checkpoint_id)}


def _index_files(index: Index, run: ScannedRun, layout: Layout) -> dict[str, bytes]:
    """Return the index and the segments that it closes, these first."""
    folded = index.folded(layout.run_folder(run.run_id))
    before = set(index.segments)
    closed = [segment for segment in folded.segments if segment not in before]
    write = {layout.name_of(run.run_id, each.file_path): each.to_bytes(run.run_id) for each in closed}
    return write | {INDEX: folded.to_bytes()}


def _is_same(text: bytes, other: bytes) -> bool:
    """Whether two checkpoints say the same, whatever their numbers are."""
    try:
        return fingerprint_body(_body_of(text)) == fingerprint_body(_body_of(other))
    except (HoldfastError, ValueError):
        return False


def _body_of(text: bytes) -> bytes:
    members = parse_document(text).members
    return join_members({name: members[name] for name in members if name != "integrity"})


def _all(found: Mapping[str, Iterable[_Checkpoint]]) -> Iterator[_Checkpoint]:
    return (each for held in found.values() for each in held)


def _tell(added: int, deleted: int) -> str:
    indexed = f"{added} of its checkpoints come into the index" if added else ""
    copies = f"{deleted} second copies go" if deleted else ""
    what = ", ".join(filter(None, (indexed, copies))) or f"{LATEST} becomes its newest checkpoint"
    return f"a writer was interrupted and did not come back: {what}"


def _tell_rival(name: str) -> str:
    return (
        f"{name} is the only copy of a checkpoint whose number another one has: "
        "have the machine that wrote it drain its spool, or submit it again as a new checkpoint "
        "and delete the file"
    )
