"""The schemas of the OpenAPI document: made from what is really returned, where that is a type of ours.

Making them takes a while, so that this is loaded when someone asks for the document.
"""

from typing import Any

from pydantic import TypeAdapter

from holdfast.format.checkpoint import RunStatus
from holdfast.format.paths import MAX_SEQUENCE
from holdfast.format.receipt import Receipt
from holdfast.format.triggers import Priority, Trigger
from holdfast.presentation.documents import CheckpointList
from holdfast.presentation.sweeps import SweepDocument
from holdfast.repository.catalog import RunSummary
from holdfast.sidecar.upkeep import Completion
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
    "Cleanup": SweepDocument,
    "Status": Status,
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
    del definitions["ResumePlan"]["properties"]["state_text"]  # `state` has it, where it is written out
    for definition in definitions.values():
        definition["description"] = definition["description"].partition("\n")[0]
    return {**{name: schema for (name, _mode), schema in named.items()}, **definitions, **_BY_HAND}


def _record(properties: Schema, *optional: str) -> Schema:
    """Return the schema of an object in which all but `optional` properties are there."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required}


# What comes in, and what is stored, goes through as bytes; the rest is not worth a type.
_BY_HAND: dict[str, Schema] = {
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
            "sequence_number": {**SEQUENCE, "type": ["integer", "null"]},
            "status": {"type": ["string", "null"], "enum": [*RunStatus, None]},
            "priority": {"type": ["string", "null"], "enum": [*Priority, None]},
            "workflow": {"type": ["string", "null"], "maxLength": 1024},
            "context_fields": {"type": ["object", "null"]},
        },
        "required": ["trigger"],
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
