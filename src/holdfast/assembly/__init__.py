"""Builds the object graph from the settings. Nothing is opened before it is needed."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.assembly.ground import Ground
from holdfast.assembly.way_to_github import WayToGitHub
from holdfast.clock import Deadline
from holdfast.format.part_files import MAX_FILE_BYTES
from holdfast.security.trust import Trust
from holdfast.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from holdfast.claims.desk import ClaimDesk
    from holdfast.claims.github_judge import GitHubJudge
    from holdfast.claims.known import KnownClaims
    from holdfast.claims.lease import Judge
    from holdfast.decisions.deletion import Deletion
    from holdfast.drain.stamper import Stamper
    from holdfast.drain.worker import Worker
    from holdfast.format.receipt import QueueItem
    from holdfast.github.calls import Answer, Gateway
    from holdfast.github.wrappers.right_of_way import RightOfWay
    from holdfast.repository.reader import Reader
    from holdfast.retention import Squash, Sweeper
    from holdfast.retention.commit import Committer
    from holdfast.retention.preserved import PreservedRuns
    from holdfast.retention.rotation import Rotator
    from holdfast.retention.rules import RetentionRules
    from holdfast.retention.scan import Scanner
    from holdfast.retention.schedule import Schedule


def open_assembly(settings: Settings, **given: Any) -> Ground:
    """Return everything that works on the repository of the settings, or on its shards."""
    if not settings.shards:
        return Assembly(settings, **given)
    from holdfast.sharding.sharded_assembly import ShardedAssembly

    return ShardedAssembly(settings, **given)


class Assembly(WayToGitHub):
    """Everything that works on one repository, made on first use and closed together.

    Saving needs the spool alone; githubkit and the embedded GitHub are loaded only by what talks to GitHub.
    `clock` and `gateway` take the place of the machine's clock and of the client; all else stays as it is.
    """

    @property
    def shards(self) -> "Sequence[Assembly]":
        """Return this one: all runs are in it."""
        return (self,)

    def home(self, _run_id: str, /) -> "Assembly":
        """Return this one, whatever the run."""
        return self

    def intake(self, _run_id: str, /) -> "Assembly":
        """Return this one, whatever the run."""
        return self

    def sort_out(self, pending: "Sequence[QueueItem]") -> "tuple[Sequence[QueueItem], str]":
        """Return what is to be written here of all that is pending, and why the rest is not yet."""
        return pending, ""

    @cached_property
    def worker(self) -> "Worker":
        """Return what drains the spool."""
        from holdfast.drain.commits import CommitWriter
        from holdfast.drain.contents import ContentsWriter
        from holdfast.drain.fencing import FenceGate
        from holdfast.drain.worker import Worker
        from holdfast.github.wrappers.budgeted import BudgetedGateway
        from holdfast.github.wrappers.deadline import DeadlineGateway
        from holdfast.repository.branch import check_repository

        deadline, give_way = self._drain_deadline, self.give_way
        # The planner keeps the reserve for critical checkpoints, so the way must let them use it.
        # It may go on for long, and has pauses of its own after an outage: no question is spared for another.
        straight = self._gateway(
            deadline, may_use_reserve=True, give_way=give_way, patience=self._fresh_patience
        )
        gateway = self._caching(straight)
        budgeted = BudgetedGateway(self.client, self.rate_limiter, self.clock.sleep)
        probed = DeadlineGateway(budgeted, deadline)
        way = (gateway, self.spool, self._runs(gateway), self.layout, self.settings.branch)
        parts = (*way, deadline, self._server_clock)
        admit = FenceGate(self.spool, lambda run_id, fence: self.claims.check(run_id, fence))
        return Worker(
            spool=self.spool,
            contents=ContentsWriter(*parts, self._stamper("contents"), self.breathe, admit),
            commits=CommitWriter(*parts, self._stamper("commit"), self.breathe, admit),
            rate_limiter=self.rate_limiter,
            policy=self.policy,
            layout=self.layout,
            deadline=deadline,
            credentials=self.tokens.fingerprint,
            probe=lambda: check_repository(probed),
            jitter=self._jitter,
            after_drain=self._prune,
            clean_up=self._clean_up,
            sort_out=self.sort_out,
            way=self.right_of_way,
        )

    def _stamper(self, mode: str) -> "Stamper":
        """Return what decides which members of a state become parts, for writing in this mode."""
        from holdfast.drain.stamper import PartPolicy, Stamper

        settings = self.settings
        least_bytes = self.least_part_bytes(mode)
        is_free = mode == "commit"
        policy = PartPolicy(settings.max_checkpoint_bytes, least_bytes, settings.compress, is_free)
        return Stamper(self.layout, self.cache, policy, self.signatures.sign)

    @cached_property
    def reader(self) -> "Reader":
        """Return what reads the repository and the spool as one."""
        from holdfast.github.wrappers.deferred import DeferredGateway
        from holdfast.repository.reader import Reader

        # What is spooled is read without any of this.
        gateway = DeferredGateway(lambda: self._gateway(self._deadline, client=self.reading_client))
        hasty = DeferredGateway(lambda: self._gateway(self._deadline, attempts=1, client=self.reading_client))
        # Some room above what our own writers put into one file; more is not parsed, whoever wrote it.
        largest = 2 * max(self.settings.max_checkpoint_bytes, MAX_FILE_BYTES)
        return Reader(
            gateway,
            self.spool,
            self.cache,
            self.layout,
            self.settings.branch,
            largest,
            hasty,
            self._graphql,
            self.clock.now,
            self.settings.warn_age,
            Trust(self.keyring, self.signatures),
        )

    @property
    def deletion(self) -> "Deletion":
        """Return what deletes single runs."""
        from holdfast.decisions.deletion import Deletion

        gateway = self._gateway(self._deadline)
        return Deletion(
            scanner=self._scanner(gateway),
            committer=self._committer(gateway),
            spool=self.spool,
            cache=self.cache,
            layout=self.layout,
            deadline=self._deadline,
            orphans=lambda: self.worker.contents.orphans,
            check_idle=self.claims.check_idle,
        )

    @property
    def rules(self) -> "RetentionRules":
        """Return how much is kept."""
        from holdfast.retention.rules import RetentionRules

        settings = self.settings
        return RetentionRules(
            full_runs=settings.keep_full_runs,
            latest_runs=settings.keep_latest_runs,
            checkpoints=settings.keep_checkpoints,
            per_phase=settings.keep_per_phase,
            days=settings.keep_days,
            deletes_completed=settings.delete_completed,
            abandoned_days=settings.abandoned_after_days,
        )

    @cached_property
    def right_of_way(self) -> "RightOfWay":
        """Return what the drain and the clean-ups share."""
        from holdfast.github.wrappers.right_of_way import RightOfWay

        return RightOfWay()

    def _scanner(self, gateway: "Gateway") -> "Scanner":
        from holdfast.retention.scan import Scanner

        return Scanner(gateway, self.cache, self.layout, self.settings.branch, self._graphql)

    def _committer(self, gateway: "Gateway") -> "Committer":
        from holdfast.retention.commit import Committer

        return Committer(self._caching(gateway), self.settings.branch, self._graphql)

    @cached_property
    def sweeper(self) -> "Sweeper":
        """Return what cleans up the repository."""
        return self._make_sweeper(self._deadline)

    def _make_sweeper(self, deadline: Deadline) -> "Sweeper":
        from holdfast.retention import Sweeper

        gateway = self._low_priority(deadline)
        return Sweeper(
            scanner=self._scanner(gateway),
            committer=self._committer(gateway),
            spool=self.spool,
            cache=self.cache,
            layout=self.layout,
            rules=self.rules,
            clock=self._server_clock,
            deadline=deadline,
            lock_folder=self.folder,
            way=self.right_of_way,
        )

    @cached_property
    def rotator(self) -> "Rotator":
        """Return what seals stored checkpoints with the newest key."""
        from holdfast.retention.rotation import Rotator

        gateway = self._low_priority(self._deadline)
        return Rotator(
            gateway=gateway,
            runs=self._runs(gateway),
            committer=self._committer(gateway),
            layout=self.layout,
            branch=self.settings.branch,
            trust=Trust(self.keyring, self.signatures),
            limit_bytes=self.settings.max_checkpoint_bytes,
            deadline=self._deadline,
            least_part_bytes=self.least_part_bytes(self.settings.write_mode),
        )

    @property
    def schedule(self) -> "Schedule | None":
        """Return what cleans up from time to time while a service runs, if the settings ask for it."""
        from holdfast.retention.schedule import Schedule

        every_s = self.settings.cleanup_every
        if every_s is None:
            return None
        return Schedule(self.sweeper, self.spool, self._deadline, every_s)

    def _clean_up(self) -> None:
        from holdfast.retention.sweep import try_sweep

        try_sweep(self._make_sweeper(self._drain_deadline))

    def _prune(self, run_ids: "Collection[str]") -> None:
        from holdfast.retention.prune import Pruner

        def open_sweeper() -> "Sweeper":
            return self._make_sweeper(self._drain_deadline)

        Pruner(open_sweeper, self.cache, self.layout, self.rules).prune(run_ids)

    @property
    def squash(self) -> "Squash":
        """Return what rewrites the branch's history, anew each time."""
        from holdfast.retention import Squash

        gateway = self._low_priority(self._deadline)
        return Squash(gateway, self.settings.branch, self._server_clock, self._deadline)

    @cached_property
    def preserved(self) -> "PreservedRuns":
        """Return the list of runs that are never cleaned up."""
        from holdfast.retention.preserved import PreservedRuns

        gateway = self._gateway(self._deadline)
        return PreservedRuns(gateway, self.layout, self.settings.branch, self._deadline)

    @cached_property
    def known_claims(self) -> "KnownClaims":
        """Return what this machine knows of claims, without asking anyone."""
        from holdfast.claims.known import KnownClaims

        return KnownClaims(self.spool, lambda: self._server_clock.now())

    @cached_property
    def claims(self) -> "ClaimDesk":
        """Return where claims are taken."""
        from holdfast.claims.desk import ClaimDesk

        return ClaimDesk(self._judge(), self.known_claims)

    def _judge(self) -> "Judge":
        judge = self._github_judge()
        if not self.settings.database_url:
            return judge
        database = self.database  # first, as it says what to do where its driver is not installed
        from holdfast.claims.database_judge import DatabaseJudge
        from holdfast.queue.postgres.claim_table import ClaimTable

        return DatabaseJudge(ClaimTable(database, self._target), self.clock, judge.highest_fence)

    def _github_judge(self) -> "GitHubJudge":
        from holdfast.claims.github_judge import GitHubJudge
        from holdfast.claims.server_time import DatedGateway

        def open_client(look: "Callable[[Answer], None]") -> "Gateway":
            def observe(answer: "Answer") -> None:
                self.rate_limiter.observe(answer)
                look(answer)

            return self._open_client(observe)

        dated = DatedGateway(open_client, self.clock)
        # A claim that is not renewed stops a workflow, so it may use what is kept for critical checkpoints.
        # One that hung for a while is asked again at the next renewal, whoever else waits in vain.
        gateway = self._gateway(
            self._deadline, may_use_reserve=True, client=dated, patience=self._fresh_patience
        )
        return GitHubJudge(gateway, dated, self.layout, self.settings.branch, self._deadline)
