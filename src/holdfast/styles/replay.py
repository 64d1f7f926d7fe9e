"""The story of a run: at each checkpoint, what was decided and what changed since the one before."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import UnknownRun
from holdfast.format.checkpoint import Envelope
from holdfast.format.header import Header
from holdfast.format.ids import At
from holdfast.jsontext.encode import encode_exact
from holdfast.jsontext.members import parse_document
from holdfast.jsontext.parse import parse_exact
from holdfast.styles.diff import PatchOperation, compare_values
from holdfast.styles.values import as_mapping, as_sequence


@dataclass(frozen=True, slots=True)
class Scene:
    """One checkpoint of the story. Values are as they are written; `changes` are those of the state."""

    header: Header
    decisions: tuple[Any, ...]
    changes: tuple[PatchOperation, ...]

    def to_mapping(self) -> dict[str, Any]:
        """Return the scene for JSON."""
        header = self.header
        return {
            "sequence": header.sequence_number,
            "checkpoint_id": header.checkpoint_id,
            "timestamp": header.timestamp,
            "trigger": header.trigger.value,
            "phase": header.phase,
            "status": header.status.value,
            "decisions": list(self.decisions),
            "changes": [change.to_mapping() for change in self.changes],
        }


@dataclass(frozen=True, slots=True)
class Story:
    """A run, checkpoint by checkpoint; `warnings` name those that cannot be told."""

    run_id: str
    scenes: Sequence[Scene]
    warnings: Sequence[str]

    def to_bytes(self) -> bytes:
        """Return the story as JSON, with every number as it is written."""
        scenes = [scene.to_mapping() for scene in self.scenes]
        return encode_exact({"run_id": self.run_id, "checkpoints": scenes, "warnings": list(self.warnings)})


def replay(envelopes: Iterable[Envelope]) -> Iterator[Scene]:
    """Yield a scene for each checkpoint, in order. The changes of the first one make its whole state."""
    state: Any = {}
    decisions: Sequence[Any] = ()
    for envelope in envelopes:
        text = parse_document(envelope.content).members.get("state_snapshot", b"null")
        now = parse_exact(text)
        all_decisions = _decisions(now)
        changes = tuple(compare_values(state, now))
        yield Scene(envelope.header, tuple(_added(decisions, all_decisions)), changes)
        state, decisions = now, all_decisions


def begin_at(scenes: Sequence[Scene], at: At | None) -> Sequence[Scene]:
    """Return the scenes from a checkpoint's on, by its number or id; all of them without one.

    Raises UnknownRun if the story has no such checkpoint.
    """
    if at is None:
        return scenes
    for place, scene in enumerate(scenes):
        if at in (scene.header.sequence_number, scene.header.checkpoint_id):
            return scenes[place:]
    raise UnknownRun(f"there is no checkpoint {at} in this run")


def _decisions(state: Any) -> list[Any]:
    """Return every decision that a state records: those of its progress, and those at gates."""
    progress = as_mapping(as_mapping(state).get("progress"))
    gates = as_sequence(as_mapping(state).get("gate_history"))
    return [*as_sequence(progress.get("decisions")), *gates]


def _added(before: Sequence[Any], now: Sequence[Any]) -> list[Any]:
    """Return the decisions that were not there before; each of several equal ones counts."""
    known = list(before)
    added = []
    for decision in now:
        if decision in known:
            known.remove(decision)
        else:
            added.append(decision)
    return added
