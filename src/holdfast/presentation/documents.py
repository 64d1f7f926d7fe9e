"""The JSON shapes that commands print and the sidecar answers, as users rely on them."""

from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from holdfast.format.receipt import Receipt

if TYPE_CHECKING:
    from holdfast.format.index import Index
    from holdfast.repository.reader import RunSummary

_RECEIPT_FIELDS = tuple(field.name for field in fields(Receipt))


def receipt_document(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt; what is not known yet is left out."""
    values = ((name, getattr(receipt, name)) for name in _RECEIPT_FIELDS)
    return {name: value for name, value in values if value is not None}


def runs_document(runs: Iterable["RunSummary"]) -> dict[str, Any]:
    """Return the runs."""
    return {"runs": [asdict(run) for run in runs]}


def list_document(index: "Index") -> dict[str, Any]:
    """Return the checkpoints of a run."""
    names = ("sequence", "checkpoint_id", "trigger", "timestamp", "file_path", "status")
    checkpoints = [{name: getattr(entry, name) for name in names} for entry in index.entries]
    return {"run_id": index.run_id, "checkpoints": checkpoints}


def run_document(index: "Index") -> dict[str, Any]:
    """Return one run in a line, as in the list of runs."""
    newest = index.newest
    return {
        "run_id": index.run_id,
        "status": index.status,
        "resumable": index.status != "completed",
        "checkpoint_count": len(index.entries),
        "last_updated": index.last_updated or (newest.timestamp if newest else ""),
        "workflow": index.workflow,
    }
