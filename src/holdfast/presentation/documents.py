"""The JSON documents that commands print and the sidecar answers, as users rely on them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from holdfast.format.receipt import Receipt
from holdfast.settings import Settings, names_of_settings, variables_of

if TYPE_CHECKING:
    from holdfast.doctor import Diagnosis
    from holdfast.format.index import Index
    from holdfast.repository.catalog import RunSummary
    from holdfast.stats.figures import Statistics

_RECEIPT_FIELDS = tuple(field.name for field in fields(Receipt))


@dataclass(frozen=True, slots=True)
class ListedCheckpoint:
    """One checkpoint of a run, in a line.

    `signature` is there where a key says that all must be signed: `valid`, `missing` or `forged`. `fenced` is
    there, and true, where it came after its run had been taken over, so that nobody resumes from it.
    """

    sequence: int
    checkpoint_id: str
    trigger: str
    timestamp: str
    file_path: str
    status: str
    signature: str | None = None
    fenced: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointList:
    """The checkpoints of a run, in the order of their numbers."""

    run_id: str
    checkpoints: list[ListedCheckpoint]


_LINE_FIELDS = tuple(field.name for field in fields(ListedCheckpoint))[:6]


def receipt_document(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt; what is not known yet is left out."""
    return {name: value for name in _RECEIPT_FIELDS if (value := getattr(receipt, name)) is not None}


def runs_document(runs: Iterable["RunSummary"]) -> dict[str, Any]:
    """Return the runs."""
    return {"runs": list(runs)}


def list_document(index: "Index", marks: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return a CheckpointList without what does not apply; with `marks`, what each signature is worth."""
    lines = []
    for entry in index.entries:
        line = {name: getattr(entry, name) for name in _LINE_FIELDS}
        if marks:
            line["signature"] = marks.get(entry.checkpoint_id)
        if entry.checkpoint_id in index.fenced:
            line["fenced"] = True
        lines.append(line)
    return {"run_id": index.run_id, "checkpoints": lines}


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


def settings_rows(settings: Settings) -> list[dict[str, Any]]:
    """Return every setting with its value, where that came from, and its variable."""
    rows = []
    for name in names_of_settings():
        value = getattr(settings, name)
        source = settings.sources.get(name, "default")
        if hasattr(value, "get_secret_value"):
            value = f"set ({source})"
        elif isinstance(value, tuple):
            value = ",".join(map(str, value)) or None
        elif value is not None and not isinstance(value, str | int | float):
            value = str(value)
        rows.append({"name": name, "value": value, "source": source, "variable": variables_of(name)[0]})
    return rows
