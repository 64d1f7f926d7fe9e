"""One checkpoint as a plan looks at it: its header, and as much of its state as counts."""

from dataclasses import dataclass
from typing import Any

from holdfast.format.checkpoint import Envelope
from holdfast.format.header import Header
from holdfast.format.triggers import Trigger, parse_trigger
from holdfast.jsontext.members import parse_document
from holdfast.styles.phases import is_done
from holdfast.styles.review import Reviewed
from holdfast.styles.style import Saved
from holdfast.styles.values import as_mapping

# Every member of a state that a plan looks into; others are not read if they are large.
_LOOKED_INTO = frozenset(
    {
        *("progress", "gate_history", "circuit_breaker_state", "current_phase_state", "active_lessons"),
        *("escalation", "evaluation_history", "cost_breakdown", "cost_accumulated", "context_fields"),
    }
)


@dataclass(frozen=True, slots=True)
class OpenedCheckpoint:
    """A checkpoint with its state read, as far as a plan looks into it if it `is_outlined`."""

    header: Header
    state: Any
    state_text: bytes
    context: Any
    context_text: bytes
    is_outlined: bool = False

    @property
    def saved(self) -> Saved:
        """Return it as the styles look at it."""
        state = as_mapping(self.state)
        header, trigger = self.header, self._effective_trigger()
        return Saved(
            trigger,
            header.phase,
            header.status,
            state,
            as_mapping(state.get("progress")),
            is_let_on=self.decision == "continue",
        )

    @property
    def moment(self) -> Reviewed:
        """Return it as far as a review is concerned."""
        return Reviewed(self.header, as_mapping(self.state), as_mapping(self.context))

    @property
    def decision(self) -> str | None:
        """Return what a person has decided with this checkpoint, if it is a review."""
        is_review = self.header.trigger is Trigger.REVIEW
        review = as_mapping(as_mapping(self.context).get("review"))
        return str(review.get("decision")) if is_review else None

    def _effective_trigger(self) -> Trigger:
        """Return the trigger that says where the run goes on: a rollback stands for what it went back to."""
        header, context = self.header, as_mapping(self.context)
        if header.trigger is Trigger.ROLLBACK:
            return _parse_stored_trigger(as_mapping(context.get("rollback")).get("trigger"))
        if header.trigger is not Trigger.REVIEW or self.decision != "continue":
            return header.trigger
        reviewed = as_mapping(context.get("reviewed"))
        outputs = as_mapping(self.state).get("phase_outputs")
        is_over = reviewed.get("kind") == "gate" or (
            isinstance(outputs, dict) and is_done(self.state, header.phase)
        )
        return Trigger.PHASE_COMPLETE if is_over else _parse_stored_trigger(reviewed.get("trigger"))


def open_saved(envelope: Envelope) -> OpenedCheckpoint:
    """Return a checkpoint, of whose state only that is read which a plan looks into, if it is large."""
    document = parse_document(envelope.content)
    texts = [document.members.get(name, b"null") for name in ("state_snapshot", "context_fields")]
    outline = document.outline(_LOOKED_INTO)
    values = [outline.get(name) for name in ("state_snapshot", "context_fields")]
    return OpenedCheckpoint(envelope.header, values[0], texts[0], values[1], texts[1], document.is_large)


def _parse_stored_trigger(text: object) -> Trigger:
    try:
        return parse_trigger(str(text))
    except ValueError:
        return Trigger.ROLLBACK
