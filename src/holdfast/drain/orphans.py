"""Deletes orphan files: what attempts have left behind whose checkpoints are stored elsewhere."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from holdfast.clock import Clock
from holdfast.drain.pending import LONGEST_REQUEST_S, OrphanFile, PendingWrite, orphan_files, orphan_name
from holdfast.errors import Conflict, GatewayError, IntegrityFailure, Missing
from holdfast.format.index import Index
from holdfast.format.paths import INDEX, Layout, is_single
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.github.calls import Gateway
from holdfast.github.write_calls import DeleteFile
from holdfast.logs import log
from holdfast.queue import Queue
from holdfast.repository.runs import Runs


@dataclass(frozen=True)
class OrphanFiles:
    """The orphan files of one spool's writes. No checkpoint waits for any of them."""

    gateway: Gateway
    spool: Queue
    runs: Runs
    layout: Layout
    branch: str
    clock: Clock
    # The paths of the notes, so that planning costs no look into the spool; `sweep` reads them.
    _paths: set[str] = field(default_factory=set)

    def sweep(self) -> None:
        """Delete what late requests of abandoned attempts have left, once none can be under way any more."""
        known = orphan_files(self.spool.notes())
        self._paths.clear()
        self._paths.update(orphan.path for orphan in known)
        for orphan in known:
            now = self.clock.now()
            if orphan.is_due(now):
                self._try(orphan)
            elif orphan.as_of(now) != orphan:
                self._keep(orphan.as_of(now))

    def delete_obsolete(self, write: PendingWrite, merged: Index, *, is_unclear: bool) -> None:
        """Delete what earlier attempts at a write, which is done now, have left under other names.

        Whether it is there is not looked up: just after a write a listing may not show it yet. Its
        checkpoints are in the index elsewhere by now, or quarantined whole, so nobody can come to need it.
        While it is unclear whether an attempt is still under way, it is looked for once more later.
        """
        missing = [identity for identity in write.checkpoint_ids if not merged.has_id(identity)]
        if not all(self.spool.is_kept_aside(identity) for identity in missing):
            return
        for path, sha in write.files.items():
            if _is_indexed(path, merged):
                continue
            try:
                is_settled = self._delete(path, sha) and not is_unclear
            except GatewayError as error:
                # No checkpoint waits for this: with little budget left, it might never come to an end.
                log.info("orphan_file_kept", path=path, cause=str(error))
                is_settled = False
            if not is_settled:  # it may only not be visible yet, or come late
                self._expect(path, sha)

    def abandon(self, write: PendingWrite) -> None:
        """Give up a write; what may have come to exist of it is deleted once nothing of it is under way."""
        for path, sha in write.files.items():
            self._expect(path, sha)
        self.spool.forget(write.name)

    def spare(self, paths: Iterable[str]) -> None:
        """Learn that these files are of use: an earlier attempt at one of them may have been given up."""
        for path in self._paths.intersection(paths):
            self.spool.forget(orphan_name(path))
            self._paths.discard(path)

    def hide_batches(self, snapshot: RunSnapshot) -> RunSnapshot:
        """Return the snapshot without batches that we have given up: their numbers are still free."""
        if not self._paths:
            return snapshot
        kept = {
            name: sha
            for name, sha in snapshot.blobs.items()
            if is_single(name) or self.layout.path(snapshot.run_id, name) not in self._paths
        }
        return replace(snapshot, blobs=kept)

    def _expect(self, path: str, sha: str) -> None:
        self._keep(OrphanFile(path, sha, self.clock.now() + LONGEST_REQUEST_S))

    def _keep(self, orphan: OrphanFile) -> None:
        self.spool.note(orphan.name, orphan.to_bytes())
        self._paths.add(orphan.path)

    def _try(self, orphan: OrphanFile) -> None:
        try:
            rest = None if self._clear(orphan) else orphan.later(self.clock.now())
        except (GatewayError, IntegrityFailure) as error:
            log.info("orphan_file_kept", path=orphan.path, cause=str(error))
            rest = orphan.later(self.clock.now(), is_tried=False)
        if rest:
            self._keep(rest)
        else:
            self.spool.forget(orphan.name)
            self._paths.discard(orphan.path)

    def _clear(self, orphan: OrphanFile) -> bool:
        """Delete a file unless it has come to be of use; return whether nothing is left to do about it."""
        run_id, name = self.layout.parse_path(orphan.path)
        snapshot = self.runs.refresh(run_id)
        if not snapshot.blobs or (INDEX in snapshot.blobs and not snapshot.is_index_stored):
            return False  # GitHub may only not show the folder, or the index in it, just now
        if _is_indexed(orphan.path, snapshot.index) or name not in snapshot.blobs:
            return True
        return self._delete(orphan.path, orphan.blob_sha)

    def _delete(self, path: str, sha: str) -> bool:
        """Delete a file of ours; return whether GitHub knew it. Another one in its place is left alone."""
        message = f"Remove {path}: it was stored again under another number"
        try:
            self.runs.note_commit(self.gateway.perform(DeleteFile(path, message, self.branch, sha)))
        except Missing:
            return False  # that attempt never arrived
        except Conflict as error:
            if error.kind == "head_moved":
                raise
            return True  # another writer was quicker to take that name
        log.info("file_deleted", path=path)
        return True


def _is_indexed(path: str, index: Index) -> bool:
    name = path.rpartition("/")[2]
    is_outlined = any(name in names for names in index.outlined_names)
    return is_outlined or any(entry.file_path == path for entry in index.newest_first())
