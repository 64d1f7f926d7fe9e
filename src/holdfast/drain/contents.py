"""The contents mode: one file, one request; every run on its own.

The order is what makes a crash harmless: a note of the pending write, the files, their verification,
`index.json`, `latest.json`, and only then do the items leave the queue.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from holdfast.drain.numbering import disown_revived, release_places, segments_about
from holdfast.drain.orphans import OrphanFiles
from holdfast.drain.pending import PendingWrite
from holdfast.drain.stamping import StampedItem, stamp_items
from holdfast.drain.verification import Verifier
from holdfast.drain.write_plan import FileWrite, WritePlan, own_files
from holdfast.drain.writer import Writer
from holdfast.errors import Conflict, GatewayError, Unavailable, Unverified
from holdfast.format.receipt import Delivery, QueueItem
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.github.calls import ReadHead
from holdfast.github.wrappers.retrying import WRITE_ATTEMPTS, repeat
from holdfast.github.write_calls import WriteFile
from holdfast.logs import log
from holdfast.repository.branch import perform_on_branch


@dataclass
class _Work:
    """What is being written; numbers, and so items and files, may change with each attempt.

    It is unclear once a request had no answer, or was sent by a process that died: it may still be under way.
    """

    pending_write: PendingWrite
    items: Sequence[QueueItem]
    is_unclear: bool


@dataclass
class ContentsWriter(Writer):
    """Writes the checkpoints of one run at a time through the contents API."""

    orphans: OrphanFiles = field(init=False)
    _verifier: Verifier = field(init=False)

    def __post_init__(self) -> None:
        parts = (self.gateway, self.spool, self.runs, self.layout, self.branch, self.deadline.clock)
        self.orphans = OrphanFiles(*parts)
        self._verifier = Verifier(self.gateway, self.runs, self.layout, self.branch)

    def write(self, pending_write: PendingWrite, items: Sequence[QueueItem]) -> dict[str, Delivery]:
        """Return where each checkpoint now lies: verified, in `index.json`, and in `latest.json` if newest.

        A pending write that names files was begun before: what is there of them is not written again.
        Raises a GatewayError after three attempts; what was written by then is found the next time.
        """
        work = _Work(pending_write, items, is_unclear=bool(pending_write.files))

        def note(attempt: int, error: GatewayError) -> None:
            self.runs.forget(pending_write.run_id)
            work.is_unclear = work.is_unclear or isinstance(error, Unavailable)
            log.info("write_repeated", run_id=pending_write.run_id, attempt=attempt, cause=str(error))

        return repeat(lambda: self._publish(work), attempts=WRITE_ATTEMPTS, deadline=self.deadline, note=note)

    def _publish(self, work: _Work) -> dict[str, Delivery]:
        run_id = work.pending_write.run_id
        is_repeated = bool(work.pending_write.files)
        snapshot = self.runs.refresh(run_id) if is_repeated else self.runs.snapshot(run_id)
        highest_known = self.spool.known_sequence(run_id)
        snapshot = self.runs.unfold(
            snapshot, partial(segments_about, items=work.items, highest_known=highest_known)
        )
        write_plan = self._plan(snapshot, work)
        commits = {file.path: self._put(file) for file in write_plan.files}
        self.spool.mark_committed(self._deliveries(snapshot, write_plan, commits))
        self._verify(snapshot, write_plan, commits)
        for segment in write_plan.segments:
            commits[segment.path] = self._put(segment)
        if write_plan.index:
            commits[write_plan.index.path] = self._put_index(write_plan.index, write_plan)
        if write_plan.latest:
            commits[write_plan.latest.path] = self._put(write_plan.latest)
        self.orphans.delete_obsolete(work.pending_write, write_plan.merged, is_unclear=work.is_unclear)
        self.runs.keep(write_plan.snapshot_after(snapshot, self.layout))
        return self._deliveries(snapshot, write_plan, commits or {"": self._verifier.find_head(write_plan)})

    def _plan(self, snapshot: RunSnapshot, work: _Work) -> WritePlan:
        """Settle the numbers, plan the files, and note on disk what may come to exist."""
        snapshot = self._release_places(disown_revived(snapshot, work.items), work)
        is_batch, tried = work.pending_write.is_batch, work.pending_write.files
        stamped = stamp_items(
            self.spool,
            self.orphans.hide_batches(snapshot),
            work.items,
            self.stamper.stamp_for(snapshot, partial(self.runs.list_parts, snapshot.run_id)),
            locate=partial(own_files, snapshot, is_batch=is_batch, layout=self.layout),
            tried=[(self.layout.name_of(snapshot.run_id, path), sha) for path, sha in tried.items()],
            breathe=self.breathe,
            admit=partial(self._admit, snapshot, work.pending_write),
        )
        work.items = [each.item for each in stamped]
        write_plan = self.plan(snapshot, stamped, is_batch=is_batch)
        if write_plan.files:
            own = ((file.path, file.blob_sha) for file in write_plan.own_files)
            work.pending_write = work.pending_write.adding(own)
            self.spool.note(work.pending_write.name, work.pending_write.to_bytes())
        return write_plan

    def _admit(
        self, snapshot: RunSnapshot, write: PendingWrite, stamped: list[StampedItem]
    ) -> list[StampedItem]:
        """Return what may be written. What an earlier attempt has written already always may."""
        if not write.files:
            return self.admit(snapshot, stamped)
        envelopes = [each.envelope for each in stamped]
        own = own_files(snapshot, envelopes, is_batch=write.is_batch, layout=self.layout)
        written = {identity for identity, (name, sha) in own.items() if snapshot.blobs.get(name) == sha}
        asked = [each for each in stamped if each.item.checkpoint_id not in written]
        kept = written.union(each.item.checkpoint_id for each in self.admit(snapshot, asked))
        return [each for each in stamped if each.item.checkpoint_id in kept]

    def _release_places(self, snapshot: RunSnapshot, work: _Work) -> RunSnapshot:
        if snapshot.is_index_stored:
            return snapshot
        ranks = self.spool.arrivals(item.checkpoint_id for item in work.items if item.is_automatic)
        return release_places(snapshot, ranks, work.pending_write.files)

    def _put(self, file: FileWrite) -> str:
        """Put one file and return the commit. If only the branch moved on, write again as it is."""
        call = WriteFile(file.path, file.content, file.message, self.branch, file.expected_sha)

        def put() -> str:
            try:
                revision = perform_on_branch(self.gateway, self.branch, call)
            except Conflict as error:
                if error.kind == "exists" and file.is_part:
                    # Named by its content: whoever wrote it, wrote the same. It is verified like our own.
                    return self.gateway.perform(ReadHead(self.branch))
                raise
            self.runs.note_commit(revision)
            log.info("file_written", path=file.path, commit_sha=revision.commit_sha)
            return revision.commit_sha

        def note(attempt: int, error: GatewayError) -> None:
            log.info("put_repeated", path=file.path, attempt=attempt, cause=str(error))

        return repeat(put, attempts=WRITE_ATTEMPTS, deadline=self.deadline, note=note, when=_is_head_moved)

    def _put_index(self, file: FileWrite, write_plan: WritePlan) -> str:
        """Put `index.json` and return the commit. Raises Conflict if it names what was removed meanwhile."""
        commit_sha = self._put(file)
        if file.expected_sha is None:
            self._verifier.check_new_index(write_plan.merged, commit_sha)
        return commit_sha

    def _verify(self, snapshot: RunSnapshot, write_plan: WritePlan, commits: dict[str, str]) -> None:
        """Read back what was written; what is not as it was sent is written again, three attempts in all."""
        wrong = list(write_plan.files)
        for attempt in range(1, WRITE_ATTEMPTS + 1):
            found = self._verifier.find(snapshot, write_plan.merged, wrong, commits) if wrong else {}
            wrong = [file for file in wrong if found[file.path] != file.blob_sha]
            if not wrong:
                log.info("files_verified", run_id=snapshot.run_id, files=len(write_plan.files))
                return
            log.warning("verification_failed", path=wrong[0].path, files=len(wrong), attempt=attempt)
            if attempt < WRITE_ATTEMPTS:
                for file in wrong:
                    self._verifier.check_ours(file, found[file.path])
                    commits[file.path] = self._put(replace(file, expected_sha=found[file.path]))
        raise Unverified(wrong[0].path, "what GitHub gives back is not what was sent, three times in a row")

    def _deliveries(
        self, snapshot: RunSnapshot, write_plan: WritePlan, commits: Mapping[str, str]
    ) -> dict[str, Delivery]:
        """Return where the checkpoints lie; those that were there before lie in the newest commit we know."""
        blobs = {file.path: file.blob_sha for file in write_plan.files}
        newest_commit = list(commits.values())[-1] if commits else ""
        return {
            checkpoint_id: Delivery(
                sequence=entry.sequence,
                file_path=entry.file_path,
                blob_sha=blobs.get(entry.file_path)
                or snapshot.blobs.get(self.layout.name_of(snapshot.run_id, entry.file_path), entry.blob_sha),
                commit_sha=commits.get(entry.file_path, newest_commit),
                ends_run=entry.ends_run,
            )
            for checkpoint_id, entry in write_plan.entries.items()
            if entry.file_path in commits or newest_commit
        }


def _is_head_moved(error: GatewayError) -> bool:
    return isinstance(error, Conflict) and error.kind == "head_moved"
