"""Prunes runs in the background, when they were just written to and have grown well beyond the rules."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holdfast.cache.local_copy import RepositoryCache
from holdfast.errors import HoldfastError, IntegrityFailure
from holdfast.format.header import RunStatus
from holdfast.format.index import Index
from holdfast.format.paths import LATEST, Layout
from holdfast.logs import log
from holdfast.repository.sources import CachedSource
from holdfast.repository.stored_run import StoredRun
from holdfast.retention.disposal import find_prunable
from holdfast.retention.rules import LAYERS, RetentionRules
from holdfast.retention.sweep import Sweeper
from holdfast.styles.resume import style_of_text

# A sweep costs several requests, so it is worth this many checkpoints, or a tenth of those that stay.
LEAST_EXCESS = 10


@dataclass(frozen=True)
class Pruner:
    """Looks at the local copy of what was written, and asks GitHub only if there is something to prune."""

    open_sweeper: Callable[[], Sweeper]
    cache: RepositoryCache
    layout: Layout
    rules: RetentionRules

    def prune(self, run_ids: Iterable[str]) -> None:
        """Prune those of the runs that need it. What goes wrong is logged: the next drain tries again."""
        try:
            due = [run_id for run_id in run_ids if self._is_due(run_id)]
            if due:
                self.open_sweeper().prune(due)
        except HoldfastError as error:
            log.info("pruning_put_off", cause=str(error))

    def _is_due(self, run_id: str) -> bool:
        run = StoredRun(CachedSource(self.cache, self.layout, reads_segments=False), self.layout, run_id)
        run.find_ends()  # a long run has many more files
        try:
            index, latest_text = run.read_index(), run.read(LATEST)
        except IntegrityFailure:
            return False  # it is not known here, or not sound: a sweep has to look at it
        style = style_of_text(latest_text)
        if not self._may_exceed(index, style):
            return False
        index = run.whole_index or index
        prunable = find_prunable(index, style, self.rules, self.layout)
        excess = sum(len(entries) for entries in prunable.values())
        return excess >= self._worth_a_sweep(index, style, excess)

    def _may_exceed(self, index: Index, style: str) -> bool:
        """Whether a run may have more than the rules let it keep, as far as `index.json` alone shows."""
        limit = self.rules.limit_for(style)
        is_limited = self.rules.per_phase is not None
        return is_limited or (limit is not None and index.checkpoint_count > limit)

    def _worth_a_sweep(self, index: Index, style: str, excess: int) -> int:
        """Return from how many checkpoints beyond the rules on a run is pruned.

        A completed run has no next time, and layers promise their limit after each drain.
        """
        if index.status is RunStatus.COMPLETED or style == LAYERS:
            return 1
        return max(LEAST_EXCESS, (index.checkpoint_count - excess) // 10)
