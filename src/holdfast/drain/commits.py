"""The commit mode: the files, `index.json` and `latest.json` of every run of a drain in one atomic commit.

GitHub takes the commit only on top of the head that we read, so a write that comes between is always
noticed, and its own answer names the blobs that it stored: writing and verifying are one request.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from holdfast.drain.numbering import disown_revived, segments_about
from holdfast.drain.stamping import stamp_items
from holdfast.drain.verification import VERIFY_SPAN
from holdfast.drain.write_plan import FileWrite, WritePlan
from holdfast.drain.writer import Writer
from holdfast.errors import GatewayError, Missing, Unverified
from holdfast.format.paths import INDEX, LATEST, PARTS
from holdfast.format.receipt import Delivery, QueueItem
from holdfast.format.run_snapshot import RunSnapshot, without_unproved
from holdfast.github.calls import NO_GRAPHQL, ReadFile
from holdfast.github.listing import read_snapshot
from holdfast.github.presence import GraphqlPresence
from holdfast.github.results import Snapshot
from holdfast.github.wrappers.retrying import WRITE_ATTEMPTS, is_worth_repeating, repeat
from holdfast.github.write_calls import CommitFiles, Revision
from holdfast.logs import log
from holdfast.repository.branch import ensure_branch
from holdfast.repository.runs import MAX_REMEMBERED_RUNS
from holdfast.tracing import traces


class _EveryPart:
    """The names of the parts that our own last commit referred to: all of them are there."""

    def __contains__(self, name: object) -> bool:
        return True


_EVERY_PART = _EveryPart()


@dataclass(frozen=True, slots=True)
class _LearnedRun:
    """How a run stands at the head that we know, and which parts are there."""

    snapshot: RunSnapshot
    part_names: Container[str]


@dataclass
class CommitWriter(Writer):
    """Writes checkpoints of many runs in one commit through GraphQL."""

    _head_sha: str = ""
    _left_behind: str = ""
    """The commit that did not turn out to be the newest."""
    _known: dict[str, _LearnedRun] = field(default_factory=dict)
    _graphql: GraphqlPresence = field(init=False)

    def __post_init__(self) -> None:
        self._graphql = GraphqlPresence(self.deadline.clock)

    @property
    def is_usable(self) -> bool:
        """Whether the server has GraphQL, as far as is known."""
        return self._graphql.is_likely

    def write(self, items: Sequence[QueueItem]) -> dict[str, Delivery]:
        """Return where each checkpoint now lies: verified, in `index.json`, and in `latest.json` if newest.

        Returns nothing where the server has no GraphQL: then this is not usable for a while. Raises a
        GatewayError after three attempts; a commit whose answer was lost is found the next time by its
        checkpoints in the index.
        """
        if not self.is_usable:
            return {}
        try:
            deliveries = self._write(items)
        except Missing as error:
            if error.path != NO_GRAPHQL:
                raise
            self._forget()  # what others write meanwhile makes all that is known stale
            self._graphql.miss()
            return {}
        self._graphql.find()
        return deliveries

    def _write(self, items: Sequence[QueueItem]) -> dict[str, Delivery]:
        under_way = list(items)

        def commit() -> dict[str, Delivery]:
            try:
                return self._commit(under_way)
            except GatewayError as error:
                if is_worth_repeating(error) or isinstance(error, Missing):
                    self._forget()
                raise

        def note(attempt: int, error: GatewayError) -> None:
            log.info("commit_repeated", attempt=attempt, cause=str(error))

        return repeat(commit, attempts=WRITE_ATTEMPTS, deadline=self.deadline, note=note)

    def _commit(self, items: list[QueueItem]) -> dict[str, Delivery]:
        """Commit everything on top of the head we know; `items` is changed when numbers are."""
        run_ids = list(dict.fromkeys(item.run_id for item in items))
        if not self._recall(items):
            self._learn(run_ids)
        write_plans = self._plan(run_ids, items)
        writes = [write for write_plan in write_plans.values() for write in _writes(write_plan)]
        if writes:
            self._send(write_plans, writes)
        for run_id, write_plan in write_plans.items():
            after = write_plan.snapshot_after(self._known[run_id].snapshot, self.layout)
            self._revise(run_id, self.runs.keep_committed(after))
        for run_id in list(self._known)[:-MAX_REMEMBERED_RUNS]:
            if run_id not in write_plans:
                del self._known[run_id]
        return {
            checkpoint_id: Delivery(
                entry.sequence, entry.file_path, entry.blob_sha, self._head_sha, entry.ends_run
            )
            for write_plan in write_plans.values()
            for checkpoint_id, entry in write_plan.entries.items()
        }

    def _plan(self, run_ids: Sequence[str], items: list[QueueItem]) -> dict[str, WritePlan]:
        by_run = {run_id: [item for item in items if item.run_id == run_id] for run_id in run_ids}
        items.clear()
        write_plans = {}
        for run_id, own in by_run.items():
            highest_known = self.spool.known_sequence(run_id)
            choose = partial(segments_about, items=own, highest_known=highest_known)
            # What the branch shows may be older than the commit that ours is to be made on.
            snapshot = self.runs.unfold(self._known[run_id].snapshot, choose, self._head_sha)
            snapshot = disown_revived(snapshot, own)
            snapshot = without_unproved(snapshot, [item.checkpoint_id for item in own], self.layout)
            self._revise(run_id, snapshot)
            stamp = self.stamper.stamp_for(snapshot, partial(self._parts_of, run_id))
            admit = partial(self.admit, snapshot)
            stamped = stamp_items(self.spool, snapshot, own, stamp, breathe=self.breathe, admit=admit)
            items += [each.item for each in stamped]
            write_plans[run_id] = self.plan(snapshot, stamped)
        return write_plans

    def _send(self, write_plans: Mapping[str, WritePlan], writes: Sequence[FileWrite]) -> None:
        ids = [identity for write_plan in write_plans.values() for identity in write_plan.entries]
        headline, body = _message(ids, len(write_plans))
        additions = {write.path: write.content for write in writes}
        revision = self.gateway.perform(CommitFiles(self.branch, self._head_sha, headline, body, additions))
        with traces.span(VERIFY_SPAN, {"holdfast.files": len(writes)}):
            self._verify_unanswered(writes, revision)
        self._head_sha = revision.commit_sha
        log.info(
            "commit_written", commit_sha=revision.commit_sha, checkpoints=len(ids), runs=len(write_plans)
        )

    def _verify_unanswered(self, writes: Sequence[FileWrite], revision: Revision) -> None:
        """Read back the files that the commit's own answer could not speak for: those over 10 MB."""
        for write in writes:
            if write.path in revision.blob_shas:
                continue
            stored = self.gateway.perform(ReadFile(write.path, revision.commit_sha, is_fresh=True))
            if stored.blob_sha != write.blob_sha:
                raise Unverified(write.path, "what GitHub gives back is not what was sent")

    def _recall(self, items: Sequence[QueueItem]) -> bool:
        """Whether we know how our own last commit left these runs; if others wrote since, ours is refused."""
        lowest: dict[str, int] = {}
        for item in items:
            lowest[item.run_id] = min(item.sequence, lowest.get(item.run_id, item.sequence))
        known = {run_id: self._known[run_id] for run_id in lowest if run_id in self._known}
        found = {run_id: self.runs.recall(run_id, lowest[run_id]) for run_id in lowest if run_id not in known}
        commits = {self._head_sha} if known or self._head_sha else set()
        for run_id, recalled in found.items():
            if recalled is None:
                return False
            known[run_id] = _LearnedRun(recalled[0], _EVERY_PART)
            commits.add(recalled[1])
        if len(commits) != 1 or commits & {"", self._left_behind}:
            return False
        (self._head_sha,) = commits
        self._known.update(known)
        return True

    def _learn(self, run_ids: Sequence[str]) -> None:
        """Know the head and how these runs stand at it, asking GitHub only for what is not known."""
        if self._head_sha and all(run_id in self._known for run_id in run_ids):
            return
        answer = self._read_snapshot(run_ids)
        if answer.head_sha != self._head_sha:
            self._known.clear()
        self._head_sha = answer.head_sha
        for run_id in run_ids:
            self._known[run_id] = _LearnedRun(
                self._snapshot(run_id, answer), self._list_parts(run_id, answer)
            )

    def _read_snapshot(self, run_ids: Sequence[str]) -> Snapshot:
        files = [self.layout.path(run_id, name) for run_id in run_ids for name in (INDEX, LATEST)]
        folders = [self.layout.run_folder(run_id) for run_id in run_ids]
        folders += [self.layout.path(run_id, PARTS) for run_id in run_ids if self.stamper.is_incremental]
        paths = (*folders, *files)
        try:
            return read_snapshot(self.gateway, self.branch, paths)
        except Missing as error:
            if error.path == NO_GRAPHQL:
                raise
            ensure_branch(self.gateway, self.branch)
        return read_snapshot(self.gateway, self.branch, paths)

    def _snapshot(self, run_id: str, answer: Snapshot) -> RunSnapshot:
        listed = answer.folders.get(self.layout.run_folder(run_id), {})
        files = {name: answer.files[self.layout.path(run_id, name)] for name in (INDEX, LATEST)}
        found = {name: file for name, file in files.items() if file}
        wanted = (self.layout.run_folder(run_id), *(self.layout.path(run_id, name) for name in files))
        is_unread = not answer.unread.isdisjoint(wanted)
        if is_unread or not found.keys() <= listed.keys():
            # One of them is too large for a query, or this server lists no folders that way.
            return self.runs.read_at(run_id, answer.head_sha)
        contents = {file.blob_sha: file.content for file in found.values()}
        return self.runs.understand(run_id, answer.head_sha, listed, contents)

    def _parts_of(self, run_id: str) -> Container[str]:
        return self._known[run_id].part_names

    def _revise(self, run_id: str, snapshot: RunSnapshot) -> None:
        self._known[run_id] = replace(self._known[run_id], snapshot=snapshot)

    def _list_parts(self, run_id: str, answer: Snapshot) -> Container[str]:
        listed = answer.folders.get(self.layout.path(run_id, PARTS), {})
        return {f"{PARTS}/{name}" for name in listed}

    def _forget(self) -> None:
        self._left_behind = self._head_sha or self._left_behind
        self._head_sha = ""
        self._known.clear()


def _writes(write_plan: WritePlan) -> list[FileWrite]:
    ends = (file for file in (write_plan.index, write_plan.latest) if file)
    return [*write_plan.files, *write_plan.segments, *ends]


def _message(checkpoint_ids: Sequence[str], runs: int) -> tuple[str, str]:
    """Return headline and body; every id is in there, so that the history tells what became of each."""
    if len(checkpoint_ids) == 1:
        return f"Checkpoint {checkpoint_ids[0]}", ""
    headline = f"{len(checkpoint_ids)} checkpoints of {runs} run{'s' if runs > 1 else ''}"
    return headline, "\n".join(f"Checkpoint {identity}" for identity in checkpoint_ids)
