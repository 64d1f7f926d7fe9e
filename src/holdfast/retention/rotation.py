"""Seals what is stored with the newest key: one commit after the other, each whole in itself.

Killed anywhere, it leaves the old checkpoint or the new one; the next time it goes on with what is left.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from holdfast.clock import Deadline
from holdfast.errors import (
    Conflict,
    GatewayError,
    IntegrityFailure,
    KeyMissing,
    Missing,
    Remedy,
    Stopped,
    UnknownRun,
)
from holdfast.format.checkpoint import Envelope, open_stored
from holdfast.format.git_ids import blob_sha
from holdfast.format.incremental import Memory, PartChooser
from holdfast.format.index import Index, IndexEntry
from holdfast.format.index_segments import close_segment
from holdfast.format.part_files import PartStyle
from holdfast.format.parts import join_envelope
from holdfast.format.paths import INDEX, LATEST, PARTS, Layout, is_single
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.format.splitting import stamp_in_parts
from holdfast.format.stored_file import is_unstamped, renew_batch, split_file
from holdfast.github.calls import Gateway, ReadHead
from holdfast.github.wrappers.retrying import WRITE_ATTEMPTS, plan_and_repeat
from holdfast.jsontext.members import Document, parse_document
from holdfast.logs import log
from holdfast.repository.runs import Runs
from holdfast.retention.commit import Committer, FileChanges
from holdfast.security.trust import Trust

# What one commit takes, as a rule: large ones are refused, and lost as a whole.
_COMMIT_BYTES = 4 * 1024 * 1024


@dataclass
class RotationReport:
    """What became of one run: how many checkpoints were sealed anew, and why others were left as they are."""

    run_id: str
    sealed: int = 0
    left: list[str] = field(default_factory=list)


@dataclass
class Rotator:
    """Seals the checkpoints of runs with the first key. What is not signed as it must be is left alone."""

    gateway: Gateway
    runs: Runs
    committer: Committer
    layout: Layout
    branch: str
    trust: Trust
    limit_bytes: int
    deadline: Deadline
    least_part_bytes: int | None = None

    def rotate(self, run_id: str) -> RotationReport:
        """Seal a run with the newest key. Raises UnknownRun, Stopped, GatewayError when GitHub is away."""
        report = RotationReport(run_id)

        def note(_attempt: int, conflict: GatewayError) -> None:
            log.info("rotation_repeated", run_id=run_id, cause=str(conflict))

        while plan_and_repeat(
            lambda: self._plan(report),
            lambda planned: self._commit(report, *planned),
            attempts=WRITE_ATTEMPTS,
            deadline=self.deadline,
            note=note,
            when=lambda error: isinstance(error, Conflict),
        ):
            pass
        return report

    def _plan(self, report: RotationReport) -> "tuple[_RotationStep, FileChanges | None]":
        if self.deadline.expired():
            raise Stopped("keys rotate goes on where it stopped when it is called again")
        head_sha = self.gateway.perform(ReadHead(self.branch))
        snapshot = self.runs.read_at(report.run_id, head_sha)
        snapshot = self.runs.unfold(snapshot, lambda index: index.segments, head_sha)
        if not snapshot.blobs:
            raise UnknownRun(f"there is no run {report.run_id!r} in the repository", Remedy("runs"))
        step = _RotationStep(self, snapshot, head_sha)
        return step, step.plan()

    def _commit(self, report: RotationReport, step: "_RotationStep", change: FileChanges | None) -> bool:
        """Whether there was anything left to do."""
        report.left = step.left
        if change is None:
            return False
        try:
            commit_sha = self.committer.commit(step.ref, change)
        finally:
            self.runs.forget(report.run_id)
        report.sealed += len(step.sealed)
        log.info("run_sealed_anew", run_id=report.run_id, checkpoints=len(step.sealed), commit_sha=commit_sha)
        return True

    def stamp_for(self, run_id: str) -> Callable[[bytes], Envelope]:
        """Return what makes of bodies what the repository will hold, members that did not change once."""
        style, sign = PartStyle(self.layout.run_folder(run_id)), self.trust.signatures.sign
        if self.least_part_bytes is None:
            return partial(stamp_in_parts, limit_bytes=self.limit_bytes, style=style, sign=sign)
        return PartChooser(Memory(), style, self.limit_bytes, self.least_part_bytes, sign=sign).stamp


class _RotationStep:
    """One commit: as many files of a run as fit in it. `left` has the reasons for what stays as it is."""

    def __init__(self, rotator: Rotator, snapshot: RunSnapshot, ref: str) -> None:
        self._rotator = rotator
        self._snapshot = snapshot
        self.ref = ref
        self._parts: Mapping[str, str] | None = None
        # Anew for each commit, so that nothing refers to what another one was to bring.
        self._stamp = rotator.stamp_for(snapshot.run_id)
        self.sealed: dict[str, Envelope] = {}
        self.left: list[str] = []

    def plan(self) -> FileChanges | None:
        """Return what is to be committed; None if nothing is left to do."""
        snapshot, layout = self._snapshot, self._rotator.layout
        if snapshot.index.entries and not snapshot.is_index_stored:
            self.left.append(f"{self._path(INDEX)}: it must be mended first; save or drain a checkpoint")
            return None
        files = dict(self._files())
        latest = self._latest()
        if not files and not latest:
            return None
        parts = {
            layout.path(snapshot.run_id, n): c for each in self.sealed.values() for n, c in each.parts.items()
        }
        write = {**parts, **files}
        if files and snapshot.index.entries:
            write |= self._index_files(_renew(snapshot.index, self.sealed))
        headline = f"Seal run {snapshot.run_id} with key {self._rotator.trust.keyring.keys[0].kid}"
        paths = {layout.path(snapshot.run_id, name): sha for name, sha in snapshot.blobs.items()}
        return FileChanges(headline, "", {**write, **latest}, (), paths)

    def _files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the files that change, the oldest first, until the commit is full."""
        names = dict.fromkeys(
            self._rotator.layout.name_of(self._snapshot.run_id, entry.file_path)
            for entry in self._snapshot.index.all_entries
        )
        room = _COMMIT_BYTES
        for name in names:
            if name not in self._snapshot.blobs:
                continue
            content = self._rotator.runs.read_blob(self._snapshot.blobs[name])
            changed = self._reseal_file(name, content)
            if changed is None:
                continue
            yield self._path(name), changed
            room -= len(changed)
            if room <= 0:
                return

    def _reseal_file(self, name: str, content: bytes) -> bytes | None:
        path = self._path(name)
        try:
            texts = split_file(content, path)
        except IntegrityFailure as failure:
            self.left.append(str(failure))
            return None
        renewed = [self._reseal(text, path) for text in texts]
        if not any(renewed):
            return None
        chosen = [new.content if new else text for new, text in zip(renewed, texts, strict=True)]
        return chosen[0] if is_single(name) else renew_batch(content, chosen)

    def _reseal(self, text: bytes, path: str) -> Envelope | None:
        """Return a checkpoint sealed anew; None if it stays as it is, with the reason if it should not."""
        try:
            envelope, document = open_stored(text, path)
            body = self._body(envelope, document, path)
        except (IntegrityFailure, KeyMissing) as failure:
            if not is_unstamped(parse_document(text).value):
                self.left.append(str(failure))
            return None
        if body is None:
            return None
        renewed = self._stamp(body)
        self.sealed[envelope.checkpoint_id] = renewed
        return renewed

    def _body(self, envelope: Envelope, document: Document, path: str) -> bytes | None:
        trust = self._rotator.trust
        if trust.signatures.sign is None and "signature" in document.value["integrity"]:
            raise IntegrityFailure(path, "it is signed, and no key that signs is here")
        trust.check(envelope, path)
        return trust.keyring.reseal(join_envelope(envelope, self._read_part, path), path)

    def _read_part(self, path: str) -> bytes:
        if self._parts is None:
            folder = f"{self._snapshot.run_id}/{PARTS}"
            try:
                self._parts = self._rotator.runs.list_files(folder, self.ref)
            except Missing:
                self._parts = {}
        name = path.rpartition("/")[2]
        if name not in self._parts:
            raise IntegrityFailure(path, "a checkpoint refers to it, but it is not there")
        return self._rotator.runs.read_blob(self._parts[name])

    def _latest(self) -> dict[str, bytes]:
        """Return `latest.json` if it has to change with its checkpoint, or alone where only it is kept."""
        if LATEST not in self._snapshot.blobs:
            return {}
        path = self._path(LATEST)
        content = self._rotator.runs.read_blob(self._snapshot.blobs[LATEST])
        try:
            envelope, _ = open_stored(content, path)
        except IntegrityFailure:
            return {}
        renewed = self.sealed.get(envelope.checkpoint_id)
        if renewed is None and envelope.checkpoint_id not in self._stored_ids():
            renewed = self._reseal(content, path)
        return {path: renewed.content} if renewed else {}

    def _stored_ids(self) -> set[str]:
        name_of, run_id = self._rotator.layout.name_of, self._snapshot.run_id
        entries = self._snapshot.index.all_entries
        return {
            each.checkpoint_id for each in entries if name_of(run_id, each.file_path) in self._snapshot.blobs
        }

    def _index_files(self, index: Index) -> dict[str, bytes]:
        before = {segment.sha256 for segment in self._snapshot.index.segments}
        closed = [segment for segment in index.segments if segment.sha256 not in before]
        files = {segment.file_path: segment.to_bytes(index.run_id) for segment in closed}
        return files | {self._path(INDEX): index.to_bytes()}

    def _path(self, name: str) -> str:
        return self._rotator.layout.path(self._snapshot.run_id, name)


def _renew(index: Index, sealed: Mapping[str, Envelope]) -> Index:
    """Return the index that names the new bytes of these checkpoints."""
    segments = []
    for segment in index.segments:
        entries = tuple(_renewed(segment.entries or (), sealed))
        is_same = segment.entries is None or entries == segment.entries
        folder = segment.file_path.rpartition("/")[0]
        segments.append(segment if is_same else close_segment(index.run_id, folder, entries))
    return replace(index, entries=tuple(_renewed(index.entries, sealed)), segments=tuple(segments))


def _renewed(entries: Iterable[IndexEntry], sealed: Mapping[str, Envelope]) -> Iterator[IndexEntry]:
    for entry in entries:
        envelope = sealed.get(entry.checkpoint_id)
        yield replace(entry, blob_sha=blob_sha(envelope.content)) if envelope else entry
