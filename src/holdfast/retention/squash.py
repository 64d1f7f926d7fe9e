"""Squashing: rewrites the branch so that what was deleted is no longer in its history.

The new history begins with a parentless commit of a tree; commits that are to stay are made again on top of
it, with their trees, messages, people and dates. The branch is moved only if it is still where it was, so a
checkpoint that was written meanwhile is never lost: then everything is done again from the new head. A server
without GraphQL cannot compare: there it is looked afterwards what came between, and that is put back.
"""

from dataclasses import dataclass, field

from holdfast.clock import Clock, Deadline
from holdfast.errors import Conflict, GatewayError, Missing, Refused
from holdfast.format.moments import epoch
from holdfast.github.calls import NO_GRAPHQL, Gateway, ReadHead, ReadTree
from holdfast.github.inspection import (
    HISTORY_PAGE,
    CommitRecord,
    CountCommits,
    ReadCommit,
    ReadHistory,
    ReadReplacedHead,
    ReadRepository,
)
from holdfast.github.wrappers.retrying import CHANGE_ATTEMPTS, plan_and_repeat
from holdfast.github.write_calls import MoveBranch, ReplaceBranch, WriteCommit
from holdfast.logs import log
from holdfast.retention.restoring import Restoring
from holdfast.retention.rules import DAY_S

MAX_KEPT_COMMITS = 400
"""Each kept commit is one content-creating request, of which GitHub allows 500 an hour."""


@dataclass(frozen=True, slots=True)
class SquashReport:
    """What a squash did. A number that nobody could tell is None.

    `branch_bytes` is what the files of the branch take. The other two are GitHub's own figure for the whole
    repository, which falls only once GitHub collects its garbage, at a time that it does not tell.
    """

    branch: str
    commits_before: int | None
    commits_after: int | None
    head_before: str
    head_after: str
    branch_bytes: int | None
    bytes_before: int
    bytes_after: int


@dataclass
class Squash:
    """Rewrites the history of one branch."""

    gateway: Gateway
    branch: str
    clock: Clock
    deadline: Deadline
    _made: dict[str, str] = field(default_factory=dict)
    """The new commit for each old one; a second attempt makes only what has come since."""

    def run(
        self, *, keep_days: float | None = None, forced_branch: str = "", may_be_unguarded: bool = False
    ) -> SquashReport:
        """Rewrite the branch to its present tree, or to the commits of the last `keep_days` on such a tree.

        `forced_branch` must name the branch if it is the repository's default one. Only if it
        `may_be_unguarded` is it moved where the server has no GraphQL, and so cannot compare. Raises Refused,
        and Missing when there is no such branch.
        """
        repository = self.gateway.perform(ReadRepository())
        if repository.default_branch == self.branch and forced_branch != self.branch:
            advice = f"If that is what you want, say so with --force {self.branch}."
            raise _refuse(self.branch, "it is the repository's default branch", advice)
        commits_before = self._count()
        head_before, head_after = self._rewrite(
            repository.node_id, keep_days, may_be_unguarded=may_be_unguarded
        )
        report = SquashReport(
            branch=self.branch,
            commits_before=commits_before,
            commits_after=self._count(),
            head_before=head_before,
            head_after=head_after,
            branch_bytes=self._branch_bytes(head_after),
            bytes_before=repository.size_bytes,
            bytes_after=self.gateway.perform(ReadRepository()).size_bytes,
        )
        log.info("history_squashed", branch=self.branch, head_before=head_before, head_after=head_after)
        return report

    def _rewrite(
        self, repository_id: str, keep_days: float | None, *, may_be_unguarded: bool
    ) -> tuple[str, str]:
        """Return the head before and after; on a moved branch, begin again from its new head."""

        def remake() -> tuple[str, str]:
            head_sha = self.gateway.perform(ReadHead(self.branch))
            return head_sha, self._remake(head_sha, keep_days)

        def move(heads: tuple[str, str]) -> tuple[str, str]:
            head_sha, new_sha = heads
            if new_sha != head_sha:
                self._move(repository_id, head_sha, new_sha, may_be_unguarded=may_be_unguarded)
            return heads

        def note(number: int, error: GatewayError) -> None:
            log.info("squash_repeated", attempt=number, cause=str(error))

        return plan_and_repeat(remake, move, attempts=CHANGE_ATTEMPTS, deadline=self.deadline, note=note)

    def _remake(self, head_sha: str, keep_days: float | None) -> str:
        """Make the new history and return its head; the head itself if there is nothing to take away."""
        head = self.gateway.perform(ReadCommit(head_sha))
        kept = [] if keep_days is None else self._kept(head_sha, self.clock.now() - keep_days * DAY_S)
        oldest = kept[-1] if kept else head
        if not oldest.parent_shas:
            return head_sha
        if kept:
            oldest = self.gateway.perform(ReadCommit(oldest.parent_shas[0]))
            if not oldest.parent_shas:
                return head_sha
        parent = self._root(oldest)
        for commit in reversed(kept):
            parent = self._again(commit, parent)
        return parent

    def _kept(self, head_sha: str, since: float) -> list[CommitRecord]:
        """Return the commits since then along the first parents, the newest first."""
        kept: list[CommitRecord] = []
        page = 1
        wanted = head_sha
        while True:
            commits = self.gateway.perform(ReadHistory(head_sha, page))
            by_sha = {commit.sha: commit for commit in commits}
            while wanted in by_sha and epoch(_date_of(by_sha[wanted])) >= since:
                kept.append(by_sha[wanted])
                wanted = next(iter(by_sha[wanted].parent_shas), "")
            if len(kept) > MAX_KEPT_COMMITS:
                raise _refuse_many(self.branch)
            if wanted in by_sha or not wanted or len(commits) < HISTORY_PAGE:
                return kept
            page += 1

    def _root(self, commit: CommitRecord) -> str:
        if commit.sha not in self._made:
            message = f"Everything up to {commit.sha}\n\nHistory before this was squashed by Holdfast."
            call = WriteCommit(commit.tree_sha, message, (), commit.author, commit.committer)
            self._made[commit.sha] = self.gateway.perform(call)
        return self._made[commit.sha]

    def _again(self, commit: CommitRecord, parent_sha: str) -> str:
        key = f"{parent_sha} {commit.sha}"
        if key not in self._made:
            call = WriteCommit(
                commit.tree_sha, commit.message, (parent_sha,), commit.author, commit.committer
            )
            self._made[key] = self.gateway.perform(call)
        return self._made[key]

    def _move(self, repository_id: str, head_sha: str, new_sha: str, *, may_be_unguarded: bool) -> None:
        try:
            self.gateway.perform(ReplaceBranch(self.branch, repository_id, head_sha, new_sha))
        except Missing as error:
            if error.path != NO_GRAPHQL:
                raise
            if not may_be_unguarded:
                reason = "this server has no GraphQL, so that nothing guards what is written meanwhile"
                advice = "If nobody is writing to it, say so with --unguarded."
                raise _refuse(self.branch, reason, advice) from error
            if self.gateway.perform(ReadHead(self.branch)) != head_sha:
                raise Conflict(self.branch, "the branch has moved on", kind="head_moved") from error
            self.gateway.perform(MoveBranch(self.branch, new_sha, is_forced=True))
            self._look_again(head_sha, new_sha)

    def _look_again(self, head_sha: str, new_sha: str) -> None:
        """Put back what was written between the last look at the branch and its move."""
        try:
            replaced_sha = self.gateway.perform(ReadReplacedHead(self.branch, new_sha))
        except Missing as error:
            log.warning("squash_not_looked_after", branch=self.branch, cause=str(error))
            return
        if replaced_sha != head_sha:
            log.warning("squash_put_back", branch=self.branch, head_before=head_sha, replaced=replaced_sha)
            Restoring(self.gateway, self.branch, self.deadline).put_back(head_sha, replaced_sha)

    def _count(self) -> int | None:
        try:
            return self.gateway.perform(CountCommits(self.branch))
        except Missing as error:
            if error.path != NO_GRAPHQL:
                raise
            return None

    def _branch_bytes(self, head_sha: str) -> int | None:
        listing = self.gateway.perform(ReadTree(head_sha, is_recursive=True))
        return sum(entry.size_bytes for entry in listing.entries) if listing.is_complete else None


def _date_of(commit: CommitRecord) -> str:
    return commit.committer.date if commit.committer else ""


def _refuse(branch: str, reason: str, advice: str) -> Refused:
    return Refused(
        branch,
        f"the history of {branch} is not rewritten: {reason}",
        kind="protected_branch",
        advice=advice,
    )


def _refuse_many(branch: str) -> Refused:
    return Refused(
        branch,
        f"more than {MAX_KEPT_COMMITS} commits would have to be made again, one by one",
        kind="invalid",
        advice="Keep fewer days, or none.",
    )
