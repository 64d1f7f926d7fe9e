"""Reads all runs: which there are, stored and spooled as one, and from the local copy when GitHub is away.

What lists them is loaded by who asks for it: `holdfast exec` has no time for it.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from holdfast.cache.local_copy import ListedRun
from holdfast.errors import GatewayError, IntegrityFailure, Missing, UnknownRun
from holdfast.format.index import Index
from holdfast.format.paths import PRESERVED_RUNS
from holdfast.github.calls import ReadFile
from holdfast.logs import log
from holdfast.repository.run_reader import AWAY, RunReader
from holdfast.repository.sources import RunSource
from holdfast.styles.review_signs import TELLING

if TYPE_CHECKING:
    from holdfast.repository.catalog import RunLine, RunSummary

ResultT = TypeVar("ResultT")
Runs = Mapping[str, ListedRun]


class Reader(RunReader):
    """Answers what runs there are, beside what each of them holds."""

    def list_runs(
        self, *, is_resumable: bool = False, workflow: str | None = None, is_waiting: bool = False
    ) -> list["RunSummary"]:
        """Return every run, or those that are asked for, the one last written to first.

        `workflow` is the path of a workflow, the end of one, or its name; those that wait for a person are
        `is_waiting`.
        """
        from holdfast.repository.catalog import is_workflow

        lines = self.list_waiting() if is_waiting else self._lines()
        return [
            line.summary
            for line in lines
            if (line.summary.resumable or not is_resumable)
            and (workflow is None or is_workflow(line.summary.workflow, workflow))
        ]

    def list_waiting(self, *, is_asking: bool = True) -> list["RunLine"]:
        """Return the runs that wait for a person, each with what it waits for.

        Unless it `is_asking`, GitHub is not asked: the runs are those that were last listed, those written
        here since, and those whose trigger tells of a review while they are still spooled.
        """
        if is_asking:
            return [line for line in self._lines() if line.review]
        from holdfast.repository.catalog import Catalog

        catalog = Catalog(self.spool, self.lines, triggers=TELLING)
        stored = catalog.recall(self._cached(), self.cache, self.layout)
        return [line for line in catalog.with_spooled(stored) if line.review]

    def _lines(self) -> list["RunLine"]:
        from holdfast.repository.catalog import Catalog

        catalog = Catalog(self.spool, self.lines)
        stored = self._use_list(lambda source, runs: catalog.read(source, runs, self.cache, self.layout))
        return catalog.with_spooled(stored)

    def list_indexes(self) -> list[Index]:
        """Return the index of every stored run, without segments; of those known here if GitHub is away."""
        return self._read_each(lambda index: index)

    def list_archived(self, workflow: str | None = None) -> list["RunSummary"]:
        """Return the runs of which only a summary is left, or those of a workflow; the last to end first."""
        from holdfast.repository.catalog import is_workflow, read_archived
        from holdfast.repository.run_list import list_runs

        github = self._github(is_hasty=False)
        try:
            every = read_archived(github, list_runs(github), self.layout)
        except Missing:
            return []
        return [run for run in every if workflow is None or is_workflow(run.workflow, workflow)]

    def is_preserved(self, run_id: str) -> bool | None:
        """Whether a run is never cleaned up, as of the commit that was last seen; None if nobody knows now.

        GitHub is asked once for each commit.
        """
        head = self.cache.head()
        if head is None:
            return None
        known = self.cache.preserved(head.commit_sha)
        if known is None:
            from holdfast.format.preserved_list import parse_preserved

            path = f"{self.layout.base_path}/{PRESERVED_RUNS}"
            try:
                content = (self.hasty or self.gateway).perform(ReadFile(path, head.commit_sha)).content
                known = parse_preserved(content, path)
            except Missing:
                known = frozenset()
            except (GatewayError, IntegrityFailure) as error:
                log.warning("preserved_runs_not_read", cause=str(error))
                return None
            self.cache.keep_preserved(head.commit_sha, known)
        return run_id in known

    def find_run(self, checkpoint_id: str) -> str:
        """Return the run that a checkpoint belongs to. Raises UnknownRun."""
        receipt = self.spool.receipt(checkpoint_id)
        if receipt:
            return receipt.run_id
        for run_id, has_it in self._read_each(lambda index: (index.run_id, checkpoint_id in index.by_id)):
            if has_it:
                return run_id
        raise UnknownRun(f"there is no checkpoint {checkpoint_id}, neither stored nor spooled")

    def _read_each(self, look: Callable[[Index], ResultT]) -> list[ResultT]:
        """Return what `look` makes of the index of every stored run; one is in memory at a time."""
        from holdfast.repository.catalog import read_indexes

        return self._use_list(
            lambda source, runs: list(map(look, read_indexes(source, runs, self.cache, self.layout)))
        )

    def _use_list(self, use: Callable[[RunSource, Runs], list[ResultT]]) -> list[ResultT]:
        """Return what `use` makes of the list of stored runs; of those known here if GitHub is away."""
        from holdfast.repository.run_list import list_known_runs, list_runs

        github = self._github(is_hasty=self.cache.knows_runs())
        try:
            return use(github, list_runs(github))
        except AWAY as error:
            found = use(self._cached(), list_known_runs(self.cache))
            is_all_there_is = not found and not self.spool.pending()
            if is_all_there_is and not isinstance(error, Missing):
                raise
            if not isinstance(error, Missing) or found:
                log.warning("github_not_read", cause=str(error))
            return found
