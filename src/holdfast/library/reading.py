"""Reading runs back: lists, single checkpoints, where to go on, what is wrong, what changed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.format.checkpoint import Envelope
from holdfast.format.receipt import Receipt
from holdfast.library.opening import OpenLibrary

if TYPE_CHECKING:
    from holdfast.format.index import Index
    from holdfast.repository.findings import Report
    from holdfast.repository.reader import RunSummary
    from holdfast.styles.diff import Patch
    from holdfast.styles.replay import Story
    from holdfast.styles.resume import ResumePlan


class Reading(OpenLibrary):
    """What is stored in the repository and what is spooled here, read as one."""

    def receipt(self, checkpoint_id: str) -> Receipt | None:
        """Return how far a checkpoint has come; None if it is not known here."""
        return self._assembly.spool.receipt(checkpoint_id)

    def runs(self, *, resumable: bool = False, workflow: str | None = None) -> list["RunSummary"]:
        """Return every run, stored or spooled, the one last written to first.

        With `resumable`, those that can be resumed; with `workflow`, those of one by its path or its name.
        """
        return self._assembly.reader.list_runs(is_resumable=resumable, workflow=workflow)

    def checkpoints(self, run_id: str) -> "Index":
        """Return every checkpoint of a run, stored or spooled. Raises UnknownRun."""
        return self._assembly.reader.list_checkpoints(run_id)

    def checkpoint(self, run_id: str, sequence: int | None = None) -> Envelope:
        """Return one checkpoint, the newest unless numbered. Raises UnknownRun, IntegrityFailure."""
        return self._assembly.reader.read_checkpoint(run_id, sequence)

    def resume(
        self,
        run_id: str,
        *,
        at: int | None = None,
        active_lessons: Sequence[Any] | None = None,
        dag: Any = None,
    ) -> "ResumePlan":
        """Return where a run goes on: from its newest good checkpoint, or from the one numbered `at`.

        What is spooled here is newer than what GitHub has. `active_lessons` and `dag` are what is in force
        now; where they differ from what was stored, the plan warns. Raises UnknownRun, IntegrityFailure when
        nothing good is left, GatewayError when GitHub is away and nothing of the run is known here.
        """
        return self._assembly.reader.resume(run_id, at=at, active_lessons=active_lessons, dag=dag)

    def validate(self, run_id: str) -> "Report":
        """Return everything that is wrong with a run: files, integrity, index, numbers, parts, spool.

        Raises UnknownRun, and GatewayError when GitHub is away and nothing of the run is known here.
        """
        from holdfast.repository.validate import Validator

        return Validator(self._assembly.reader).check_run(run_id)

    def diff(self, run_id: str, first: int, second: int) -> "Patch":
        """Return what turns one checkpoint of a run into another, by their numbers.

        Raises UnknownRun, IntegrityFailure.
        """
        from holdfast.styles.diff import compare

        return compare(self.checkpoint(run_id, first).content, self.checkpoint(run_id, second).content)

    def replay(self, run_id: str) -> "Story":
        """Return what was decided and what changed at each checkpoint of a run. Raises UnknownRun."""
        from holdfast.styles.replay import Story, replay

        history = self._assembly.reader.history(run_id)
        return Story(run_id, list(replay(history.envelopes)), history.warnings)
