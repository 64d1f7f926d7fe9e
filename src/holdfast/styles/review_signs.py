"""How a checkpoint that may say something of a review is told from the others, without reading its state."""

from holdfast.format.triggers import Trigger

TELLING = frozenset({Trigger.CIRCUIT_BREAKER, Trigger.ESCALATION, Trigger.REVIEW, Trigger.ROLLBACK})
_SIGNS = (b'"circuit_breaker_state"', b'"gate_history"', b'"recovery_attempts"', b'"stepped_back_for"')


def has_signs(content: bytes) -> bool:
    """Whether the text of a checkpoint names anything that makes a run wait for a person.

    One without any of it, and of a trigger that is not `TELLING`, says nothing of a review.
    """
    return any(sign in content for sign in _SIGNS)
