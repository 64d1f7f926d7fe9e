"""Saving checkpoints: check, fill in, put into the spool, and tell how far the way to GitHub is open."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from holdfast.assembly import Assembly
from holdfast.assembly.ground import Ground
from holdfast.drain.needs import least_need
from holdfast.drain.notes import OUTAGE_NOTE
from holdfast.errors import (
    CheckpointTooLarge,
    DatabaseAway,
    DecisionRefused,
    Fenced,
    HoldfastError,
    InvalidCheckpoint,
    Remedy,
)
from holdfast.format.checkpoint import Draft, draft_from_mapping, draft_from_text
from holdfast.format.header import RunStatus
from holdfast.format.moments import format_moment
from holdfast.format.receipt import Persistence, Progress, Receipt
from holdfast.format.triggers import Priority, Trigger
from holdfast.library.reading import Reading, parse_run_name
from holdfast.logs import log
from holdfast.settings import MOST_BYTES, Settings
from holdfast.tracing import traces

if TYPE_CHECKING:
    from pydantic import BaseModel

    from holdfast.claims.holding import HeldClaim
    from holdfast.importing.importer import Import
    from holdfast.queue.transfer import ImportReport

# How old the answer to "is the way to GitHub open?" may be: looking costs more than the rest of a save.
LOOK_EVERY_S = 1.0
SAVE_SPAN = "holdfast.save"
WARNED_BYTES = 500 * 1024
_SHOWN_PLACES = 20


class Saving(Reading):
    """Checkpoints go into the spool, and are safe once a receipt is returned."""

    def __init__(self, settings: Settings, *, assembly: Ground | None = None) -> None:
        super().__init__(settings, assembly=assembly)
        self.on_spooled: Callable[[Receipt], None] | None = None
        """Told of every single checkpoint that was put into the spool."""
        self._looked_at = float("-inf")
        self._is_delayed: dict[Assembly, dict[bool, bool]] = {}
        self._held: dict[str, HeldClaim] = {}
        self._fences: dict[str, int] = {}
        self._has_said_disabled = False

    def save(
        self,
        run_id: str,
        state: Any,
        *,
        trigger: str | Trigger = Trigger.MANUAL,
        phase: str | None = None,
        status: str | RunStatus | None = None,
        priority: str | Priority | None = None,
        workflow: str | None = None,
        context: Mapping[str, Any] | None = None,
        checkpoint_id: str | None = None,
    ) -> Receipt:
        """Save the state of a run; return once it is on disk.

        Raises InvalidCheckpoint with the place and the reason, SpoolError when the disk refuses.
        """
        checkpoint = {
            "checkpoint_id": checkpoint_id,
            "run_id": run_id,
            "trigger": trigger,
            "phase": phase,
            "status": status,
            "priority": priority,
            "workflow": workflow,
            "state": state,
        }
        if context is not None:
            checkpoint["context_fields"] = dict(context)
        return self.submit(checkpoint)

    def submit(
        self, checkpoint: "Mapping[str, Any] | BaseModel | bytes", *, run_id: str | None = None
    ) -> Receipt:
        """Save a whole checkpoint, or its short form; return once it is on disk.

        Bytes are taken as JSON text and kept as they are. Raises like `save`, and CheckpointChanged
        when its checkpoint_id is known with other content.
        """
        if traces.is_on:
            with traces.span(SAVE_SPAN):
                return self._put(self.draft(checkpoint, run_id=run_id))
        draft = self.draft(checkpoint, run_id=run_id)
        del checkpoint  # a large one is then in memory once less while it is written
        return self._put(draft)

    def draft(
        self,
        checkpoint: "Mapping[str, Any] | BaseModel | bytes",
        *,
        run_id: str | None = None,
        checkpoint_id: str | None = None,
    ) -> Draft:
        """Check a checkpoint, fill in what it lacks, take credentials out and seal it; save nothing.

        A checkpoint that names no id gets `checkpoint_id`, as if its caller had named it. Raises
        InvalidCheckpoint.
        """
        draft = self._check(checkpoint, run_id, checkpoint_id)
        return self._assembly.keyring.seal(self._assembly.redactor.redact(draft))

    def _check(
        self,
        checkpoint: "Mapping[str, Any] | BaseModel | bytes",
        run_id: str | None,
        checkpoint_id: str | None,
    ) -> Draft:
        now = format_moment(self._assembly.clock.now())
        if isinstance(checkpoint, bytes):
            self._check_size(len(checkpoint))
            return draft_from_text(
                checkpoint, now=now, new_id=_new_id, run_id=run_id, checkpoint_id=checkpoint_id
            )
        mapping = checkpoint if isinstance(checkpoint, Mapping) else _dump_model(checkpoint)
        draft = draft_from_mapping(
            mapping, now=now, new_id=_new_id, run_id=run_id, checkpoint_id=checkpoint_id
        )
        self._check_size(draft.size_bytes)
        return draft

    def redact_text(self, text: str) -> str:
        """Return a text without credentials, as far as HOLDFAST_REDACT asks; the same one if it has none."""
        return self._assembly.redactor.redact_text(text)

    def submit_all(self, drafts: Sequence[Draft]) -> list[Receipt | HoldfastError]:
        """Save many checkpoints with one sync; one that is refused has its error in place of a receipt.

        Raises SpoolUnwritable if none of them could be stored.
        """
        return self._put_all(drafts)

    def complete(
        self, run_id: str, status: str | RunStatus = RunStatus.COMPLETED, *, keep: bool = False
    ) -> Receipt:
        """End a run with a final checkpoint that carries its newest state on; return once it is on disk.

        `keep` marks it so that it is not deleted on success. A run that has ended in this way already is left
        as it is. Clean up after the next drain. Raises UnknownRun, InvalidCheckpoint for another status, and
        DecisionRefused where it is to be a success but waits for a review, or one has stopped it.
        """
        from holdfast.format.completion import is_final, write_final

        wanted = _parse_final_status(status)
        if not self._assembly.settings.enabled:
            return self._disabled(_new_id(), run_id)
        if wanted is RunStatus.COMPLETED:
            self._refuse_stopped(run_id, is_end=True)
        newest = self.checkpoint(run_id)
        if not is_final(newest, wanted, is_kept=keep):
            return self.submit(write_final(newest, wanted, is_kept=keep))
        return self.receipt(newest.checkpoint_id) or Receipt(
            checkpoint_id=newest.checkpoint_id,
            run_id=run_id,
            sequence_number=newest.sequence,
            status=Progress.VERIFIED,
            persistence=Persistence.NORMAL,
            file_path=self._assembly.layout.checkpoint_path(run_id, newest.sequence, newest.header.trigger),
        )

    def _refuse_stopped(self, run_id: str, *, is_end: bool = False) -> None:
        """Raise DecisionRefused if a review has stopped the run, or must decide before it can end well."""
        from holdfast.format.review import Review, Stop
        from holdfast.styles.review import tell_review, tell_stop

        _, held = self._reader(parse_run_name(run_id)).load_reviewed(run_id)
        if isinstance(held, Stop):
            raise DecisionRefused("stopped", tell_stop(held), Remedy("fork", run_id))
        if is_end and isinstance(held, Review):
            raise DecisionRefused("waits_for_review", tell_review(held), Remedy("review", run_id))

    def import_spool(self, folder: Path) -> "ImportReport":
        """Take in what `export_spool` wrote, here or elsewhere; doing it again changes nothing."""
        from holdfast.queue.transfer import import_spool

        return import_spool(self._assembly.spool, folder, self.draft)

    def import_checkpoints(
        self, sources: Iterable[tuple[str, bytes]], *, run_id: str | None = None
    ) -> list["Import"]:
        """Take in checkpoints of other systems, given as file names and contents; tell what became of each.

        `run_id` is for those that name no run. Doing it again changes nothing.
        """
        from holdfast.importing.importer import Importer

        return Importer(self.submit, self.receipt).take_in(sources, run_id=run_id)

    def _put(self, draft: Draft) -> Receipt:
        """Save a draft that was made for this call alone."""
        if traces.is_on:
            if not traces.is_within(SAVE_SPAN):
                with traces.span(SAVE_SPAN):
                    return self._put(draft)
            traces.tell(**describe_draft(draft))
            draft = draft.within_trace(traces.traceparent())
        (outcome,) = self._put_all([draft], are_new=True)
        if isinstance(outcome, HoldfastError):
            raise outcome
        if self.on_spooled and outcome.status is Progress.SPOOLED:
            self.on_spooled(outcome)
        return outcome

    def _put_all(self, drafts: Sequence[Draft], *, are_new: bool = False) -> list[Receipt | HoldfastError]:
        if not self._assembly.settings.enabled:
            return [self._disabled(draft.checkpoint_id, draft.run_id) for draft in drafts]
        if self._held or self._fences or any(draft.header.fence for draft in drafts):
            return self._put_fenced(drafts, are_new=are_new)
        return self._put_admitted(drafts, are_new=are_new)

    def _disabled(self, checkpoint_id: str, run_id: str) -> Receipt:
        """Answer a save where nothing is stored, and say once that it is so."""
        if not self._has_said_disabled:
            self._has_said_disabled = True
            log.warning("saves_disabled", advice="Nothing is stored, because HOLDFAST_ENABLED is false.")
        return Receipt(checkpoint_id, run_id, 0, Progress.DISABLED, Persistence.NORMAL, file_path="")

    def _put_fenced(self, drafts: Sequence[Draft], *, are_new: bool) -> list[Receipt | HoldfastError]:
        """Save what is not too late; what is has Fenced in place of a receipt."""
        told: list[Draft | Fenced] = [self._fence(draft) for draft in drafts]
        admitted = [each for each in told if isinstance(each, Draft)]
        outcomes = iter(self._put_admitted(admitted, are_new=are_new) if admitted else ())
        return [each if isinstance(each, Fenced) else next(outcomes) for each in told]

    def _fence(self, draft: Draft) -> Draft | Fenced:
        """Return a checkpoint with the fence of our claim; Fenced if its run is not its sender's any more.

        No judge is asked: a claim knows by itself when it may be lost, and others are known by the spool.
        """
        held = self._held.get(draft.run_id)
        fence = draft.header.fence or self._fences.get(draft.run_id)
        try:
            if held and fence in (None, held.fence):
                held.check()
                return draft.with_fence(held.fence)
            if fence:
                self._assembly.home(draft.run_id).known_claims.admit(draft.run_id, fence)
                return draft.with_fence(fence)
        except Fenced as error:
            # What was accepted before is answered as it was then.
            return draft if self.receipt(draft.checkpoint_id) else error
        return draft

    def _put_admitted(self, drafts: Sequence[Draft], *, are_new: bool) -> list[Receipt | HoldfastError]:
        persistence = self._persistence(drafts)
        outcomes = self._assembly.spool.put_all(drafts, persistence=persistence, are_new=are_new)
        _warn_of_delay(drafts, outcomes)
        return [_tell(draft, outcome) for draft, outcome in zip(drafts, outcomes, strict=True)]

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > MOST_BYTES:
            raise CheckpointTooLarge(size_bytes, MOST_BYTES)
        if size_bytes > WARNED_BYTES:
            log.warning(
                "checkpoint_large", size_bytes=size_bytes, advice="Small ones are quicker and cheaper."
            )

    def _persistence(self, drafts: Sequence[Draft]) -> Persistence:
        """Return how `drafts` get to GitHub, at once or delayed, from what the last drain found out.

        The last of a limit is open to critical ones alone.
        """
        now = self._assembly.clock.now()
        if not 0 <= now - self._looked_at < LOOK_EVERY_S:
            self._is_delayed = {}
            self._looked_at = now
        is_delayed = any(self._way_of(draft)[draft.priority is Priority.CRITICAL] for draft in drafts)
        return Persistence.DELAYED if is_delayed else Persistence.NORMAL

    def _way_of(self, draft: Draft) -> dict[bool, bool]:
        shard = self._assembly.intake(draft.run_id)
        if shard not in self._is_delayed:
            self._is_delayed[shard] = _look_at_way(shard)
        return self._is_delayed[shard]


def _look_at_way(shard: Assembly) -> dict[bool, bool]:
    """Return, for critical checkpoints (True) and for others (False), whether the way to GitHub is closed."""
    with suppress(DatabaseAway):  # told by the spool, which keeps them meanwhile, or refuses them
        if not (shard.spool.trouble() or OUTAGE_NOTE in shard.spool.notes()):
            return shard.rate_limiter.blocked_by_urgency(least_need(shard.settings.write_mode))
    return {True: True, False: True}


def _warn_of_delay(drafts: Sequence[Draft], outcomes: Sequence[Receipt | HoldfastError]) -> None:
    """Say that checkpoints wait for GitHub: once for all that were saved together, naming the first."""
    delayed = [
        (draft, outcome)
        for draft, outcome in zip(drafts, outcomes, strict=True)
        if isinstance(outcome, Receipt)
        and outcome.persistence is Persistence.DELAYED
        and outcome.status is Progress.SPOOLED
    ]
    if delayed:
        draft, first = delayed[0]
        log.warning(
            "persistence_delayed",
            run_id=first.run_id,
            checkpoint_id=first.checkpoint_id,
            priority=draft.priority.value,
            checkpoints=len(delayed),
        )


def _tell(draft: Draft, outcome: Receipt | HoldfastError) -> Receipt | HoldfastError:
    """Return what the caller is told of its checkpoint; those who listen hear of it as well."""
    if isinstance(outcome, HoldfastError):
        return outcome
    identity = {"run_id": outcome.run_id, "checkpoint_id": outcome.checkpoint_id}
    if log.wants("info"):
        number = outcome.sequence_number
        log.info("checkpoint_saved", **identity, sequence_number=number, trigger=draft.trigger.value)
    if not draft.redacted:
        return outcome
    places = [f"{place.path} ({place.kind})" for place in draft.redacted]
    log.warning(
        "checkpoint_redacted",
        **identity,
        places=places[:_SHOWN_PLACES],
        number=len(places),
        advice="Store a reference to a credential, not the credential.",
    )
    return replace(outcome, redacted=draft.redacted)


def describe_draft(draft: Draft) -> dict[str, str | int]:
    """Return what a span says of the checkpoint that is saved within it."""
    return {
        "holdfast.run_id": draft.run_id,
        "holdfast.checkpoint_id": draft.checkpoint_id,
        "holdfast.trigger": draft.trigger.value,
        "holdfast.bytes": draft.size_bytes,
    }


def _parse_final_status(status: str | RunStatus) -> RunStatus:
    """Return the status that a run can end with. Raises InvalidCheckpoint."""
    if status in (RunStatus.COMPLETED, RunStatus.FAILED):
        return RunStatus(status)
    raise InvalidCheckpoint("status", f"{status!r} does not end a run; use completed or failed")


def _new_id() -> str:
    return str(uuid4())


def _dump_model(checkpoint: object) -> Mapping[str, Any]:
    """Return what a model of pydantic holds, without loading that. Raises InvalidCheckpoint."""
    dump = getattr(checkpoint, "model_dump", None)
    if dump is None:
        kind = type(checkpoint).__name__
        raise InvalidCheckpoint(
            "checkpoint", f"it is of type {kind}; give a mapping, a model, or JSON as bytes"
        )
    dumped: Mapping[str, Any] = dump()
    return dumped
