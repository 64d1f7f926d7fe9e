"""What calls take and answer, for the OpenAPI document: schemas, and an example of each.

Schemas are made from what is really returned, where that is a type of ours.

Making them takes a while, so this is loaded when someone asks for the document.
"""

from typing import Any

from pydantic import TypeAdapter

from holdfast.decisions.deletion import DeletedRun
from holdfast.doctor import Check
from holdfast.format.header import RunStatus
from holdfast.format.paths import MAX_SEQUENCE
from holdfast.format.receipt import Receipt
from holdfast.format.triggers import Priority, Trigger
from holdfast.presentation.documents import CheckpointList
from holdfast.presentation.sweeps import SweepDocument
from holdfast.repository.catalog import RunSummary
from holdfast.sidecar.claims import ClaimDocument, ClaimIn, ReleaseIn, RenewalIn
from holdfast.sidecar.decisions import ForkIn, ResumeIn, ReviewIn, RollbackIn
from holdfast.sidecar.upkeep import Completion
from holdfast.stats.figures import Statistics
from holdfast.status import Status
from holdfast.styles.resume import ResumePlan

Schema = dict[str, Any]

_PLACE = "#/components/schemas/{model}"
_ANSWERS = {
    "Receipt": Receipt,
    "Run": RunSummary,
    "Checkpoints": CheckpointList,
    "ResumePlan": ResumePlan,
    "Completion": Completion,
    "ReviewIn": ReviewIn,
    "RollbackIn": RollbackIn,
    "ForkIn": ForkIn,
    "ResumeIn": ResumeIn,
    "ClaimIn": ClaimIn,
    "RenewalIn": RenewalIn,
    "ReleaseIn": ReleaseIn,
    "Claim": ClaimDocument,
    "DeletedRun": DeletedRun,
    "Cleanup": SweepDocument,
    "Status": Status,
    "Check": Check,
    "Statistics": Statistics,
}

RUN_ID: Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 128,
    "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$",
    "description": "A UUID or any name of letters, digits, dots, underscores and hyphens that begins with a "
    "letter or a digit; without `..`, without a dot at its end.",
}
SEQUENCE: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_SEQUENCE}
CHECKPOINT_ID: Schema = {"type": "string", "format": "uuid"}
AT: Schema = {"anyOf": [SEQUENCE, CHECKPOINT_ID]}
TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}


def ref(name: str) -> Schema:
    """Return a reference to a schema of the document."""
    return {"$ref": _PLACE.format(model=name)}


def words(*members: str) -> Schema:
    """Return the schema of one word out of a list."""
    return {"type": "string", "enum": list(members)}


def build_schemas() -> dict[str, Schema]:
    """Return every schema of the document, by name."""
    adapters: list[Any] = [(name, "serialization", TypeAdapter(answer)) for name, answer in _ANSWERS.items()]
    named, made = TypeAdapter.json_schemas(adapters, ref_template=_PLACE)
    definitions: dict[str, Schema] = made["$defs"]
    plan = definitions["ResumePlan"]
    # `state` and `context_fields` have them, written out.
    for name in ("state_text", "context_text", "outline", "is_outlined"):
        del plan["properties"][name]
    plan["properties"]["state"] = {"title": "State"}
    plan["required"].append("state")
    for definition in definitions.values():
        definition["description"] = definition["description"].partition("\n")[0]
    return {**{name: schema for (name, _mode), schema in named.items()}, **definitions, **_BY_HAND}


def _record(properties: Schema, *optional: str) -> Schema:
    """Return the schema of an object in which all but `optional` properties are there."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


# What comes in, and what is stored, goes through as bytes; the rest is not worth a type.
_BY_HAND: dict[str, Schema] = {
    "Released": _record({"run_id": TEXT, "released": FLAG}),
    "CheckpointIn": {
        "type": "object",
        "description": "A whole checkpoint, or its short form: `state` is `state_snapshot`, everything else "
        "is filled in. Exactly one of the two must be there. Fields of your own are kept, byte for byte.",
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
            "fence": {
                **SEQUENCE,
                "type": ["integer", "null"],
                "description": "The fence of the claim under which it is saved; an older one is refused.",
            },
            "sequence_number": {**SEQUENCE, "type": ["integer", "null"]},
            "status": {"type": ["string", "null"], "enum": [*RunStatus, None]},
            "priority": {"type": ["string", "null"], "enum": [*Priority, None]},
            "workflow": {"type": ["string", "null"], "maxLength": 1024},
            "context_fields": {"type": ["object", "null"]},
        },
        "required": ["trigger"],
    },
    "ArchivedRun": {
        "description": "What is left of a run that retention has archived.",
        **_record(
            {
                "run_id": {"type": "string"},
                "status": words("archived"),
                "resumable": {"type": "boolean", "enum": [False]},
                "started_at": {"type": "string"},
                "completed_at": {"type": "string"},
                "phases_completed": {"type": "integer"},
                "final_status": words(*RunStatus),
                "total_cost_usd": {"type": "number"},
                "errors_count": {"type": "integer"},
            }
        ),
    },
    "RunOrSummary": {
        "description": "How a run stands, or what is left of an archived one.",
        "anyOf": [ref("Run"), ref("ArchivedRun")],
    },
    "Checkpoint": _record(
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
            "workflow": {"type": ["string", "null"]},
            "state_snapshot": {},
            "context_fields": {},
            "integrity": _record({"sha256": TEXT}),
        },
        # A checkpoint that another program stored is returned as it is.
        *("format_version", "status", "priority", "workflow", "context_fields", "integrity"),
    ),
    "Runs": _record({"runs": {"type": "array", "items": ref("Run")}}),
    "JsonPatch": {
        "type": "array",
        "items": _record({"op": words("add", "remove", "replace"), "path": TEXT, "value": {}}, "value"),
    },
    "Diagnosis": _record({"ok": FLAG, "checks": {"type": "array", "items": ref("Check")}}),
    "LoginLink": _record({"path": TEXT}),
    "Preserved": _record({"run_id": TEXT, "preserved": FLAG, "changed": FLAG}),
    "Health": _record({"status": words("ok", "ready"), "trouble": {"type": ["string", "null"]}}, "trouble"),
    "Problem": _record(
        {
            "type": TEXT,
            "title": TEXT,
            "status": {"type": "integer"},
            "code": {**TEXT, "description": "For programs."},
            "detail": {**TEXT, "description": "What is wrong, and what to do."},
            "field": {**TEXT, "description": "The field or parameter that is wrong."},
            "limit_bytes": {"type": "integer", "minimum": 0},
            "request_id": TEXT,
        },
        *("field", "limit_bytes", "request_id"),
    ),
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
LISTED_EXAMPLE = {
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
CLAIM_EXAMPLE = {
    "token": "q4jvPpyf7S1qYxk2s8d3Jw0pV5nZ1m6B",
    "fence": 3,
    "owner": "worker-1",
    "expires_at": "2026-11-16T10:05:00.000Z",
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
    "phase": "phase_1_plan",
    "trigger": "phase_complete",
    "saved_at": "2026-11-16T10:00:00.000Z",
    "age_s": 12.5,
    "context_fields": {},
    "needs_review": False,
    "review": None,
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
EVENT_EXAMPLE = (
    'id: 1794805784001\nevent: verified\ndata: {"run_id":"build-42","checkpoint_id":'
    '"550e8400-e29b-41d4-a716-446655440000","sequence_number":7}\n\n'
)
STATISTICS_EXAMPLE = {
    "run_id": "build-42",
    "runs": 1,
    "checkpoints": {
        "total": 3,
        "counted": 3,
        "by_trigger": {"phase_complete": 2, "manual": 1},
        "by_status": {"in_progress": 2},
        "by_progress": {"verified": 2, "spooled": 1},
    },
    "sizes": {
        "counted": 3,
        "basis": "saved",
        "median_bytes": 700,
        "largest_bytes": 912,
        "growth": None,
    },
    "verified_after": {"counted": 2, "median_s": 1.2, "p95_s": 2.4, "longest_s": 2.4},
    "rate": {
        "first": "2026-03-01T12:00:00.000Z",
        "last": "2026-03-01T12:40:00.000Z",
        "per_hour": 3.0,
        "slice_s": 100.0,
        "slices": [1, *[0] * 11, 1, *[0] * 10, 1],
    },
    "resumes": {"counted": 1, "since": "2026-03-01T12:20:00.000Z"},
    "savings": {
        "batches": 0,
        "batched_checkpoints": 0,
        "writes_saved": 0,
        "parts": 0,
        "part_bytes": 0,
        "bytes_saved": 0,
    },
    "stored": {"files": 4, "bytes": 2860, "commits": None},
    "cost": 1.25,
    "unknown": ["stored.commits: commits belong to the repository; ask for all runs"],
}
DIAGNOSIS_EXAMPLE = {
    "ok": False,
    "checks": [
        {
            "name": "permission",
            "ok": False,
            "detail": "the token may not write to acme/checkpoints, or it is archived",
            "advice": "Give the token contents: read and write on this repository.",
        }
    ],
}
STATUS_EXAMPLE = {
    "repository": "acme/checkpoints",
    "branch": "checkpoints",
    "is_embedded": False,
    "spool": {
        "depth": 0,
        "bytes": 0,
        "oldest_age_s": 0.0,
        "set_aside": 0,
        "set_aside_bytes": 0,
        "salvaged": 0,
        "lost": 0,
    },
    "budget": {"last_remaining": 4980, "last_reset": 1794805784, "calls_this_run": 12},
    "disk_free_bytes": 40_000_000_000,
    "last_error": None,
    "saves_refused": None,
    "next_try": None,
    "set_aside": [],
    "drained_by": None,
    "other_targets": [],
    "shards": [],
}
