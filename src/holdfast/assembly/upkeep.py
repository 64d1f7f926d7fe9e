"""What keeps the repository small and in order."""

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.assembly.way_to_github import WayToGitHub
from holdfast.clock import Deadline
from holdfast.security.trust import Trust

if TYPE_CHECKING:
    from holdfast.github.calls import Gateway
    from holdfast.github.wrappers.right_of_way import RightOfWay
    from holdfast.retention import Squash, Sweeper
    from holdfast.retention.commit import Committer
    from holdfast.retention.preserved import PreservedRuns
    from holdfast.retention.rotation import Rotator
    from holdfast.retention.rules import RetentionRules
    from holdfast.retention.scan import Scanner
    from holdfast.retention.schedule import Schedule


class Upkeep(WayToGitHub):
    """Clean-ups, new keys and a shorter history."""

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

    def _prune(self, run_ids: Collection[str]) -> None:
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
