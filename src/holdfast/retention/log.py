"""The log of what retention did, bounded, and what it still knows of runs whose index is gone."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import orjson

MAX_SWEEPS = 50
MAX_ACTIONS = 1000
MAX_RECORDS = 5000


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
    """What `retention_log.json` holds, the newest sweep first."""

    sweeps: tuple[SweepRecord, ...] = ()
    records: Mapping[str, RunRecord] = field(default_factory=dict)

    def after(self, sweep: SweepRecord, records: Mapping[str, RunRecord]) -> "RetentionLog":
        """Return the log with one more sweep, cut to its bounds."""
        room = MAX_ACTIONS
        sweeps = []
        for each in (sweep, *self.sweeps)[:MAX_SWEEPS]:
            sweeps.append(replace(each, actions=each.actions[:room]))
            room -= len(sweeps[-1].actions)
        newest = sorted(records.items(), key=lambda item: item[1].last_written, reverse=True)[:MAX_RECORDS]
        return RetentionLog(tuple(sweeps), dict(sorted(newest)))

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        document = {
            "format_version": 1,
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


def parse_log(content: bytes) -> RetentionLog | None:
    """Return the log that a file holds; None if it is damaged."""
    try:
        stored = orjson.loads(content)
        records = {
            str(run_id): RunRecord(str(record["started_at"]), str(record["last_written"]))
            for run_id, record in stored["runs"].items()
        }
        return RetentionLog(_parse_sweeps(stored["sweeps"]), records)
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
