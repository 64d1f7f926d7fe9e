"""Node 2 of the specification's loop: building the checkpoint and the index, the same for every peer."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

TRIGGER = "manual"
BRANCH = "checkpoints"


def build_checkpoint(run_id: str, sequence: int, state: dict[str, Any]) -> dict[str, Any]:
    """Return the envelope of the specification around a state."""
    return {
        "checkpoint_id": str(uuid4()),
        "run_id": run_id,
        "timestamp": datetime.now(UTC).isoformat(),
        "trigger": TRIGGER,
        "phase": "phase_1_plan",
        "sequence_number": sequence,
        "state_snapshot": state,
        "context_fields": {},
    }


def checkpoint_path(run_id: str, sequence: int) -> str:
    """Return where the specification puts a checkpoint."""
    return f"checkpoints/{run_id}/cp_{sequence:03d}_{TRIGGER}.json"


def extend_index(index: dict[str, Any] | None, checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Return the index with one checkpoint more."""
    run_id, sequence = checkpoint["run_id"], checkpoint["sequence_number"]
    entries = list(index["checkpoints"]) if index else []
    entries.append(
        {
            "sequence": sequence,
            "checkpoint_id": checkpoint["checkpoint_id"],
            "trigger": checkpoint["trigger"],
            "timestamp": checkpoint["timestamp"],
            "file_path": checkpoint_path(run_id, sequence),
        }
    )
    return {
        "run_id": run_id,
        "checkpoint_count": len(entries),
        "checkpoints": entries,
        "last_updated": checkpoint["timestamp"],
    }


def encode(value: dict[str, Any]) -> bytes:
    """Return what is stored."""
    return json.dumps(value, separators=(",", ":")).encode()


def check_stored(sent: bytes, found: bytes, checkpoint_id: str) -> None:
    """Verify as node 6 does: it decodes, the id matches, the hash matches."""
    if json.loads(found)["checkpoint_id"] != checkpoint_id:
        raise AssertionError("another checkpoint came back")
    if hashlib.sha256(found).digest() != hashlib.sha256(sent).digest():
        raise AssertionError("other bytes came back")
