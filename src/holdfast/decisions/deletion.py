"""Deletes a run: its folder in one commit, then what waits for it in the spool."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count

from holdfast.cache.local_copy import RepositoryCache
from holdfast.clock import Deadline
from holdfast.drain.orphans import OrphanFiles
from holdfast.drain.pending import pending_writes
from holdfast.errors import (
    Claimed,
    Conflict,
    DecisionRefused,
    GatewayError,
    IntegrityFailure,
    Remedy,
    SpoolBusy,
    UnknownRun,
)
from holdfast.format.paths import CLAIM, PRESERVED_RUNS, Layout
from holdfast.format.preserved_list import change_preserved
from holdfast.format.receipt import Progress
from holdfast.github.wrappers.retrying import CHANGE_ATTEMPTS, plan_and_repeat
from holdfast.logs import log
from holdfast.queue import Queue
from holdfast.retention.commit import Committer, FileChanges
from holdfast.retention.scan import Scan, Scanner
from holdfast.retention.scanned_run import is_plain_file

DRAINER_ATTEMPTS, DRAINER_WAIT_S = 50, 0.2


@dataclass(frozen=True, slots=True)
class DeletedRun:
    """What went: files of the repository in one commit, and checkpoints of the spool."""

    run_id: str
    deleted_files: int
    deleted_spooled: int
    commit_sha: str | None


@dataclass(frozen=True)
class Deletion:
    """Deletes runs of one branch."""

    scanner: Scanner
    committer: Committer
    spool: Queue
    cache: RepositoryCache
    layout: Layout
    deadline: Deadline
    orphans: Callable[[], OrphanFiles]
    check_idle: Callable[[str], None]

    def delete(self, run_id: str, *, is_forced: bool = False) -> DeletedRun:
        """Delete all that is stored and spooled of a run.

        Receipts of what is stored go before it, so that none tells of a checkpoint that is gone: whatever
        comes again meanwhile is found stored, or is stored again. What waits goes last: a deletion that is
        cut short leaves it, and can be done again. Raises UnknownRun, and SpoolBusy while someone drains what
        waits for it, and goes on to; unless this is forced, DecisionRefused if the run is preserved, and
        Claimed while someone drives it.
        """
        with ExitStack() as taken:
            self._be_drainer(taken, run_id)
            files, commit_sha = self._delete_stored(run_id, is_forced=is_forced)
            spooled = self._drop_spooled(run_id)
        if not files and not spooled:
            raise UnknownRun(f"there is no run {run_id!r}, neither stored nor spooled", Remedy("runs"))
        log.info("run_deleted", run_id=run_id, files=files, spooled=spooled, commit_sha=commit_sha)
        return DeletedRun(run_id, files, spooled, commit_sha)

    def _be_drainer(self, taken: ExitStack, run_id: str) -> None:
        """Be the one that drains, for as long as anything waits for the run. Raises SpoolBusy."""
        waiting: list[str] = []
        for attempt in count(1):
            # A queue may be long: all of it is listed again only once what was seen in it has left.
            if not (waiting and self._still_waits(waiting[-1])):
                waiting = self._waiting(run_id)
            if not waiting:
                return
            try:
                taken.enter_context(self.spool.drainer())
            except SpoolBusy:
                # It is about to be stored, as a rule, by the worker of the very sidecar that was asked.
                if attempt == DRAINER_ATTEMPTS or self.deadline.expired():
                    raise
                self.deadline.wait(DRAINER_WAIT_S)
            else:
                return

    def _waiting(self, run_id: str) -> list[str]:
        items = [*self.spool.pending(), *(entry.item for entry in self.spool.set_aside_entries())]
        return [item.checkpoint_id for item in items if item.run_id == run_id]

    def _still_waits(self, checkpoint_id: str) -> bool:
        receipt = self.spool.receipt(checkpoint_id)
        return receipt is not None and receipt.status is not Progress.VERIFIED

    def _delete_stored(self, run_id: str, *, is_forced: bool) -> tuple[int, str | None]:
        def plan() -> tuple[Scan, FileChanges | None]:
            scan = self.scanner.survey([run_id])
            # After the survey: a claim that comes later, where GitHub is the judge, moves the branch on, and
            # all is planned anew.
            is_idle = self._is_idle(run_id, is_forced=is_forced)
            return scan, self._change(scan, run_id, is_forced=is_forced, is_idle=is_idle)

        def commit(planned: tuple[Scan, FileChanges | None]) -> tuple[int, str | None]:
            scan, change = planned
            self.spool.forget_receipts(run_id)
            if change is None:
                return 0, None
            return len(change.delete), self.committer.commit(scan.head_sha, change)

        def note(attempt: int, error: GatewayError) -> None:
            log.info("deletion_repeated", run_id=run_id, attempt=attempt, cause=str(error))

        return plan_and_repeat(
            plan,
            commit,
            attempts=CHANGE_ATTEMPTS,
            deadline=self.deadline,
            note=note,
            when=lambda error: isinstance(error, Conflict),
        )

    def _is_idle(self, run_id: str, *, is_forced: bool) -> bool:
        """Whether nobody drives the run. Raises Claimed unless it is deleted by force all the same."""
        try:
            self.check_idle(run_id)
        except IntegrityFailure:
            return (
                True  # no holder can renew what cannot be read, and nobody can claim it while it lies there
            )
        except Claimed:
            if not is_forced:
                raise
            return False
        return True

    def _change(self, scan: Scan, run_id: str, *, is_forced: bool, is_idle: bool) -> FileChanges | None:
        """Return the commit that takes the run away; None if nothing of it is stored.

        The claim of whoever drives it stays: without it the next one would be given the same fence, and both
        would hold the run.
        """
        is_preserved = run_id in scan.preserved
        if is_preserved and not is_forced:
            reason = f"run {run_id!r} is preserved; preserve it no longer, or delete it by force"
            raise DecisionRefused("preserved", reason, Remedy("force"))
        run = scan.runs.get(run_id)
        names = [name for name in run.files if is_plain_file(name)] if run else []
        names = [name for name in names if is_idle or name != CLAIM]
        if run is None or not names:
            return None
        blobs = {self.layout.path(run_id, name): run.files[name].sha for name in names}
        write: dict[str, bytes] = {}
        if is_preserved:
            path = f"{self.layout.base_path}/{PRESERVED_RUNS}"
            listed = self.scanner.read(scan.files[PRESERVED_RUNS])
            write[path] = change_preserved(listed, path, run_id, is_wanted=False)
            blobs[path] = scan.files[PRESERVED_RUNS].sha
        deleted = tuple(self.layout.path(run_id, name) for name in names)
        return FileChanges(f"Delete run {run_id}", "", write, deleted, blobs)

    def _drop_spooled(self, run_id: str) -> int:
        for write in pending_writes(self.spool.notes()):
            if write.run_id == run_id:
                self.orphans().abandon(write)
        self.cache.forget_snapshot(run_id)
        # What was delivered meanwhile, and taken away by the commit.
        self.spool.forget_receipts(run_id)
        return self.spool.discard(self._waiting(run_id))
