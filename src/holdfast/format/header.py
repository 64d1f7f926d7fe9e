"""The header of a checkpoint: everything but the state itself, each value checked.

In a body it comes first, so that it can be read without the rest.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from holdfast import checks
from holdfast.errors import InvalidCheckpoint
from holdfast.format.ids import parse_checkpoint_id, parse_run_id, parse_timestamp
from holdfast.format.paths import MAX_SEQUENCE
from holdfast.format.state import Fault
from holdfast.format.triggers import Priority, Trigger, parse_trigger
from holdfast.format.versions import FORMAT_VERSION

UNNAMED_PHASE = "unspecified"
FENCE = "fence"
"""The member that a checkpoint of a claimed run carries: the newest claim has the highest."""

# The first member after the header. Header values are scalars and a quote inside a JSON string is
# always escaped, so the first place where these bytes occur is where the header ends.
HEADER_END = b',"state_snapshot":'

HEADER_FIELDS = (
    "format_version",
    "checkpoint_id",
    "run_id",
    "timestamp",
    "trigger",
    "phase",
    "sequence_number",
    "status",
    "priority",
    "workflow",
)


class RunStatus(StrEnum):
    """How the run stands; all but `completed` can be resumed."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Header:
    """Everything of a checkpoint but the state itself."""

    checkpoint_id: str
    run_id: str
    timestamp: str
    trigger: Trigger
    priority: Priority
    format_version: int = FORMAT_VERSION
    phase: str = UNNAMED_PHASE
    sequence_number: int | None = None
    status: RunStatus = RunStatus.IN_PROGRESS
    workflow: str | None = None
    fence: int | None = None


HEADER_MEMBERS = frozenset({*HEADER_FIELDS, FENCE})


def _version(version: object) -> int:
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise ValueError(f"format {version} is newer than this Holdfast reads ({FORMAT_VERSION}); upgrade it")
    checked: int = checks.whole_number(least=1)(version)
    return checked


def _trigger(name: object) -> Trigger:
    trigger: Trigger = parse_trigger(name) if isinstance(name, str) else checks.member_of(Trigger)(name)
    return trigger


def _parsed(parse: Callable[[str], str]) -> Callable[[object], str]:
    check = checks.text()
    return lambda value: parse(check(value))


_number = checks.whole_number(least=1, most=MAX_SEQUENCE)
_HEADER_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "format_version": _version,
    "checkpoint_id": _parsed(parse_checkpoint_id),
    "run_id": _parsed(parse_run_id),
    "timestamp": _parsed(parse_timestamp),
    "trigger": _trigger,
    "phase": checks.text(least=1, most=256),
    "sequence_number": _number,
    "status": checks.member_of(RunStatus),
    "priority": checks.member_of(Priority),
    "workflow": checks.text(most=1024),
    FENCE: _number,
}
_REQUIRED = frozenset({"checkpoint_id", "run_id", "timestamp", "trigger", "priority"})


def read_header(body: bytes) -> Header:
    """Return the header of a body that `Draft.body` made."""
    end = body.index(HEADER_END)
    return check_header(header_values(orjson.loads(body[:end] + b"}")))


def header_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the header's values as given; null is as good as left out."""
    given = {name: values[name] for name in HEADER_FIELDS if values.get(name) is not None}
    if values.get(FENCE) is not None:
        given[FENCE] = values[FENCE]
    return given


def check_header(values: Mapping[str, Any]) -> Header:
    """Return the header with these values, or refuse them with every field that is wrong."""
    checked: dict[str, Any] = {}
    faults: list[Fault] = []
    for name, check in _HEADER_CHECKS.items():
        if name not in values:
            if name in _REQUIRED:
                faults.append(((name,), "Field required"))
            continue
        try:
            checked[name] = check(values[name])
        except ValueError as error:
            faults.append(((name,), str(error)))
    refuse_faults(faults)
    return Header(**checked)


def refuse_faults(faults: Sequence[Fault]) -> None:
    """Raise InvalidCheckpoint with the place and the reason of the first fault, the others behind it."""
    if faults:
        (place, reason), *others = [(_place(place), reason) for place, reason in faults]
        also = "".join(f"; {where}: {why}" for where, why in others)
        raise InvalidCheckpoint(place, reason + also)


def _place(location: tuple[int | str, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".")
