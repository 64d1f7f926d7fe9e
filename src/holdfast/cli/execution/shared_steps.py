"""Steps of one run that several processes record, such as the commands of a shell script.

Each change is made to the newest progress that is known, under a lock of this machine, so that commands that
run at once do not lose each other's steps.
"""

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.clock import Clock
from holdfast.errors import (
    GatewayError,
    HoldfastError,
    InvalidCheckpoint,
    KeyMissing,
    Remedy,
    RemedyKind,
    Stopped,
    UnknownRun,
)
from holdfast.format.checkpoint import Envelope
from holdfast.format.header import RunStatus
from holdfast.format.moments import format_moment
from holdfast.format.receipt import Receipt
from holdfast.format.triggers import Trigger
from holdfast.jsontext.encode import encode
from holdfast.jsontext.members import join_members, parse_document
from holdfast.jsontext.parse import parse_value
from holdfast.locks import byte_locked, locked
from holdfast.queue import Queue
from holdfast.repository.queued import SpooledRun
from holdfast.security.trust import Trust
from holdfast.styles import steps
from holdfast.styles.review_signs import TELLING, has_signs
from holdfast.styles.steps_merge import UNSEEN, is_unseen, mark, merge
from holdfast.styles.style import DEFAULT_STYLE
from holdfast.styles.values import Document, as_list, as_mapping

if TYPE_CHECKING:
    from holdfast.format.header import Header
    from holdfast.format.index import IndexEntry
    from holdfast.format.review import Held
    from holdfast.repository.reader import Reader
    from holdfast.repository.stored_run import StoredRun

# How long a command waits for GitHub's answer.
LOOK_S = 5.0
# Longer than a look at GitHub may take, which another process makes under the lock.
LOCK_S = 10.0
_LONGEST_PHASE = 256

Change = Callable[[Document, int], Document]
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest state that is known: its members as text, and its progress."""

    progress: Document
    members: Mapping[str, bytes] = field(default_factory=dict)
    workflow: str | None = None
    held: "Held | None" = None


@dataclass
class SharedSteps:
    """The steps of a run, as its newest checkpoint has them.

    Only if nothing of the run is spooled here, GitHub is asked, for a few seconds at most, by the `reader`,
    which takes longer to load than all the rest; None stands for it where nothing of the run is stored. The
    `local_reader` asks nobody. `warn` is told in a sentence if GitHub could not be read. What is sealed is
    opened by `trust`; where it has only the public half of a key, what is readable has to do. Every method
    raises HoldfastError.
    """

    run_id: str
    reader: "Callable[[], Reader | None]"
    local_reader: "Callable[[], Reader]"
    spool: Queue
    submit: Callable[[bytes], Receipt]
    folder: Path
    clock: Clock
    warn: Callable[[str], object]
    workflow: str | None = None
    working_directory: str | None = None
    trust: Trust | None = None
    _newest: _Newest | None = None
    _known_sequence: int = 0

    def is_done(self, name: str) -> bool:
        """Whether a step is completed, as far as can be known."""
        return steps.is_done(self._current().progress, name)

    def alone(self, name: str) -> AbstractContextManager[int | None]:
        """Be the only one on this machine that runs this step. Raises SpoolBusy if another does.

        Gives the descriptor of a lock that the step's command may inherit.
        """
        digest = hashlib.sha256(f"{self.run_id}\n{name}".encode()).digest()
        return byte_locked(
            self.folder / "running.lock",
            int.from_bytes(digest[:7], "big"),
            timeout_s=0,
            busy=lambda: f"step {name!r} of {self.run_id} is running already, and is not run a second time",
        )

    def review(self) -> str | None:
        """Return in a sentence what the run waits for a person for, as far as can be known."""
        held = self._current().held
        if held is None:  # so it is most of the time, and then nothing need be loaded for it
            return None
        from holdfast.format.review import Review
        from holdfast.styles.review import tell_review

        return self._with_command(tell_review(held), "review") if isinstance(held, Review) else None

    def stop(self) -> str | None:
        """Return in a sentence that a person has stopped the run, as far as can be known."""
        held = self._current().held
        if held is None:
            return None
        from holdfast.format.review import Stop
        from holdfast.styles.review import tell_stop

        return self._with_command(tell_stop(held), "fork") if isinstance(held, Stop) else None

    def _with_command(self, sentence: str, kind: RemedyKind) -> str:
        from holdfast.presentation.remedies import command_of

        return f"{sentence}: {command_of(Remedy(kind, self.run_id))}"

    def begin(self, name: str) -> Receipt:
        """Save that a step begins."""
        return self._record(name, Trigger.BEFORE_STEP, RunStatus.IN_PROGRESS, steps.begin)

    def complete(self, name: str, *, output: str | None, duration_s: float) -> Receipt:
        """Save that a step is completed."""

        def complete(progress: Document, index: int) -> Document:
            return steps.complete(
                progress, index, output=output, captured={}, duration_s=duration_s, now=self._now()
            )

        return self._record(name, Trigger.STEP_COMPLETE, RunStatus.IN_PROGRESS, complete)

    def fail(self, name: str, error: str, *, output: str | None) -> Receipt:
        """Save that a step has failed. It may be repeated."""

        def fail(progress: Document, index: int) -> Document:
            return steps.fail(progress, index, error=error, is_retryable=True, output=output)

        return self._record(name, Trigger.STEP_FAILED, RunStatus.FAILED, fail, error=error)

    def interrupt(self, name: str) -> Receipt:
        """Save that a step was told to stop."""
        return self._record(
            name,
            Trigger.INTERRUPTED,
            RunStatus.INTERRUPTED,
            lambda progress, _index: steps.interrupt(progress),
        )

    def _record(
        self, name: str, trigger: Trigger, status: RunStatus, change: Change, *, error: str | None = None
    ) -> Receipt:
        with locked(
            self.folder / "steps.lock",
            timeout_s=LOCK_S,
            busy=lambda: "another command keeps this run's steps",
        ):
            newest = self._current()
            placed, index = steps.place(newest.progress, name)
            changed = replace(newest, progress=change(placed, index))
            if error is not None:
                changed = self._with_error(changed, name, error)
            receipt = self.submit(self._compose(changed, name, trigger, status))
            self._newest, self._known_sequence = changed, receipt.sequence_number
            return receipt

    def _current(self) -> _Newest:
        """Return the newest state; it is read again once someone else has saved here."""
        known = self.spool.known_sequence(self.run_id)
        if self._newest is None or known != self._known_sequence:
            self._newest = self._find()
            self._known_sequence = self.spool.known_sequence(self.run_id)
        return self._newest

    def _find(self) -> _Newest:
        try:
            return self._find_readable()
        except KeyMissing as error:
            if not error.is_public_here:
                raise
            return self._infer(self.reader() or self.local_reader())

    def _infer(self, reader: "Reader") -> _Newest:
        """Return what names and triggers tell of the steps, for who can seal states and not open them.

        Nobody knows here what a rollback took back, so that nothing before one counts as completed.
        """
        progress = self._fresh().progress
        for said in self._look(lambda: _read_readable(reader, self.run_id)):
            if said.trigger == Trigger.ROLLBACK:
                progress = self._fresh().progress
                continue
            progress, index = steps.place(progress, said.phase)
            if said.trigger == Trigger.STEP_COMPLETE and not steps.is_done(progress, said.phase):
                progress = steps.complete(
                    progress, index, output=None, captured={}, duration_s=0.0, now=said.timestamp
                )
        return _Newest(progress)

    def _find_readable(self) -> _Newest:
        spooled = SpooledRun.look(self.spool, self.run_id, self.trust)
        newest = None if spooled.aside else spooled.newest()
        if newest is None:
            return self._find_stored()
        found = replace(self._open(newest), held=self._spooled_review(spooled, newest))
        return self._reconcile(found) if found.progress.get(UNSEEN) is True else found

    def _spooled_review(self, spooled: SpooledRun, newest: Envelope) -> "Held | None":
        """Return what keeps a run from going on whose newest checkpoint is spooled here.

        Most runs have nothing that could make them wait, which shows without reading more of them.
        """
        is_whole = spooled.pending[-1].sequence == 1
        is_told = any(item.trigger in TELLING for item in spooled.pending)
        if is_whole and not is_told and not has_signs(newest.content):
            return None
        with suppress(HoldfastError):  # it is a notice: the step is saved without it as well
            return self.local_reader().load_reviewed(self.run_id)[1]
        return None

    def _find_stored(self) -> _Newest:
        try:
            reader = self.reader()
            if reader is None:
                return self._fresh()
            loaded, held = self._look(lambda: reader.load_reviewed(self.run_id))
        except UnknownRun:
            return self._fresh()
        except (GatewayError, Stopped) as error:
            self._tell_unseen(error)
            fresh = self._newest or self._fresh()
            return replace(fresh, progress=mark(fresh.progress, unseen=True))
        found = replace(self._open(loaded.envelope), held=held)
        if loaded.source == "github":
            self.spool.learn_sequence(self.run_id, loaded.envelope.sequence)
        elif loaded.source == "cache":
            self._tell_unseen(loaded.warnings[0])
            return replace(found, progress=mark(found.progress, unseen=True))
        return self._reconcile(found) if found.progress.get(UNSEEN) is True else found

    def _look(self, read: Callable[[], ResultT]) -> ResultT:
        """Return what is read of the repository. Raises Stopped if GitHub takes too long to answer."""
        answers: list[ResultT | HoldfastError] = []

        def look() -> None:
            try:
                answers.append(read())
            except HoldfastError as error:
                answers.append(error)

        looking = threading.Thread(target=look, name="holdfast-look", daemon=True)
        looking.start()
        looking.join(LOOK_S)
        answer = answers[0] if answers else Stopped(f"GitHub did not answer within {LOOK_S:.0f} s")
        if isinstance(answer, HoldfastError):
            raise answer
        return answer

    def _reconcile(self, unseen: _Newest) -> _Newest:
        """Return the state with what the repository had of the run before; as it is if that is still away."""
        try:
            reader = self.reader()
            seen = self._look(lambda: _read_last_seen(reader, self.run_id)) if reader else None
        except UnknownRun:
            seen = None
        except (GatewayError, Stopped) as error:
            self._tell_unseen(error)
            return unseen
        progress = mark(unseen.progress, unseen=False)
        if seen is None:
            return replace(unseen, progress=progress)
        before = self._open(seen)
        return replace(
            unseen,
            progress=merge(before.progress, progress),
            members={**before.members, **unseen.members},
            workflow=unseen.workflow or before.workflow,
        )

    def _fresh(self) -> _Newest:
        return _Newest(
            steps.new_progress(workflow_path=self.workflow, working_directory=self.working_directory)
        )

    def _open(self, envelope: Envelope) -> _Newest:
        document = parse_document(envelope.content)
        state = document.value.get("state_snapshot")
        if not isinstance(state, dict):
            raise InvalidCheckpoint(
                "state", f"{self.run_id} has a state that is no JSON object; use another run"
            )
        stored = parse_value(encode(state.get("progress") or {}))
        style = as_mapping(stored).get("style", DEFAULT_STYLE)
        if stored and style != steps.STYLE.name:
            raise InvalidCheckpoint("style", f"{self.run_id} was saved as {style!r}; use another run")
        running = [index for index in as_list(stored.get("steps_in_progress")) if isinstance(index, int)]
        restored = steps.restore(stored, self._fresh().progress)
        members = dict(parse_document(document.members["state_snapshot"]).members)
        members.pop("progress", None)
        return _Newest({**restored, "steps_in_progress": running}, members, envelope.header.workflow)

    def _with_error(self, newest: _Newest, place: str, error: str) -> _Newest:
        stored = newest.members.get("errors_encountered")
        errors = as_list(parse_value(stored)) if stored else []
        added = [*errors, {"timestamp": self._now(), "place": place, "error": error}]
        return replace(newest, members={**newest.members, "errors_encountered": encode(added)})

    def _compose(self, newest: _Newest, name: str, trigger: Trigger, status: RunStatus) -> bytes:
        header: dict[str, Any] = {
            "run_id": self.run_id,
            "trigger": trigger,
            "phase": name[:_LONGEST_PHASE],
            "status": status,
            "workflow": self.workflow or newest.workflow,
        }
        texts = {key: encode(value) for key, value in header.items() if value is not None}
        state = join_members({**newest.members, "progress": encode(newest.progress)})
        return join_members({**texts, "state": state})

    def _tell_unseen(self, cause: object) -> None:
        self.warn(f"what is completed elsewhere could not be looked up: {cause}")

    def _now(self) -> str:
        return format_moment(self.clock.now())


def _read_readable(reader: "Reader", run_id: str) -> Sequence["IndexEntry | Header"]:
    """Return what is readable of each checkpoint of a run, in order.

    The index says it, which nobody signs: where a key asks for signatures, each checkpoint is read.
    """
    if not reader.trust.signatures.keys:
        return reader.list_checkpoints(run_id).all_entries
    lenient = replace(reader, trust=replace(reader.trust, is_lenient=True))
    return [envelope.header for envelope in lenient.history(run_id).envelopes]


def _read_last_seen(reader: "Reader", run_id: str) -> Envelope | None:
    return reader.use_stored(run_id, _last_seen, is_hasty=True)


def _last_seen(run: "StoredRun") -> Envelope | None:
    """Return the newest stored checkpoint that was saved by who had seen those before it."""
    if run.source.source != "github":
        raise Stopped("GitHub could not be read")
    newest = run.newest()
    for envelope in chain([newest], run.before(newest.sequence)):
        if not is_unseen(parse_document(envelope.content).value.get("state_snapshot")):
            return envelope
    return None
