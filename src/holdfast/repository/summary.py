"""The summary: the minimal record that is left of an archived run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from holdfast.errors import IntegrityFailure
from holdfast.format.checkpoint import Envelope
from holdfast.format.completion import KEEP, RETENTION
from holdfast.styles.resume import plan_resume, style_of


@dataclass(frozen=True, slots=True)
class Summary:
    """The specification's seven fields, no more."""

    run_id: str
    started_at: str
    completed_at: str
    phases_completed: int
    final_status: str
    total_cost_usd: int | float
    errors_count: int

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        return orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


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

    def summarise(self, run_id: str, started_at: str) -> Summary:
        """Return what is left of the run once its checkpoints are gone."""
        return Summary(
            run_id=run_id,
            started_at=started_at,
            completed_at=self.timestamp,
            phases_completed=self.phases_completed,
            final_status=self.status,
            total_cost_usd=self.cost,
            errors_count=self.errors_count,
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
        is_kept=isinstance(context, dict) and context.get(RETENTION) == KEEP,
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
        )
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityFailure(path, f"it is not a summary: {error!r}") from error


def _as_number(value: object) -> int | float:
    """Return a number that JSON's usual readers take; a checkpoint's own may have any number of digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return value if isinstance(value, float) or abs(value) < 2**53 else float(value)
