"""Builds the object graph from the settings. Nothing is opened before it is needed."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.assembly.exclusion import Exclusion
from holdfast.assembly.ground import Ground
from holdfast.assembly.upkeep import Upkeep
from holdfast.format.part_files import MAX_FILE_BYTES
from holdfast.security.trust import Trust
from holdfast.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.decisions.deletion import Deletion
    from holdfast.drain.stamper import Stamper
    from holdfast.drain.worker import Worker
    from holdfast.format.receipt import QueueItem
    from holdfast.repository.reader import Reader


def open_assembly(settings: Settings, **given: Any) -> Ground:
    """Return everything that works on the repository of the settings, or on its shards."""
    if not settings.shards:
        return Assembly(settings, **given)
    from holdfast.sharding.sharded_assembly import ShardedAssembly

    return ShardedAssembly(settings, **given)


class Assembly(Upkeep, Exclusion):
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
