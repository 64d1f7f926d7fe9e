"""A place for the recorder to save to: it keeps what arrives, fails when told to, and plans a resume."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Event
from typing import Any, TypeVar

import orjson

from holdfast.errors import UnknownRun
from holdfast.format.checkpoint import Draft, Envelope, draft_from_mapping, stamp
from holdfast.format.moments import format_moment
from holdfast.format.receipt import Persistence, Progress, Receipt
from holdfast.recorder import Options, Recorder, Storage
from holdfast.styles.resume import ResumePlan, plan_resume
from tests.fakes.clock import VirtualClock
from tests.fakes.spooling import new_id

RecorderT = TypeVar("RecorderT", bound=Recorder)


class Outage(Exception):
    """What goes wrong in the work."""


class Shelf:
    """Keeps checkpoints in memory, numbered as a spool would."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.envelopes: list[Envelope] = []
        self.failure: Exception | None = None
        self.drained = 0
        self.memory_mb = 100.0

    def draft(self, checkpoint: Mapping[str, Any]) -> Draft:
        return draft_from_mapping(checkpoint, now=format_moment(self.clock.now()), new_id=new_id)

    def put(self, draft: Draft) -> Receipt:
        if self.failure is not None:
            raise self.failure
        sequence = len(self.envelopes) + 1
        self.envelopes.append(stamp(draft.body(sequence)))
        path = f"checkpoints/{draft.run_id}/cp_{sequence:03d}_{draft.trigger}.json"
        return Receipt(
            draft.checkpoint_id, draft.run_id, sequence, Progress.SPOOLED, Persistence.NORMAL, path
        )

    def resume(
        self,
        run_id: str,
        *,
        at: int | str | None = None,
        active_lessons: Sequence[Any] | None = None,
        dag: Any = None,
    ) -> ResumePlan:
        if not self.envelopes:
            raise UnknownRun(run_id)
        return plan_resume(
            self.envelopes[-1 if at is None else int(at) - 1],
            source="spool",
            earlier=self.envelopes[-2::-1],
            active_lessons=active_lessons,
            dag=dag,
        )

    def drain(self) -> None:
        self.drained += 1

    def open(self, kind: type[RecorderT], **choices: Any) -> RecorderT:
        """Return a run that saves here, in the foreground alone unless asked otherwise."""
        # Looked up at each call, so that a test may replace one while the run is open.
        storage = Storage(
            draft=lambda checkpoint: self.draft(checkpoint),
            put=lambda draft: self.put(draft),
            resume=self.resume,
            drain=lambda: self.drain(),
            clock=self.clock,
            memory_mb=lambda: self.memory_mb,
        )
        pause = choices.pop("pause", Event.wait)
        chosen = {"autosave_s": None, "handle_signals": False, **choices}
        return kind("build-42", storage, replace(Options(), **chosen), pause=pause)

    @property
    def saved(self) -> list[dict[str, Any]]:
        return [orjson.loads(envelope.content) for envelope in self.envelopes]

    @property
    def newest(self) -> dict[str, Any]:
        return self.saved[-1]

    @property
    def triggers(self) -> list[str]:
        return [checkpoint["trigger"] for checkpoint in self.saved]

    @property
    def progress(self) -> dict[str, Any]:
        progress: dict[str, Any] = self.newest["state_snapshot"]["progress"]
        return progress
