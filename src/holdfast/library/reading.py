"""Reading runs back: lists, single checkpoints, where to go on, what is wrong, what changed."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from holdfast.errors import UnknownRun
from holdfast.format.checkpoint import Envelope
from holdfast.format.ids import At, is_checkpoint_id, parse_checkpoint_id
from holdfast.format.receipt import Receipt
from holdfast.library.opening import OpenLibrary, parse_place

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

    def runs(
        self,
        *,
        resumable: bool = False,
        workflow: str | None = None,
        review: bool = False,
        archived: bool = False,
    ) -> list["RunSummary"]:
        """Return every run, stored or spooled, the one last written to first.

        With `resumable`, those that can be resumed; with `workflow`, those of one by its path or its name;
        with `review`, those that wait for a person; with `archived`, those of which only a summary is left.
        """
        if archived:
            chosen = self._assembly.reader.list_archived()
            return [run for run in chosen if not (resumable or review or workflow)]
        return self._assembly.reader.list_runs(is_resumable=resumable, workflow=workflow, is_waiting=review)

    def checkpoints(self, run_id: str, *, limit: int | None = None) -> "Index":
        """Return every checkpoint of a run, stored or spooled, or the newest `limit`. Raises UnknownRun."""
        return self._assembly.reader.list_checkpoints(run_id, newest=limit)

    def checkpoint(self, name: str, at: At | None = None) -> Envelope:
        """Return one checkpoint: the one with this id, or of a run the newest, or the one at `at`.

        `at` is a sequence number or a checkpoint's id. Raises UnknownRun, IntegrityFailure.
        """
        reader = self._assembly.reader
        if at is not None or not is_checkpoint_id(name):
            return reader.read_checkpoint(name, parse_place(at))
        checkpoint_id = parse_checkpoint_id(name)
        if self.receipt(checkpoint_id) is None:
            with suppress(UnknownRun):  # a run may be named like that, too
                return reader.read_checkpoint(name)
        return reader.read_checkpoint(self.run_of(checkpoint_id), checkpoint_id)

    def summary(self, run_id: str) -> bytes:
        """Return the summary that is left of an archived run, as JSON. Raises UnknownRun."""
        return self._assembly.reader.read_summary(run_id)

    def checkpoints_by_id(self, run_id: str, checkpoint_ids: Collection[str]) -> dict[str, Envelope]:
        """Return these checkpoints of a run, by their ids. Raises UnknownRun, IntegrityFailure."""
        return self._assembly.reader.read_many(run_id, checkpoint_ids)

    def run_of(self, checkpoint_id: str) -> str:
        """Return the run that a checkpoint belongs to, by its id. Raises UnknownRun."""
        return self._assembly.reader.find_run(checkpoint_id)

    def signatures(self, run_id: str) -> dict[str, str]:
        """Return what each stored checkpoint's signature is worth: `valid`, `missing` or `forged`, by id.

        Nothing where no signing key is set; nor of what is spooled here, which is signed when it is drained.
        """
        return self._assembly.reader.read_signatures(run_id)

    def resume(
        self,
        run_id: str,
        *,
        at: At | None = None,
        active_lessons: Sequence[Any] | None = None,
        dag: Any = None,
    ) -> "ResumePlan":
        """Return where a run goes on: from its newest good checkpoint, or from the one at `at`,
        a sequence number or a checkpoint's id.

        What is spooled here is newer than what GitHub has. `active_lessons` and `dag` are what is in force
        now; where they differ from what was stored, the plan warns. Raises UnknownRun, IntegrityFailure when
        nothing good is left, GatewayError when GitHub is away and nothing of the run is known here.
        """
        return self._assembly.reader.resume(
            run_id, at=parse_place(at), active_lessons=active_lessons, dag=dag
        )

    def validate(self, run_id: str) -> "Report":
        """Return everything that is wrong with a run: files, integrity, index, numbers, parts, spool.

        Raises UnknownRun, and GatewayError when GitHub is away and nothing of the run is known here.
        """
        from holdfast.repository.validate import Validator

        return Validator(self._assembly.reader).check_run(run_id)

    def diff(self, run_id: str, first: At, second: At) -> "Patch":
        """Return what turns one checkpoint of a run into another, by their numbers or ids.

        Raises UnknownRun, IntegrityFailure.
        """
        from holdfast.styles.diff import compare

        return compare(self.checkpoint(run_id, first).content, self.checkpoint(run_id, second).content)

    def replay(self, run_id: str, *, start: At | None = None) -> "Story":
        """Return what was decided and what changed at each checkpoint of a run, from `start` on.

        Raises UnknownRun.
        """
        from holdfast.styles.replay import Story, begin_at, replay

        history = self._assembly.reader.history(run_id)
        scenes = begin_at(list(replay(history.envelopes)), parse_place(start, "start"))
        return Story(run_id, scenes, history.warnings)
