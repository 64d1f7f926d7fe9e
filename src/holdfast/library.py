"""The library: what a Python program saves its checkpoints with."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, overload
from uuid import uuid4

from pydantic import BaseModel

from holdfast.assembly import Assembly
from holdfast.drain.chunks import least_need
from holdfast.drain.outage import NOTE
from holdfast.errors import CheckpointTooLarge, HoldfastError, InvalidCheckpoint, SpoolBusy, Stopped
from holdfast.format.checkpoint import Draft, Envelope, RunStatus, draft_from_mapping, draft_from_text
from holdfast.format.ids import parse_run_id
from holdfast.format.moments import format_moment
from holdfast.format.receipt import Persistence, Progress, Receipt
from holdfast.format.triggers import Priority, Trigger
from holdfast.logs import configure_logs, log
from holdfast.queue import ImportReport, Manifest, export_spool, import_spool
from holdfast.settings import MOST_BYTES, Settings

if TYPE_CHECKING:
    from holdfast.drain.worker import DrainResult
    from holdfast.format.index import Index
    from holdfast.importing.importer import Import
    from holdfast.recorder import (
        AgentsRun,
        LayersRun,
        PhasesRun,
        Recorder,
        RunOptions,
        StepsRun,
        TasksRun,
    )
    from holdfast.repository.findings import Report
    from holdfast.repository.reader import RunSummary
    from holdfast.retention import SquashReport, SweepReport
    from holdfast.styles.diff import Patch
    from holdfast.styles.replay import Story
    from holdfast.styles.resume import ResumePlan

# How old the answer to "is the way to GitHub open?" may be: looking costs more than the rest of a save.
LOOK_EVERY_S = 1.0
WARNED_BYTES = 500 * 1024

BUSY_POLL_S = 0.1


class Holdfast:
    """Durable checkpoints for one repository. Use it as a context manager, or close it.

    Saving returns as soon as the checkpoint is safe on the local disk, whatever GitHub does; `drain`, or a
    sidecar on the same data folder, takes it to the repository.
    """

    def __init__(self, settings: Settings, *, assembly: Assembly | None = None) -> None:
        self._assembly = assembly or Assembly(settings)
        self._looked_at = float("-inf")
        self._is_delayed = {True: False, False: False}

    @classmethod
    def from_env(cls) -> Self:
        """Return one that is set up by HOLDFAST_… variables. Raises InvalidSettings.

        Unless the program has set up structlog itself, events go to standard error, warnings and above.
        """
        settings = Settings.from_environment(os.environ)
        level = settings.log_level if "log_level" in settings.sources else "warning"
        configure_logs(settings.log_format, level, secrets=settings.secrets, is_default=True)
        return cls(settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every file and connection. What is spooled stays spooled."""
        self._assembly.close()

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
        self, checkpoint: Mapping[str, Any] | BaseModel | bytes, *, run_id: str | None = None
    ) -> Receipt:
        """Save a whole checkpoint, or its short form; return once it is on disk.

        Bytes are taken as JSON text and kept as they are. Raises like `save`, and CheckpointChanged
        when its checkpoint_id is known with other content.
        """
        draft = self.draft(checkpoint, run_id=run_id)
        del checkpoint  # a large one is then in memory once less while it is written
        return self._put(draft)

    def draft(
        self,
        checkpoint: Mapping[str, Any] | BaseModel | bytes,
        *,
        run_id: str | None = None,
        checkpoint_id: str | None = None,
    ) -> Draft:
        """Check a checkpoint and fill in what it lacks, without saving it. Raises InvalidCheckpoint.

        A checkpoint that names no id gets `checkpoint_id`, as if its caller had named it.
        """
        now = format_moment(self._assembly.clock.now())
        if isinstance(checkpoint, bytes):
            self._check_size(len(checkpoint))
            return draft_from_text(
                checkpoint, now=now, new_id=_new_id, run_id=run_id, checkpoint_id=checkpoint_id
            )
        mapping = checkpoint.model_dump() if isinstance(checkpoint, BaseModel) else checkpoint
        draft = draft_from_mapping(
            mapping, now=now, new_id=_new_id, run_id=run_id, checkpoint_id=checkpoint_id
        )
        self._check_size(draft.size_bytes)
        return draft

    def submit_all(self, drafts: Sequence[Draft]) -> list[Receipt | HoldfastError]:
        """Save many checkpoints with one sync; one that is refused has its error in place of a receipt.

        Raises SpoolUnwritable if none of them could be stored.
        """
        return self._put_all(drafts)

    def _put_all(self, drafts: Sequence[Draft], *, are_new: bool = False) -> list[Receipt | HoldfastError]:
        persistence = self._persistence(drafts)
        outcomes = self._assembly.spool.put_all(drafts, persistence=persistence, are_new=are_new)
        for draft, receipt in zip(drafts, outcomes, strict=True):
            if isinstance(receipt, HoldfastError) or receipt.persistence is Persistence.NORMAL:
                continue
            if receipt.status is Progress.SPOOLED:
                log.warning(
                    "persistence_delayed",
                    run_id=receipt.run_id,
                    checkpoint_id=receipt.checkpoint_id,
                    priority=draft.priority.value,
                )
        return outcomes

    def drain(self, *, timeout_s: float = 0.0) -> "DrainResult":
        """Write what is spooled to the repository; wait for limits to reset for `timeout_s` at most.

        Raises SpoolBusy when another process is draining.
        """
        return self._assembly.worker.drain(patience_s=timeout_s)

    @overload
    def run(
        self, run_id: str, *, style: Literal["phases"] = "phases", **options: Unpack["RunOptions"]
    ) -> "PhasesRun": ...
    @overload
    def run(
        self, run_id: str, *, style: Literal["layers"], **options: Unpack["RunOptions"]
    ) -> "LayersRun": ...
    @overload
    def run(
        self, run_id: str, *, style: Literal["agents"], **options: Unpack["RunOptions"]
    ) -> "AgentsRun": ...
    @overload
    def run(self, run_id: str, *, style: Literal["tasks"], **options: Unpack["RunOptions"]) -> "TasksRun": ...
    @overload
    def run(self, run_id: str, *, style: Literal["steps"], **options: Unpack["RunOptions"]) -> "StepsRun": ...
    def run(self, run_id: str, *, style: str = "phases", **options: Unpack["RunOptions"]) -> "Recorder":
        """Return a run that saves its checkpoints by itself. See RunOptions for what may be chosen.

        Raises InvalidCheckpoint if the run or the style cannot be called that.
        """
        from holdfast.recorder import Options, Storage, open_run

        storage = Storage(
            draft=self.draft,
            put=self._put,
            resume=self.resume,
            drain=self.drain,
            clock=self._assembly.clock,
        )
        return open_run(run_id, style, storage, Options(**options))

    def complete(
        self, run_id: str, status: str | RunStatus = RunStatus.COMPLETED, *, keep: bool = False
    ) -> Receipt:
        """End a run with a final checkpoint that carries its newest state on; return once it is on disk.

        `keep` marks it so that it is not deleted on success. A run that has ended in this way already is left
        as it is. Clean up after the next drain. Raises UnknownRun, and InvalidCheckpoint for another status.
        """
        from holdfast.format.completion import is_final, write_final

        wanted = _parse_final_status(status)
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

    def cleanup(self, *, dry_run: bool = False) -> "SweepReport":
        """Clean up the repository by the rules of the settings, or say what that would do.

        The report of a sweep that was cut short has a `rest_because`. Raises SweepBusy when another process
        is at it, Throttled when the budget is low.
        """
        sweeper = self._assembly.sweeper
        return sweeper.plan() if dry_run else sweeper.sweep()

    def squash_history(self, *, keep_days: float | None = None, force: str = "") -> "SquashReport":
        """Rewrite the branch so that what was deleted is no longer in its history. Raises Refused.

        `force` must name the branch if it is the repository's default one.
        """
        return self._assembly.squash.run(keep_days=keep_days, forced_branch=force)

    def preserve(self, run_id: str) -> bool:
        """Keep a run from ever being cleaned up; return whether that is new."""
        return self._assembly.preserved.add(_parse_run_name(run_id))

    def unpreserve(self, run_id: str) -> bool:
        """Let a run be cleaned up again; return whether it was preserved."""
        return self._assembly.preserved.remove(_parse_run_name(run_id))

    def receipt(self, checkpoint_id: str) -> Receipt | None:
        """Return how far a checkpoint has come; None if it is not known here."""
        return self._assembly.spool.receipt(checkpoint_id)

    def runs(self, *, resumable: bool = False, workflow: str | None = None) -> list["RunSummary"]:
        """Return every run, stored or spooled, the one last written to first.

        With `resumable`, those that can be resumed; with `workflow`, those of one by its path or its name.
        """
        return self._assembly.reader.list_runs(is_resumable=resumable, workflow=workflow)

    def checkpoints(self, run_id: str) -> "Index":
        """Return every checkpoint of a run, stored or spooled. Raises UnknownRun."""
        return self._assembly.reader.list_checkpoints(run_id)

    def checkpoint(self, run_id: str, sequence: int | None = None) -> Envelope:
        """Return one checkpoint, the newest unless numbered. Raises UnknownRun, IntegrityFailure."""
        return self._assembly.reader.read_checkpoint(run_id, sequence)

    def resume(
        self,
        run_id: str,
        *,
        at: int | None = None,
        active_lessons: Sequence[Any] | None = None,
        dag: Any = None,
    ) -> "ResumePlan":
        """Return where a run goes on: from its newest good checkpoint, or from the one numbered `at`.

        What is spooled here is newer than what GitHub has. `active_lessons` and `dag` are what is in force
        now; where they differ from what was stored, the plan warns. Raises UnknownRun, IntegrityFailure when
        nothing good is left, GatewayError when GitHub is away and nothing of the run is known here.
        """
        return self._assembly.reader.resume(run_id, at=at, active_lessons=active_lessons, dag=dag)

    def validate(self, run_id: str) -> "Report":
        """Return everything that is wrong with a run: files, integrity, index, numbers, parts, spool.

        Raises UnknownRun, and GatewayError when GitHub is away and nothing of the run is known here.
        """
        from holdfast.repository.validate import Validator

        return Validator(self._assembly.reader).check_run(run_id)

    def diff(self, run_id: str, first: int, second: int) -> "Patch":
        """Return what turns one checkpoint of a run into another, by their numbers.

        Raises UnknownRun, IntegrityFailure.
        """
        from holdfast.styles.diff import compare

        return compare(self.checkpoint(run_id, first).content, self.checkpoint(run_id, second).content)

    def replay(self, run_id: str) -> "Story":
        """Return what was decided and what changed at each checkpoint of a run. Raises UnknownRun."""
        from holdfast.styles.replay import Story, replay

        history = self._assembly.reader.history(run_id)
        return Story(run_id, list(replay(history.envelopes)), history.warnings)

    def wait(self, checkpoint_id: str, *, timeout_s: float) -> Receipt | None:
        """Drain until this checkpoint is verified or refused, or wait for the process that drains.

        Returns how far it has come after `timeout_s` at the latest, and earlier if no wait that fits in it
        would help; None if it is not known here.
        """
        clock, stop = self._assembly.clock, self._assembly.stop
        deadline = clock.now() + timeout_s

        def is_done() -> bool:
            return clock.now() >= deadline or self._is_settled(checkpoint_id)

        while not (stop.is_set() or is_done()):
            try:
                self._assembly.worker.drain(patience_s=deadline - clock.now(), is_done=is_done)
                break
            except SpoolBusy:
                clock.sleep(BUSY_POLL_S)
            except Stopped:
                break
        return self.receipt(checkpoint_id)

    def status(self) -> dict[str, Any]:
        """Return the spool, the budget and the last error, without asking GitHub or making anything."""
        from holdfast.status import overview

        return overview(self._assembly)

    def export_spool(self, folder: Path) -> Manifest:
        """Write every unsent checkpoint to `folder`, as a file each. The spool stays as it is."""
        return export_spool(self._assembly.spool, folder)

    def restore(self, checkpoint_ids: Iterable[str] | None = None) -> list[str]:
        """Put set-aside checkpoints back into the line, all of them unless some are named; return their ids.

        Raises UnknownRun for one that is not known, SpoolDamaged for one whose bytes are damaged.
        """
        spool = self._assembly.spool
        ids = checkpoint_ids or [entry.item.checkpoint_id for entry in spool.set_aside_entries()]
        return [spool.restore(checkpoint_id).checkpoint_id for checkpoint_id in ids]

    def import_spool(self, folder: Path) -> ImportReport:
        """Take in what `export_spool` wrote, here or elsewhere; doing it again changes nothing."""
        return import_spool(self._assembly.spool, folder, self.draft)

    def _put(self, draft: Draft) -> Receipt:
        """Save a draft that was made for this call alone."""
        (outcome,) = self._put_all([draft], are_new=True)
        if isinstance(outcome, HoldfastError):
            raise outcome
        return outcome

    def import_checkpoints(
        self, sources: Iterable[tuple[str, bytes]], *, run_id: str | None = None
    ) -> list["Import"]:
        """Take in checkpoints of other systems, given as file names and contents; tell what became of each.

        `run_id` is for those that name no run. Doing it again changes nothing.
        """
        from holdfast.importing.importer import Importer

        return Importer(self.submit, self.receipt).take_in(sources, run_id=run_id)

    def _is_settled(self, checkpoint_id: str) -> bool:
        receipt = self.receipt(checkpoint_id)
        return receipt is None or receipt.status in (Progress.VERIFIED, Progress.REFUSED)

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > MOST_BYTES:
            raise CheckpointTooLarge(size_bytes, MOST_BYTES)
        if size_bytes > WARNED_BYTES:
            log.warning(
                "checkpoint_large", size_bytes=size_bytes, advice="Small ones are quicker and cheaper."
            )

    def _persistence(self, drafts: Sequence[Draft]) -> Persistence:
        """Return whether the way to GitHub is open to all of `drafts`, from what the last drain found out.

        The last of a limit is open to critical ones alone.
        """
        now = self._assembly.clock.now()
        if not 0 <= now - self._looked_at < LOOK_EVERY_S:
            blocked = self._assembly.rate_limiter.blocked_by_urgency(least_need(self._assembly.policy))
            if NOTE in self._assembly.spool.notes():
                blocked = {True: True, False: True}
            self._is_delayed = blocked
            self._looked_at = now
        is_delayed = any(self._is_delayed[draft.priority is Priority.CRITICAL] for draft in drafts)
        return Persistence.DELAYED if is_delayed else Persistence.NORMAL


def _parse_final_status(status: str | RunStatus) -> RunStatus:
    """Return the status that a run can end with. Raises InvalidCheckpoint."""
    if status in (RunStatus.COMPLETED, RunStatus.FAILED):
        return RunStatus(status)
    raise InvalidCheckpoint("status", f"{status!r} does not end a run; use completed or failed")


def _parse_run_name(run_id: str) -> str:
    """Return `run_id` if it can name a run. Raises InvalidCheckpoint."""
    try:
        return parse_run_id(run_id)
    except ValueError as error:
        raise InvalidCheckpoint("run_id", str(error)) from error


def _new_id() -> str:
    return str(uuid4())
