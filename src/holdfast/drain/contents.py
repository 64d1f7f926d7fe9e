"""The contents mode: one file, one request; every run on its own.

The order is what makes a crash harmless: a note of a pending write, the files, their verification, the index,
the latest, and only then do the items leave the spool.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from holdfast.clock import Clock
from holdfast.drain.numbering import disown_revived, release_places, settle_numbers
from holdfast.drain.orphans import PATIENCE_S, OrphanFile, is_orphan, parse_orphan
from holdfast.drain.pending import PendingWrite
from holdfast.drain.publish import FileWrite, WritePlan, own_files, plan_write
from holdfast.errors import Conflict, GatewayError, IntegrityFailure, Missing, Unavailable, Unverified
from holdfast.format.index import Index
from holdfast.format.moments import format_moment
from holdfast.format.parts import MAX_FILE_BYTES, seal_in_parts
from holdfast.format.paths import INDEX, LATEST, Layout, is_single
from holdfast.format.receipt import Delivery, QueueItem
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.format.stored_file import open_file
from holdfast.github.calls import DeleteFile, Gateway, ReadFile, ReadHead, WriteFile
from holdfast.logs import log
from holdfast.queue import Queue
from holdfast.repository.branch import ensure_branch
from holdfast.repository.runs import Runs

ATTEMPTS = 3
PAUSE_S = 0.5


@dataclass
class _Work:
    """What is being written; numbers, and so items and files, may change with each attempt.

    It is unclear once a request had no answer, or a process none to give: that one may still be under way.
    """

    pending_write: PendingWrite
    items: Sequence[QueueItem]
    is_unclear: bool


@dataclass(frozen=True)
class ContentsWriter:
    """Writes the checkpoints of one run at a time through the contents API."""

    gateway: Gateway
    spool: Queue
    runs: Runs
    layout: Layout
    branch: str
    clock: Clock
    max_file_bytes: int = MAX_FILE_BYTES
    breathe: Callable[[], None] = lambda: None
    # The paths of the orphan notes, so that planning costs no look into the spool; `sweep` reads them.
    _orphans: set[str] = field(default_factory=set)

    def write(self, pending_write: PendingWrite, items: Sequence[QueueItem]) -> dict[str, Delivery]:
        """Return where each checkpoint now lies, verified, indexed, and copied to the latest if it is that.

        An pending_write that names files was begun before: what is there of them is not written again.
        Raises a GatewayError after three attempts; what was written by then is found the next time.
        """
        work = _Work(pending_write, items, is_unclear=bool(pending_write.files))
        for attempt in range(1, ATTEMPTS):
            try:
                return self._publish(work)
            except (Conflict, Unavailable, Unverified) as error:
                self.runs.forget(pending_write.run_id)
                work.is_unclear = work.is_unclear or isinstance(error, Unavailable)
                log.info("write_repeated", run_id=pending_write.run_id, attempt=attempt, cause=str(error))
            self.clock.sleep(PAUSE_S * 2**attempt)
        return self._publish(work)

    def _publish(self, work: _Work) -> dict[str, Delivery]:
        run_id = work.pending_write.run_id
        is_repeated = bool(work.pending_write.files)
        view = self.runs.refresh(run_id) if is_repeated else self.runs.view(run_id)
        write_plan = self._plan(view, work)
        commits = {file.path: self._put(file) for file in write_plan.files}
        self.spool.mark_committed(self._deliveries(view, write_plan, commits))
        self._verify(view, write_plan, commits)
        if write_plan.index:
            commits[write_plan.index.path] = self._put_index(write_plan.index, write_plan.merged)
        if write_plan.latest:
            commits[write_plan.latest.path] = self._put(write_plan.latest)
        self._delete_obsolete(write_plan, work)
        self.runs.keep(write_plan.view_after(view, self.layout))
        return self._deliveries(view, write_plan, commits or {"": self._head_with(write_plan)})

    def _head_with(self, write_plan: WritePlan) -> str:
        """Return the newest commit, if it shows what was there already: the answer may be a stale one."""
        run_id = write_plan.merged.run_id
        commit_sha = self.gateway.perform(ReadHead(self.branch))
        try:
            listed = self.runs.list_files(run_id, commit_sha, is_fresh=True)
        except Missing:
            listed = {}
        for entry in write_plan.entries.values():
            if self.layout.name_of(run_id, entry.file_path) not in listed:
                raise Unverified(entry.file_path, "the newest commit does not show it yet")
        return commit_sha

    def _plan(self, view: RunSnapshot, work: _Work) -> WritePlan:
        """Settle the numbers, plan the files, and note on disk what may come to exist."""
        view = disown_revived(view, work.items)
        view = release_places(self.spool, view, work.items, work.pending_write.files)
        folder = self.layout.run_folder(view.run_id)
        seal = partial(seal_in_parts, limit_bytes=self.max_file_bytes, run_folder=folder)
        locate = partial(own_files, view, is_batch=work.pending_write.is_batch, layout=self.layout)
        tried = [
            (self.layout.name_of(view.run_id, path), sha) for path, sha in work.pending_write.files.items()
        ]
        numbered = settle_numbers(
            self.spool,
            self._without_orphans(view),
            work.items,
            seal,
            locate=locate,
            tried=tried,
            breathe=self.breathe,
        )
        work.items = [one.item for one in numbered]
        write_plan = plan_write(
            view,
            [one.envelope for one in numbered],
            is_batch=work.pending_write.is_batch,
            layout=self.layout,
            now=format_moment(self.clock.now()),
        )
        if write_plan.files:
            work.pending_write = work.pending_write.adding(
                (file.path, file.blob_sha) for file in write_plan.own_files
            )
            self.spool.note(work.pending_write.name, work.pending_write.to_bytes())
        return write_plan

    def _without_orphans(self, view: RunSnapshot) -> RunSnapshot:
        """Return the view without batches that we have given up: their numbers are still free."""
        if not self._orphans:
            return view
        kept = {
            name: sha
            for name, sha in view.blobs.items()
            if is_single(name) or self.layout.path(view.run_id, name) not in self._orphans
        }
        return replace(view, blobs=kept)

    def _put(self, file: FileWrite) -> str:
        """Put one file and return the commit. If only the branch moved on, write again as it is."""
        call = WriteFile(file.path, file.content, file.message, self.branch, file.expected_sha)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                revision = self.gateway.perform(call)
            except Missing:
                if attempt > 1:
                    raise
                ensure_branch(self.gateway, self.branch)
            except Conflict as error:
                if error.kind == "exists" and file.is_part:
                    # Named by its content: whoever wrote it, wrote the same. It is verified like our own.
                    return self.gateway.perform(ReadHead(self.branch))
                if error.kind != "head_moved" or attempt == ATTEMPTS:
                    raise
                self.clock.sleep(PAUSE_S * attempt)
            else:
                self.runs.note_commit(revision)
                log.info("file_written", path=file.path, commit_sha=revision.commit_sha)
                return revision.commit_sha
        raise Missing(file.path, f"the branch {self.branch} is not there, although it was made a moment ago")

    def _put_index(self, file: FileWrite, merged: Index) -> str:
        """Put the index and return the commit. Raises Conflict if it names what was removed meanwhile.

        An index that is replaced is the one that we know, and retention changes it first. Nothing guards one
        that is new: if anyone has written since its files were seen, they are looked for once more.
        """
        commit_sha = self._put(file)
        if file.expected_sha is None and not self.runs.is_certain(merged.run_id):
            listed = self.runs.list_files(merged.run_id, commit_sha, is_fresh=True)
            self._check_named(merged, listed)
            self.runs.trust(merged.run_id, commit_sha)
        return commit_sha

    def _check_named(self, merged: Index, listed: Container[str]) -> None:
        """Raise Conflict unless all is there that the index names."""
        for entry in merged.entries:
            if self.layout.name_of(merged.run_id, entry.file_path) not in listed:
                raise Conflict(entry.file_path, "it was removed meanwhile", kind="stale_file")

    def _verify(self, view: RunSnapshot, write_plan: WritePlan, commits: dict[str, str]) -> None:
        """Read back what was written; what is not as it was sent is written again, three attempts in all."""
        files = write_plan.files
        wrong = list(files)
        for attempt in range(1, ATTEMPTS + 1):
            found = self._find(view, write_plan.merged, wrong, commits) if wrong else {}
            wrong = [file for file in wrong if found[file.path] != file.blob_sha]
            if not wrong:
                log.info("files_verified", run_id=view.run_id, files=len(files))
                return
            log.warning("verification_failed", path=wrong[0].path, files=len(wrong), attempt=attempt)
            if attempt < ATTEMPTS:
                for file in wrong:
                    self._check_ours(file, found[file.path])
                    commits[file.path] = self._put(replace(file, expected_sha=found[file.path]))
        raise Unverified(wrong[0].path, "what GitHub gives back is not what was sent, three times in a row")

    def _check_ours(self, file: FileWrite, found_sha: str | None) -> None:
        """Raise Conflict if what lies in the place of `file` is a sound checkpoint: another writer's."""
        if found_sha is None or file.is_part:
            return
        try:
            open_file(self.runs.read_blob(found_sha), file.path)
        except (IntegrityFailure, Missing):
            return
        raise Conflict(file.path, "another writer has taken this name since", kind="stale_file")

    def _find(
        self, view: RunSnapshot, merged: Index, files: Sequence[FileWrite], commits: dict[str, str]
    ) -> dict[str, str | None]:
        """Return the blob that GitHub holds at each path.

        It is read at the commit that our last write made: a branch read just after a write can be stale,
        a commit cannot. A blob's SHA is that of its content, so it vouches for the checkpoint_id as well.
        One file is read whole; one listing answers for many, and for whether the run is as we believe if
        someone else has written to the branch. Raises Conflict when it is not.
        """
        run_id = view.run_id
        listable = [file for file in files if not file.is_part]
        is_listed = len(listable) > 1 or (bool(listable) and not self.runs.is_certain(run_id))
        single = [file for file in files if file.is_part or not is_listed]
        found: dict[str, str | None] = {}
        try:
            for file in single:
                call = ReadFile(file.path, commits[file.path], is_fresh=True)
                found[file.path] = self.gateway.perform(call).blob_sha
            if is_listed:
                commit_sha = commits[listable[-1].path]
                listed = self.runs.list_files(run_id, commit_sha, is_fresh=True)
                _check_unchanged(view, listed)
                self._check_named(merged, {*listed, *(self.layout.name_of(run_id, f.path) for f in listable)})
                self.runs.trust(run_id, commit_sha)
                found.update({f.path: listed.get(self.layout.name_of(run_id, f.path)) for f in listable})
        except Missing as error:
            raise Unverified(error.path, "what was just written is not visible yet") from error
        return found

    def _delete_obsolete(self, write_plan: WritePlan, work: _Work) -> None:
        """Delete what an earlier attempt wrote under a number that it could not keep.

        Whether it is there is not looked up: just after a write a listing may not show it yet. Its
        checkpoints are in the index elsewhere by now, or set aside whole, so nobody can come to need it.
        """
        merged, pending_write = write_plan.merged, work.pending_write
        missing = [identity for identity in pending_write.checkpoint_ids if identity not in merged.by_id]
        if not all(self.spool.is_kept_aside(identity) for identity in missing):
            return
        indexed = {entry.file_path for entry in merged.entries}
        for path, sha in pending_write.files.items():
            if path in indexed:
                continue
            try:
                is_settled = self._delete(path, sha) and not work.is_unclear
            except GatewayError as error:
                # No checkpoint waits for this: with little budget left, it might never come to an end.
                log.info("orphan_file_kept", path=path, cause=str(error))
                is_settled = False
            if not is_settled:  # it may only not be visible yet, or come late
                self._expect(OrphanFile(path, sha, self.clock.now() + PATIENCE_S))

    def abandon(self, pending_write: PendingWrite) -> None:
        """Give up a write; what may have come to exist of it is deleted once nothing of it is under way."""
        for path, sha in pending_write.files.items():
            self._expect(OrphanFile(path, sha, self.clock.now() + PATIENCE_S))
        self.spool.forget(pending_write.name)

    def spare(self, paths: Iterable[str]) -> None:
        """Learn that these files are of use: an earlier attempt at one may have been given up as orphan."""
        for path in self._orphans.intersection(paths):
            self.spool.forget(OrphanFile(path, "", 0.0).name)
            self._orphans.discard(path)

    def sweep(self) -> None:
        """Delete what late requests of abandoned attempts have left, once none can be under way any more."""
        notes = self.spool.notes()
        known = [parse_orphan(content) for name, content in notes.items() if is_orphan(name)]
        self._orphans.clear()
        self._orphans.update(orphan.path for orphan in known)
        for orphan in known:
            if orphan.due_at > self.clock.now():
                continue
            try:
                rest = None if self._clear(orphan) else orphan.later(self.clock.now())
            except GatewayError as error:
                log.info("orphan_file_kept", path=orphan.path, cause=str(error))
                rest = orphan.later(self.clock.now(), is_tried=False)
            if rest:
                self._expect(rest)
            else:
                self.spool.forget(orphan.name)
                self._orphans.discard(orphan.path)

    def _clear(self, orphan: OrphanFile) -> bool:
        """Delete a file unless it has come to be of use, say to mend an index; tell whether it is settled."""
        run_id, name = self.layout.parse_path(orphan.path)
        view = self.runs.refresh(run_id)
        if not view.blobs or (INDEX in view.blobs and not view.is_index_stored):
            return False  # GitHub may only not show the folder, or the index in it, just now
        is_indexed = any(entry.file_path == orphan.path for entry in view.index.entries)
        return is_indexed or name not in view.blobs or self._delete(orphan.path, orphan.blob_sha)

    def _expect(self, orphan: OrphanFile) -> None:
        self.spool.note(orphan.name, orphan.to_bytes())
        self._orphans.add(orphan.path)

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

    def _deliveries(
        self, view: RunSnapshot, write_plan: WritePlan, commits: dict[str, str]
    ) -> dict[str, Delivery]:
        """Return where the checkpoints lie; those that were there before lie in the newest commit we know."""
        blobs = {file.path: file.blob_sha for file in write_plan.files}
        newest_commit = next(reversed(commits.values()), "")
        return {
            checkpoint_id: Delivery(
                sequence=entry.sequence,
                file_path=entry.file_path,
                blob_sha=blobs.get(entry.file_path)
                or view.blobs.get(self.layout.name_of(view.run_id, entry.file_path), entry.blob_sha),
                commit_sha=commits.get(entry.file_path, newest_commit),
            )
            for checkpoint_id, entry in write_plan.entries.items()
            if entry.file_path in commits or newest_commit
        }


def _check_unchanged(view: RunSnapshot, listed: Mapping[str, str]) -> None:
    """Raise Conflict unless index and latest are still those that the plan was made on.

    GitHub takes an update of a file that is gone as a new file. An index that retention has removed would
    come back that way, and name files that went with it.
    """
    for name, sha in ((INDEX, view.index_sha), (LATEST, view.latest_sha)):
        if listed.get(name) != sha:
            raise Conflict(f"{view.run_id}/{name}", "it was changed or removed meanwhile", kind="stale_file")
