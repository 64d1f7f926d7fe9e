"""Fills spools quickly: many checkpoints with one sync, through the spool's own door."""

from uuid import uuid4

from benchmarks.states import encode, make_state
from holdfast.assembly import Assembly
from holdfast.format.checkpoint import Draft, draft_from_text
from holdfast.settings import Settings

_CHUNK = 500
_MOMENT = "2026-03-01T12:00:00.000Z"


def fill_spool(settings: Settings, *, checkpoints: int, runs: int, size: str) -> None:
    """Spool this many checkpoints, of so many runs in turn."""
    state = encode(make_state(size))
    assembly = Assembly(settings)
    try:
        for start in range(0, checkpoints, _CHUNK):
            numbers = range(start, min(start + _CHUNK, checkpoints))
            assembly.spool.put_all([_draft(f"run-{number % runs}", state) for number in numbers])
    finally:
        assembly.close()


def _draft(run_id: str, state: bytes) -> Draft:
    text = b'{"trigger":"manual","phase":"phase_1_plan","state":%b}' % state
    return draft_from_text(text, now=_MOMENT, new_id=lambda: str(uuid4()), run_id=run_id)
