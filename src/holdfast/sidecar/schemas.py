"""The schemas and examples of the OpenAPI document."""

from typing import Any

from holdfast.format.checkpoint import RunStatus
from holdfast.format.paths import MAX_SEQUENCE
from holdfast.format.receipt import Persistence, Progress
from holdfast.format.triggers import Priority, Trigger
from holdfast.retention.disposal import Action

Schema = dict[str, Any]

RUN_ID: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 128,
    "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$",
    "description": "A UUID or any name of letters, digits, dots, underscores and hyphens that begins with a "
    "letter or a digit; without `..`, without a dot at its end.",
}
SEQUENCE: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_SEQUENCE}
TEXT: Schema = {"type": "string"}
MAYBE_TEXT: Schema = {"type": ["string", "null"]}
TEXTS: Schema = {"type": "array", "items": TEXT}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
UUID: Schema = {"type": "string", "format": "uuid"}
PLACES: Schema = {"type": "array", "items": {"type": ["string", "integer"]}}


def ref(name: str) -> Schema:
    """Return a reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def record(properties: Schema, *optional: str, **more: Any) -> Schema:
    """Return the schema of an object in which all but `optional` properties are there."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, **more}


def words(*members: str) -> Schema:
    """Return the schema of one word out of a list."""
    return {"type": "string", "enum": list(members)}


CHECKPOINT_IN: Schema = {
    "type": "object",
    "description": "A whole checkpoint, or its short form: `state` is `state_snapshot`, everything else is "
    "filled in. Exactly one of the two must be there. Fields of your own are kept, byte for byte.",
    "properties": {
        "trigger": {
            "type": "string",
            "description": "Why it is made; other usual spellings are taken, too. "
            f"One of: {', '.join(Trigger)}.",
        },
        "state": {"description": "Any JSON: all that is needed to go on."},
        "state_snapshot": {"description": "The same as `state`."},
        "phase": {"type": ["string", "null"], "minLength": 1, "maxLength": 256},
        "checkpoint_id": {
            "type": ["string", "null"],
            "format": "uuid",
            "description": "Repeating it with the same content stores the checkpoint once.",
        },
        "run_id": {"type": ["string", "null"], "description": "If given, the one in the address."},
        "timestamp": {"type": ["string", "null"], "format": "date-time"},
        "sequence_number": {"type": ["integer", "null"], "minimum": 1, "maximum": MAX_SEQUENCE},
        "status": {"type": ["string", "null"], "enum": [*RunStatus, None]},
        "priority": {"type": ["string", "null"], "enum": [*Priority, None]},
        "workflow": {"type": ["string", "null"], "maxLength": 1024},
        "context_fields": {"type": ["object", "null"]},
    },
    "required": ["trigger"],
}

RECEIPT = record(
    {
        "checkpoint_id": UUID,
        "run_id": RUN_ID,
        "sequence_number": SEQUENCE,
        "status": words(*Progress),
        "persistence": words(*Persistence),
        "file_path": TEXT,
        "commit_sha": TEXT,
        "blob_sha": TEXT,
        "reason": TEXT,
    },
    "commit_sha",
    "blob_sha",
    "reason",
)

RUN = record(
    {
        "run_id": TEXT,
        "status": words(*RunStatus),
        "resumable": FLAG,
        "checkpoint_count": COUNT,
        "last_updated": TEXT,
        "workflow": MAYBE_TEXT,
    }
)

PLAN = record(
    {
        "run_id": TEXT,
        "checkpoint_id": UUID,
        "sequence_number": SEQUENCE,
        "source": words("spool", "github", "cache"),
        "status": words(*RunStatus),
        "resumable": FLAG,
        "resume_at": {"type": ["string", "integer", "null"]},
        "completed": PLACES,
        "remaining": {"type": ["array", "null"], "items": {"type": ["string", "integer"]}},
        "retry_current": FLAG,
        "state": {"description": "The state as it was handed in."},
        "cost_accumulated": {"type": ["number", "null"]},
        "warnings": {"type": "array", "items": TEXT},
    }
)

PROBLEM = record(
    {
        "type": TEXT,
        "title": TEXT,
        "status": {"type": "integer"},
        "code": {**TEXT, "description": "For programs."},
        "detail": {**TEXT, "description": "What is wrong, and what to do."},
        "field": {**TEXT, "description": "The field or parameter that is wrong."},
        "limit_bytes": COUNT,
        "request_id": TEXT,
    },
    "field",
    "limit_bytes",
    "request_id",
)

SCHEMAS: dict[str, Schema] = {
    "CheckpointIn": CHECKPOINT_IN,
    "Receipt": RECEIPT,
    "Run": RUN,
    "Runs": record({"runs": {"type": "array", "items": ref("Run")}}),
    "Checkpoints": record(
        {
            "run_id": TEXT,
            "checkpoints": {
                "type": "array",
                "items": record(
                    {
                        "sequence": SEQUENCE,
                        "checkpoint_id": TEXT,
                        "trigger": TEXT,
                        "timestamp": TEXT,
                        "file_path": TEXT,
                        "status": words(*RunStatus),
                    }
                ),
            },
        }
    ),
    "Checkpoint": record(
        {
            "format_version": {"type": "integer"},
            "checkpoint_id": TEXT,
            "run_id": TEXT,
            "timestamp": TEXT,
            "trigger": TEXT,
            "phase": TEXT,
            "sequence_number": SEQUENCE,
            "status": words(*RunStatus),
            "priority": words(*Priority),
            "workflow": MAYBE_TEXT,
            "state_snapshot": {},
            "context_fields": {},
            "integrity": record({"sha256": TEXT}),
        },
        "workflow",
        "integrity",
    ),
    "ResumePlan": PLAN,
    "JsonPatch": {
        "type": "array",
        "items": record({"op": words("add", "remove", "replace"), "path": TEXT, "value": {}}, "value"),
    },
    "Completion": record(
        {"status": words("completed", "failed"), "keep": FLAG},
        "status",
        "keep",
        additionalProperties=False,
    ),
    "Preserved": record({"run_id": TEXT, "preserved": FLAG, "changed": FLAG}),
    "Cleanup": record(
        {
            "dry_run": FLAG,
            "deleted_files": COUNT,
            "deleted_bytes": COUNT,
            "commits": TEXTS,
            "runs": {
                "type": "array",
                "items": record(
                    {
                        "run_id": TEXT,
                        "action": words(*Action),
                        "reason": TEXT,
                        "last_written": MAYBE_TEXT,
                        "deleted_files": COUNT,
                        "deleted_bytes": COUNT,
                    }
                ),
            },
            "delete": TEXTS,
            "write": TEXTS,
            "left": {"type": "array", "items": record({"run_id": TEXT, "reason": TEXT})},
            "unknown": TEXTS,
            "reason": MAYBE_TEXT,
        }
    ),
    "Status": record(
        {
            "spool": record({"depth": COUNT, "bytes": COUNT, "oldest_age_s": NUMBER, "set_aside": COUNT}),
            "budget": {"type": "object"},
            "last_error": MAYBE_TEXT,
        }
    ),
    "Health": record({"status": words("ok", "ready"), "trouble": MAYBE_TEXT}, "trouble"),
    "Problem": PROBLEM,
}

RECEIPT_EXAMPLE = {
    "checkpoint_id": "0b5c1f0e-8f6e-4f0a-9f5f-3c1d2e4b5a69",
    "run_id": "build-42",
    "sequence_number": 1,
    "status": "spooled",
    "persistence": "normal",
    "file_path": "checkpoints/build-42/cp_001_phase_complete.json",
}
VERIFIED_EXAMPLE = {
    **RECEIPT_EXAMPLE,
    "status": "verified",
    "commit_sha": "8f3c1a0d5e7b9c2d4f6a8b0c1d3e5f7a9b2c4d6e",
    "blob_sha": "1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f7a8b9c0d",
}
CHECKPOINT_IN_EXAMPLE = {
    "trigger": "phase_complete",
    "phase": "phase_1_plan",
    "state": {"phase_outputs": {"phase_1_plan": {"steps": 3}}, "cost_accumulated": 0.42},
}
RUN_EXAMPLE = {
    "run_id": "build-42",
    "status": "in_progress",
    "resumable": True,
    "checkpoint_count": 1,
    "last_updated": "2026-11-16T10:00:00.000Z",
    "workflow": "ci.yml",
}
ENTRY_EXAMPLE = {
    "sequence": 1,
    "checkpoint_id": RECEIPT_EXAMPLE["checkpoint_id"],
    "trigger": "phase_complete",
    "timestamp": "2026-11-16T10:00:00.000Z",
    "file_path": RECEIPT_EXAMPLE["file_path"],
    "status": "in_progress",
}
CHECKPOINT_EXAMPLE = {
    "format_version": 1,
    "checkpoint_id": RECEIPT_EXAMPLE["checkpoint_id"],
    "run_id": "build-42",
    "timestamp": "2026-11-16T10:00:00.000Z",
    "trigger": "phase_complete",
    "phase": "phase_1_plan",
    "sequence_number": 1,
    "status": "in_progress",
    "priority": "high",
    "workflow": "ci.yml",
    "state_snapshot": CHECKPOINT_IN_EXAMPLE["state"],
    "context_fields": {},
    "integrity": {"sha256": "5d41402abc4b2a76b9719d911017c5925d41402abc4b2a76b9719d911017c592"},
}
PLAN_EXAMPLE = {
    "run_id": "build-42",
    "checkpoint_id": RECEIPT_EXAMPLE["checkpoint_id"],
    "sequence_number": 1,
    "source": "spool",
    "status": "in_progress",
    "resumable": True,
    "resume_at": "phase_2",
    "completed": ["phase_1_plan"],
    "remaining": ["phase_2", "phase_3"],
    "retry_current": False,
    "state": CHECKPOINT_IN_EXAMPLE["state"],
    "cost_accumulated": 0.42,
    "warnings": [],
}
CLEANUP_EXAMPLE = {
    "dry_run": True,
    "deleted_files": 2,
    "deleted_bytes": 1830,
    "commits": [],
    "runs": [
        {
            "run_id": "build-17",
            "action": "trim",
            "reason": "among the 50 most recent runs",
            "last_written": "2026-11-14T21:40:06.310Z",
            "deleted_files": 2,
            "deleted_bytes": 1830,
        }
    ],
    "delete": ["checkpoints/build-17/index.json", "checkpoints/build-17/cp_001_manual.json"],
    "write": [],
    "left": [],
    "unknown": [],
    "reason": None,
}
STATUS_EXAMPLE = {
    "spool": {"depth": 0, "bytes": 0, "oldest_age_s": 0.0, "set_aside": 0},
    "budget": {"last_remaining": 4980, "last_reset": 1794805784, "calls_this_run": 12},
    "last_error": None,
}
