"""What retention writes down: the summary that is left of an archived run, and the log of its own deeds."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import orjson

from holdfast.errors import IntegrityFailure
from holdfast.format.checkpoint import Envelope
from holdfast.format.completion import KEEP, RETENTION
from holdfast.format.versions import FORMAT_VERSION, refuse_newer
from holdfast.styles.resume import plan_resume, style_of

MAX_SWEEPS = 50
MAX_ACTIONS = 1000
MAX_RECORDS = 5000

_LOG_MEMBERS = frozenset({"format_version", "sweeps", "runs"})


@dataclass(frozen=True, slots=True)
class Summary:
    """The specification's seven fields, and the workflow if the run named one, to be found by it."""

    run_id: str
    started_at: str
    completed_at: str
    phases_completed: int
    final_status: str
    total_cost_usd: int | float
    errors_count: int
    workflow: str | None = None

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        known = {name: value for name, value in asdict(self).items() if value is not None}
        return orjson.dumps(known, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


@dataclass(frozen=True, slots=True)
class LastState:
    """What retention needs to know of the newest checkpoint of a run, read from `latest.json`."""

    sequence: int
    checkpoint_id: str
    timestamp: str
    status: str
    style: str
    is_kept: bool
    phases_completed: int
    cost: int | float
    errors_count: int

    def summarise(self, run_id: str, started_at: str, workflow: str | None) -> Summary:
        """Return what is left of the run once its checkpoints are gone."""
        return Summary(
            run_id=run_id,
            started_at=started_at,
            completed_at=self.timestamp,
            phases_completed=self.phases_completed,
            final_status=self.status,
            total_cost_usd=self.cost,
            errors_count=self.errors_count,
            workflow=workflow,
        )


def describe_last(envelope: Envelope, document: Mapping[str, Any]) -> LastState:
    """Return what the newest checkpoint says; `document` is its content, parsed and put together."""
    header = envelope.header
    state = document.get("state_snapshot")
    values = state if isinstance(state, dict) else {}
    errors = values.get("errors_encountered")
    context = document.get("context_fields")
    return LastState(
        sequence=envelope.sequence,
        checkpoint_id=header.checkpoint_id,
        timestamp=header.timestamp,
        status=header.status.value,
        style=style_of(state),
        is_kept=KEEP in (document.get(RETENTION), isinstance(context, dict) and context.get(RETENTION)),
        phases_completed=len(plan_resume(envelope).completed),
        cost=_as_number(values.get("cost_accumulated")),
        errors_count=len(errors) if isinstance(errors, list) else 0,
    )


def parse_summary(content: bytes, path: str) -> Summary:
    """Return the summary that a file holds. Raises IntegrityFailure."""
    try:
        stored = orjson.loads(content)
        return Summary(
            run_id=str(stored["run_id"]),
            started_at=str(stored["started_at"]),
            completed_at=str(stored["completed_at"]),
            phases_completed=int(stored["phases_completed"]),
            final_status=str(stored["final_status"]),
            total_cost_usd=_as_number(stored["total_cost_usd"]),
            errors_count=int(stored["errors_count"]),
            workflow=stored.get("workflow"),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityFailure(path, f"it is not a summary: {error!r}") from error


def _as_number(value: object) -> int | float:
    """Return a number that JSON's usual readers take; a checkpoint's own may have any number of digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return value if isinstance(value, float) or abs(value) < 2**53 else float(value)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """When a run began and was last written to: its index said so, its latest alone does not."""

    started_at: str
    last_written: str


@dataclass(frozen=True, slots=True)
class SweepRecord:
    """One commit of retention: when, how much went, and what was done to which run."""

    at: str
    deleted_files: int
    deleted_bytes: int
    actions: tuple[tuple[str, str], ...]
    """The run and what was done to it. The oldest sweeps keep their totals only."""


@dataclass(frozen=True)
class RetentionLog:
    """What `retention_log.json` holds, the newest sweep first; `others` are members unknown to us."""

    sweeps: tuple[SweepRecord, ...] = ()
    records: Mapping[str, RunRecord] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)

    def after(self, sweep: SweepRecord, records: Mapping[str, RunRecord]) -> "RetentionLog":
        """Return the log with one more sweep, cut to its bounds."""
        room = MAX_ACTIONS
        sweeps = []
        for each in (sweep, *self.sweeps)[:MAX_SWEEPS]:
            sweeps.append(replace(each, actions=each.actions[:room]))
            room -= len(sweeps[-1].actions)
        newest = sorted(records.items(), key=lambda item: item[1].last_written, reverse=True)[:MAX_RECORDS]
        return RetentionLog(tuple(sweeps), dict(sorted(newest)), self.others)

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        document = {
            **self.others,
            "format_version": FORMAT_VERSION,
            "sweeps": [
                {
                    **asdict(sweep),
                    "actions": [{"run_id": run_id, "action": action} for run_id, action in sweep.actions],
                }
                for sweep in self.sweeps
            ],
            "runs": {run_id: asdict(record) for run_id, record in self.records.items()},
        }
        return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def parse_log(content: bytes, path: str) -> RetentionLog | None:
    """Return the log that a file holds; None if it is damaged. Raises NewerFormat."""
    try:
        stored = orjson.loads(content)
        refuse_newer(stored, path)
        records = {
            str(run_id): RunRecord(str(record["started_at"]), str(record["last_written"]))
            for run_id, record in stored["runs"].items()
        }
        others = {name: value for name, value in stored.items() if name not in _LOG_MEMBERS}
        return RetentionLog(_parse_sweeps(stored["sweeps"]), records, others)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _parse_sweeps(stored: Sequence[Mapping[str, Any]]) -> tuple[SweepRecord, ...]:
    return tuple(
        SweepRecord(
            at=str(sweep["at"]),
            deleted_files=int(sweep["deleted_files"]),
            deleted_bytes=int(sweep["deleted_bytes"]),
            actions=tuple((str(each["run_id"]), str(each["action"])) for each in sweep["actions"]),
        )
        for sweep in stored
    )
