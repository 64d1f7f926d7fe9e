"""The JSON documents that commands print and the sidecar answers, as users rely on them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from holdfast.format.receipt import Receipt

if TYPE_CHECKING:
    from holdfast.doctor import Diagnosis
    from holdfast.format.index import Index
    from holdfast.repository.catalog import RunSummary
    from holdfast.stats.figures import Statistics

_RECEIPT_FIELDS = tuple(field.name for field in fields(Receipt))


@dataclass(frozen=True, slots=True)
class ListedCheckpoint:
    """One checkpoint of a run, in a line."""

    sequence: int
    checkpoint_id: str
    trigger: str
    timestamp: str
    file_path: str
    status: str


@dataclass(frozen=True, slots=True)
class SignedCheckpoint(ListedCheckpoint):
    """One checkpoint of a run where a key says that all must be signed: `valid`, `missing` or `forged`."""

    signature: str | None = None


@dataclass(frozen=True, slots=True)
class CheckpointList:
    """The checkpoints of a run, in the order of their numbers."""

    run_id: str
    checkpoints: list[ListedCheckpoint]


def receipt_document(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt; what is not known yet is left out."""
    values = ((name, getattr(receipt, name)) for name in _RECEIPT_FIELDS)
    return {name: value for name, value in values if value is not None}


def runs_document(runs: Iterable["RunSummary"]) -> dict[str, Any]:
    """Return the runs."""
    return {"runs": list(runs)}


def list_document(index: "Index", marks: Mapping[str, str] | None = None) -> CheckpointList:
    """Return the checkpoints of a run; with `marks`, what each one's signature is worth."""
    names = [field.name for field in fields(ListedCheckpoint)]
    lines = [ListedCheckpoint(**{name: getattr(entry, name) for name in names}) for entry in index.entries]
    if marks:
        signed = [SignedCheckpoint(**asdict(line), signature=marks.get(line.checkpoint_id)) for line in lines]
        return CheckpointList(index.run_id, [*signed])
    return CheckpointList(index.run_id, lines)


def run_document(index: "Index") -> "RunSummary":
    """Return one run in a line, as in the list of runs."""
    from holdfast.format.header import RunStatus
    from holdfast.repository.catalog import RunSummary
    from holdfast.styles.review import is_stopped

    newest, is_over = index.current, is_stopped(index)
    return RunSummary(
        run_id=index.run_id,
        status=RunStatus.FAILED if is_over else index.status,
        resumable=index.status is not RunStatus.COMPLETED and not is_over,
        checkpoint_count=index.checkpoint_count,
        last_updated=index.last_updated or (newest.timestamp if newest else ""),
        workflow=index.workflow,
    )


def archived_document(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is left of an archived run, in the place of how a run stands.

    >>> archived_document({"run_id": "build-42", "final_status": "completed"})
    {'status': 'archived', 'resumable': False, 'run_id': 'build-42', 'final_status': 'completed'}
    """
    return {"status": "archived", "resumable": False, **summary}


def diagnosis_document(diagnosis: "Diagnosis") -> dict[str, Any]:
    """Return what the doctor found, as commands and calls show it."""
    return {"ok": diagnosis.ok, "checks": [asdict(check) for check in diagnosis.checks]}


def stats_document(stats: "Statistics") -> dict[str, Any]:
    """Return the statistics of a run, or of all."""
    return asdict(stats)
