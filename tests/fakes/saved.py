"""Checkpoints as a style sees them, and as the repository holds them, in a line."""

from typing import Any

from holdfast.format.checkpoint import Envelope, draft_from_text, stamp
from holdfast.format.header import RunStatus
from holdfast.format.triggers import Trigger
from holdfast.jsontext.encode import encode
from holdfast.styles.style import Saved

NOW = "2026-11-16T10:00:00Z"
_IDENTITY = "00000000-0000-4000-8000-{:012d}"


def saved(
    style: str | None = None,
    given: dict[str, Any] | None = None,
    *,
    trigger: str = "manual",
    phase: str = "phase_1_plan",
    status: str = "in_progress",
    state: dict[str, Any] | None = None,
    **progress: Any,
) -> Saved:
    named = {**progress, **(given or {}), **({"style": style} if style else {})}
    return Saved(Trigger(trigger), phase, RunStatus(status), {**(state or {}), "progress": named}, named)


def stamped(state: Any, *, sequence: int = 1, run_id: str = "r", **header: Any) -> Envelope:
    document = {
        "checkpoint_id": _IDENTITY.format(sequence),
        "run_id": run_id,
        "trigger": "manual",
        "state": state,
        **header,
    }
    return stamp(draft_from_text(encode(document), now=NOW, new_id=str).body(sequence))
