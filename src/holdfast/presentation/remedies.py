"""What can be done about an error, in the terms of each door: a command, or a call of the HTTP API."""

from collections.abc import Mapping
from typing import NamedTuple

from holdfast.errors import HoldfastError, Remedy, RemedyKind


class _Words(NamedTuple):
    """One remedy, for who types commands and for who calls the sidecar."""

    command: str
    call: str


_REMEDIES: Mapping[RemedyKind, _Words] = {
    "runs": _Words("see holdfast runs", "see GET /v1/runs"),
    "checkpoints": _Words("see holdfast list {run_id}", "see GET /v1/runs/{run_id}/checkpoints"),
    "summary": _Words("see holdfast show {run_id}", "see GET /v1/runs/{run_id}"),
    "set_aside": _Words("see holdfast status", "see GET /v1/status"),
    "force": _Words("--force does that", "?force=true does that"),
    "review": _Words(
        "holdfast review {run_id} --decision continue, retry or stop",
        "POST /v1/runs/{run_id}/review with the decision continue, retry or stop",
    ),
    "fork": _Words("holdfast fork {run_id} AT NEW_RUN", "POST /v1/runs/{run_id}/fork"),
}


def command_of(remedy: Remedy) -> str:
    """Return what to type."""
    return _REMEDIES[remedy.kind].command.format(run_id=remedy.run_id)


def tell_with_command(error: HoldfastError) -> str:
    """Return an error with what to type about it, as far as there is anything."""
    return f"{error}; {command_of(error.remedy)}" if error.remedy else str(error)


def call_of(error: HoldfastError) -> str:
    """Return what to ask the sidecar for after an error; nothing if that would be of no use."""
    return _REMEDIES[error.remedy.kind].call.format(run_id=error.remedy.run_id) if error.remedy else ""
