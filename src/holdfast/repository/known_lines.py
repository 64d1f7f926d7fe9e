"""What was made of the indexes of stored runs, in memory, so that a list reads only those that changed."""

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

from holdfast.cache.local_copy import ListedRun

if TYPE_CHECKING:
    from holdfast.repository.catalog import RunLine

MOST_KEPT = 10_000


class KnownLines:
    """The lines of a list of runs.

    A line belongs to the tree that it was made of, and goes when the run has another one, or is gone.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, RunLine]] = {}

    def of(self, runs: Mapping[str, ListedRun]) -> "dict[str, RunLine]":
        """Return the lines of those runs that are as they were."""
        kept = self._kept
        known = {run_id: kept[run_id] for run_id in runs if run_id in kept}
        return {run_id: line for run_id, (sha, line) in known.items() if sha == _origin(runs[run_id])}

    def beside(self, written: Mapping[str, ListedRun]) -> "dict[str, RunLine]":
        """Return all lines but those of runs that have been written to since."""
        lines = {run_id: line for run_id, (_, line) in self._kept.items() if run_id not in written}
        return lines | self.of(written)

    def keep(self, runs: Mapping[str, ListedRun], lines: "Mapping[str, RunLine]") -> None:
        """Remember the lines of these runs, and no others."""
        listed = ((run_id, _origin(runs[run_id]), line) for run_id, line in lines.items())
        self._kept = dict(islice(((run_id, (sha, line)) for run_id, sha, line in listed if sha), MOST_KEPT))


def _origin(run: ListedRun) -> str:
    """Return what a run's line is made of: all its files, or its index where those are not known."""
    return run.tree_sha or run.index_sha or ""
