"""What a person decides about a run: a review, a rollback, a fork, its deletion."""

from typing import TYPE_CHECKING

from holdfast.errors import DecisionRefused, RunArchived, UnknownRun
from holdfast.format.ids import At
from holdfast.format.receipt import Receipt
from holdfast.library.open_library import parse_place, parse_run_name
from holdfast.library.saving import Saving

if TYPE_CHECKING:
    from holdfast.decisions.deletion import DeletedRun


class Deciding(Saving):
    """Decisions are checkpoints like any other: safe once a receipt is returned."""

    def review(
        self, run_id: str, decision: str, *, note: str | None = None, by: str | None = None
    ) -> Receipt:
        """Decide what a run waits for that needs a person: `continue`, `retry` or `stop`.

        Raises DecisionRefused if nothing waits, InvalidCheckpoint for another decision, UnknownRun.
        """
        from holdfast.decisions.review import ReviewDecision, write_review

        decided = ReviewDecision(decision, note, by)
        plan = self._reader(run_id).resume(parse_run_name(run_id))
        if plan.review is None:
            raise DecisionRefused("nothing_to_review", f"run {run_id!r} does not wait for a review")
        newest = self.checkpoint(run_id, plan.checkpoint_id)
        return self.submit(write_review(newest, plan.review, decided))

    def rollback(self, run_id: str, at: At, *, note: str | None = None) -> Receipt:
        """Go on from an older checkpoint: its state is carried on in a new one.

        What waits for a review still does. Raises UnknownRun, IntegrityFailure, DecisionRefused if a review
        has stopped the run.
        """
        from holdfast.decisions.branching import write_rollback

        self._refuse_stopped(run_id)
        target = self.checkpoint(parse_run_name(run_id), parse_place(at))
        return self.submit(write_rollback(target, note))

    def fork(self, run_id: str, at: At, new_run_id: str) -> Receipt:
        """Begin another run with the state of a checkpoint; the run itself stays as it is.

        Raises UnknownRun, IntegrityFailure, DecisionRefused if there is a run of the new name already, or if
        that checkpoint is the review that has stopped the run.
        """
        from holdfast.decisions.branching import ends_run, write_fork

        source = self.checkpoint(parse_run_name(run_id), parse_place(at))
        if ends_run(source):
            reason = f"checkpoint {source.sequence} has stopped run {run_id!r}; begin from an earlier one"
            raise DecisionRefused("stopped", reason)
        self._check_free(parse_run_name(new_run_id))
        return self.submit(write_fork(source, new_run_id))

    def delete(self, run_id: str, *, force: bool = False) -> "DeletedRun":
        """Delete a run as one commit, with what waits for it in the spool.

        A preserved one, and one that someone drives at the moment, only by force. Raises UnknownRun,
        DecisionRefused, Claimed, SpoolBusy, GatewayError.
        """
        return self._assembly.home(parse_run_name(run_id)).deletion.delete(run_id, is_forced=force)

    def _check_free(self, run_id: str) -> None:
        try:
            self.checkpoint(run_id)
        except RunArchived as error:
            reason = f"there is a run {run_id!r} already, which is archived; choose another name"
            raise DecisionRefused("run_exists", reason) from error
        except UnknownRun:
            return
        raise DecisionRefused("run_exists", f"there is a run {run_id!r} already; choose another name")
