"""What agents can do: each tool is a method whose docstring tells an agent when to use it."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from holdfast.format.receipt import Receipt
from holdfast.jsontext.encode import encode
from holdfast.library import Holdfast
from holdfast.mcp.answers import answer, cut, read_document
from holdfast.presentation.documents import list_document, receipt_document

_MOST_RUNS = 20
_MOST_CHANGES = 40
_MOST_LISTED = 50

RunName = Annotated[str, Field(description="Name of the run, such as build-42: letters, digits, . _ -")]
At = Annotated[str | int, Field(description="Number or id of a checkpoint, such as 7")]
Path = Annotated[
    str | None, Field(description="JSON Pointer to the part to show, as a $cut names it: /state/messages/0")
]


@dataclass(frozen=True)
class AgentTools:
    """The tools over one Holdfast. They raise HoldfastError and ValueError with what to do."""

    holdfast: Holdfast

    def save_checkpoint(
        self,
        run_id: RunName,
        state: Annotated[
            dict[str, Any], Field(description="All that is needed to go on: done, left, results")
        ],
        phase: Annotated[str | None, Field(description="What you are at, such as phase_2_research")] = None,
        trigger: Annotated[str, Field(description="Why now: manual, phase_complete, error …")] = "manual",
        workflow: Annotated[str | None, Field(description="What kind of work this is")] = None,
    ) -> str:
        """Save your progress durably. Use it after each finished step, and before anything risky or long.

        Save the whole state, not the difference to the last one.
        """
        return _tell(self.holdfast.save(run_id, state, trigger=trigger, phase=phase, workflow=workflow))

    def resume_run(self, run_id: RunName, at: At | None = None, path: Path = None) -> str:
        """Find out where a run stopped, and get its state back. Use it first when you continue earlier work.

        The answer says where to go on (resume_at), what is completed, what remains, and warnings.
        """
        document, place = read_document(self.holdfast.resume(run_id, at=at).to_bytes(), path)
        return answer(document, path=place)

    def list_runs(
        self,
        resumable: Annotated[bool, Field(description="Only those that can go on")] = False,
        workflow: Annotated[str | None, Field(description="Only those of this workflow")] = None,
        limit: Annotated[int, Field(ge=1, le=200)] = _MOST_RUNS,
    ) -> str:
        """List runs, the newest first. Use it to find the run to go on with when you do not know its name."""
        found = self.holdfast.runs(resumable=resumable, workflow=workflow)
        runs = [
            {
                "run_id": run.run_id,
                "status": run.status,
                "resumable": run.resumable,
                "checkpoints": run.checkpoint_count,
                "last_updated": run.last_updated,
                "workflow": run.workflow,
            }
            for run in found[:limit]
        ]
        return answer({"runs": runs, "more": len(found) - len(runs)})

    def show_checkpoint(self, run_id: RunName, at: At | None = None, path: Path = None) -> str:
        """Show a checkpoint of a run, the newest unless you name one. Use it to look at an earlier state."""
        document, place = read_document(self.holdfast.checkpoint(run_id, at).content, path)
        return answer(document, path=place)

    def diff_checkpoints(self, run_id: RunName, first: At, second: At) -> str:
        """Show what changed between two checkpoints, as JSON Patch. Use it to see what a step has done."""
        changes = [change.to_mapping() for change in self.holdfast.diff(run_id, first, second).changes]
        shown = [
            {**change, "value": cut(change["value"], change["path"], 300)} if "value" in change else change
            for change in changes[:_MOST_CHANGES]
        ]
        return answer({"changes": shown, "more": len(changes) - len(shown)})

    def rollback_run(
        self, run_id: RunName, at: At, note: Annotated[str | None, Field(description="Why")] = None
    ) -> str:
        """Go back to an earlier checkpoint: its state is saved again as the newest; nothing is deleted.

        Use it when the last steps went wrong. Then call resume_run.
        """
        return _tell(self.holdfast.rollback(run_id, at, note=note))

    def complete_run(self, run_id: RunName, status: Literal["completed", "failed"] = "completed") -> str:
        """End a run. Use it once, when the work is done or given up; a completed run is not resumed."""
        return _tell(self.holdfast.complete(run_id, status))

    def list_checkpoints(self, run_id: str) -> str:
        """Return the newest checkpoints of a run, for the resource of a run."""
        listed = list_document(self.holdfast.checkpoints(run_id, limit=_MOST_LISTED))
        lines = [_shorten(each) for each in listed["checkpoints"]]
        return encode({"run_id": run_id, "checkpoints": lines}).decode()


def _shorten(listed: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in listed.items() if name != "file_path"}


def _tell(receipt: Receipt) -> str:
    names = ("checkpoint_id", "run_id", "sequence_number", "status", "persistence")
    document = receipt_document(receipt)
    return answer({name: document[name] for name in names if name in document})
