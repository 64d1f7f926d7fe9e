"""What a run and the parts of its work write into: the state, the progress, and the checkpoints of both."""

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import InvalidCheckpoint
from holdfast.format.checkpoint import RunStatus
from holdfast.format.moments import format_moment
from holdfast.format.receipt import Receipt
from holdfast.format.triggers import Trigger
from holdfast.recorder.outlets import Options, Outlets
from holdfast.recorder.saver import Saver, SaveRequest
from holdfast.recorder.signals import SignalWatch
from holdfast.styles.progress.values import Document, add_error, format_error

_LONGEST_PHASE = 256

Change = Callable[[], None]


class Recording:
    """The state and the progress of one run. Both change within `changing`, or as a record's `change`.

    `interrupt` returns a progress as it is when the run is told to stop, `label` the phase that a checkpoint
    is labelled with unless it is told another.
    """

    def __init__(
        self,
        run_id: str,
        outlets: Outlets,
        options: Options,
        progress: Document,
        *,
        interrupt: Callable[[Document], Document],
        label: Callable[[], str | None],
    ) -> None:
        self.state: dict[str, Any] = {}
        self.context_fields: dict[str, Any] = {}
        self.progress = progress
        self.clock = outlets.clock
        self.saver = Saver(outlets, options, run_id, self._compose)
        self.changing = self.saver.changing
        self.signals = SignalWatch(self.record_interruption)
        self._interrupt = interrupt
        self._label = label

    def now(self) -> str:
        """Return the time of day as it is stored."""
        return format_moment(self.clock.now())

    def record(
        self,
        trigger: str | Trigger,
        change: Change | None = None,
        *,
        phase: str | None = None,
        status: RunStatus = RunStatus.IN_PROGRESS,
        is_new_only: bool = False,
        may_raise: bool = True,
    ) -> Receipt | None:
        """Carry out the change and save a checkpoint. See `Saver.save`."""
        label = (phase or self._label() or "")[:_LONGEST_PHASE] or None
        return self.saver.save(SaveRequest(trigger, status, label, change, is_new_only, may_raise))

    def amend_progress(self, change: Callable[[Document], Document]) -> None:
        """Put another progress in the place of this one; the next checkpoint takes it along."""

        def put() -> None:
            self.progress = change(self.progress)

        self.saver.amend(put)

    def amend_state(self, change: Callable[[dict[str, Any]], Document]) -> None:
        """Change members of the state; the next checkpoint takes them along."""
        self.saver.amend(lambda: self.state.update(change(self.state)))

    def record_failure(
        self, trigger: Trigger, phase: str, error: BaseException, change: Callable[[str], None]
    ) -> None:
        """Save that a part of the work has failed, unless a part of that part has said so already.

        Its error is on its way, so that none of ours is raised.
        """
        text = format_error(error)

        def enter() -> None:
            change(text)
            self.add_error(phase, text)

        self.record(trigger, enter, phase=phase, status=RunStatus.FAILED, is_new_only=True, may_raise=False)

    def record_interruption(self) -> None:
        """Save that the run was told to stop, unless that is saved already."""

        def change() -> None:
            self.progress = self._interrupt(self.progress)

        self.record(
            Trigger.INTERRUPTED, change, status=RunStatus.INTERRUPTED, is_new_only=True, may_raise=False
        )

    def record_changes(self) -> None:
        """Save what has changed since the newest checkpoint, if anything has."""
        self.record(Trigger.INTERVAL, is_new_only=True, may_raise=False)

    def add_error(self, place: str, text: str) -> None:
        """Enter an error among those of the run."""
        errors = self.state.get("errors_encountered")
        self.state["errors_encountered"] = add_error(errors, timestamp=self.now(), place=place, error=text)

    def is_interruption(self, error: BaseException) -> bool:
        """Tell whether the work was broken off from outside rather than failed by itself.

        Leaving with an exit code other than 0 is a failure, unless a signal's handler did so.
        """
        if error is self.signals.raised:
            return True
        if isinstance(error, SystemExit):
            return error.code in (None, 0)
        return not isinstance(error, Exception)

    def _compose(self) -> Mapping[str, Any]:
        if "progress" in self.state:
            raise InvalidCheckpoint("state.progress", "the recorder itself keeps it; choose another name")
        return {"state": {**self.state, "progress": self.progress}, "context_fields": self.context_fields}
