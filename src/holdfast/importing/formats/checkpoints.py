"""Checkpoints of the specification itself: whoever wrote them, they are what we store."""

from collections.abc import Mapping
from typing import Any

from holdfast.importing.formats.conversion import Builder, Conversion


def is_one(document: Mapping[str, Any]) -> bool:
    """Whether a document is a checkpoint, whole or in the short form."""
    return "trigger" in document and ("state_snapshot" in document or "state" in document)


def convert(format_name: str, document: Mapping[str, Any], run_id: str | None) -> Conversion:
    """Return the checkpoint as it is, with an id if it has none. Its own number is left to the run."""
    builder = Builder(format_name, document)
    checkpoint_id = builder.identify("checkpoint_id")
    run = builder.name_run(run_id, "run_id")
    # The number belongs to the place where it was stored; with another number the integrity is another too.
    left_out = ("sequence_number", "integrity")
    kept = {name: value for name, value in document.items() if name not in left_out}
    return Conversion(
        format_name, {**kept, "checkpoint_id": checkpoint_id, "run_id": run}, tuple(builder.notes)
    )
