"""The state and the progress of a run that is recorded, and the checkpoints of both."""

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import InvalidCheckpoint
from holdfast.format.header import RunStatus
from holdfast.format.moments import format_moment
from holdfast.format.receipt import Receipt
from holdfast.format.triggers import Trigger
from holdfast.recorder.options import Options, Storage
from holdfast.recorder.saver import Saver, SaveRequest
from holdfast.recorder.signals import SignalWatch
from holdfast.styles.style import Style
from holdfast.styles.values import Document, as_list

_LONGEST_PHASE = 256
_MAX_ERROR_CHARACTERS = 4000

ProgressChange = Callable[[Document], Document]
StateChange = Callable[[Document], Document]


class RunState:
    """The state and the progress of one run. Both change within `changing`, or as a checkpoint is saved.

    A change of the progress returns another progress; a change of the state returns the members that change.
    """

    def __init__(
        self, run_id: str, style: Style, storage: Storage, options: Options, progress: Document
    ) -> None:
        self.members: Document = {}
        self.context_fields: Document = {}
        self.progress = progress
        self.clock = storage.clock
        self.saver = Saver(storage, options, run_id, self._compose)
        self.changing = self.saver.changing
        self.signals = SignalWatch(self.record_interruption)
        self.options = options
        self.failed_parts: set[str] = set()
        """What has failed, and was not completed since."""
        self._style = style
        self._memory_mb = storage.memory_mb
        self._is_pressed = False

    def now(self) -> str:
        """Return the time of day as it is stored."""
        return format_moment(self.clock.now())

    def record(
        self,
        trigger: str | Trigger,
        progress: ProgressChange | None = None,
        *,
        state: StateChange | None = None,
        phase: str | None = None,
        status: RunStatus = RunStatus.IN_PROGRESS,
        is_new_only: bool = False,
        may_raise: bool = True,
    ) -> Receipt | None:
        """Change the progress and the state, and save a checkpoint. See `Saver.save`."""

        def change() -> None:
            self._change(progress, state)

        label = (phase or self._label() or "")[:_LONGEST_PHASE] or None
        request = SaveRequest(trigger, status, label, change, is_new_only, may_raise)
        return self.saver.save(request)

    def amend(self, progress: ProgressChange | None = None, *, state: StateChange | None = None) -> None:
        """Change the progress and the state; the next checkpoint takes that along."""
        self.saver.amend(lambda: self._change(progress, state))

    def record_failure(
        self,
        trigger: Trigger,
        phase: str | None,
        error: BaseException,
        progress: Callable[[Document, str], Document] = lambda progress, _text: progress,
    ) -> None:
        """Save that a part of the work, or the run, has failed, unless a smaller part has said so already.

        `progress` is given the error's text. The error itself is on its way, so that none of ours is raised.
        """
        text = format_error(error)
        self.record(
            trigger,
            lambda before: progress(before, text),
            state=lambda members: self._with_error(members, phase or "run", text),
            phase=phase,
            status=RunStatus.FAILED,
            is_new_only=True,
            may_raise=False,
        )

    def record_interruption(self) -> None:
        """Save that the run was told to stop, unless that is saved already."""
        self.record(
            Trigger.INTERRUPTED,
            self._style.interrupt,
            status=RunStatus.INTERRUPTED,
            is_new_only=True,
            may_raise=False,
        )

    def watch_memory(self) -> None:
        """Save once when the process comes to need more memory than it should."""
        limit_mb = self.options.memory_limit_mb
        if limit_mb is None:
            return
        used_mb, was_pressed = self._memory_mb(), self._is_pressed
        self._is_pressed = used_mb > limit_mb
        if self._is_pressed and not was_pressed:
            pressure = {"timestamp": self.now(), "used_mb": round(used_mb, 1), "limit_mb": limit_mb}
            self.record(
                Trigger.MEMORY_PRESSURE, state=lambda _: {"memory_pressure": pressure}, may_raise=False
            )

    def record_changes(self) -> None:
        """Save what has changed since the newest checkpoint, if anything has."""
        self.watch_memory()
        self.record(Trigger.INTERVAL, is_new_only=True, may_raise=False)

    def is_interruption(self, error: BaseException) -> bool:
        """Whether the work was broken off from outside rather than failed by itself.

        Leaving with an exit code other than 0 is a failure, unless a signal's handler did so.
        """
        if error is self.signals.raised:
            return True
        if isinstance(error, SystemExit):
            return error.code in (None, 0)
        return not isinstance(error, Exception)

    def _label(self) -> str | None:
        try:
            return self._style.label(self.members, self.progress)
        except InvalidCheckpoint:  # the user has put something else where a style keeps its own
            return None

    def _change(self, progress: ProgressChange | None, state: StateChange | None) -> None:
        if progress is not None:
            self.progress = progress(self.progress)
        if state is not None:
            self.members.update(state(self.members))

    def _with_error(self, members: Document, place: str, text: str) -> Document:
        errors = as_list(members.get("errors_encountered"))
        return {"errors_encountered": [*errors, {"timestamp": self.now(), "place": place, "error": text}]}

    def _compose(self) -> Mapping[str, Any]:
        if "progress" in self.members:
            raise InvalidCheckpoint("state.progress", "the recorder itself keeps it; choose another name")
        return {"state": {**self.members, "progress": self.progress}, "context_fields": self.context_fields}


def format_error(error: BaseException) -> str:
    """Return the error as text that can be stored, whatever it says.

    >>> format_error(KeyError("lint")), format_error(ValueError())
    ("KeyError: 'lint'", 'ValueError')
    """
    name = type(error).__name__
    try:
        reason = str(error)
    except Exception:  # whatever an error's own text raises must not hide that it happened
        reason = ""
    text = f"{name}: {reason}" if reason else name
    return text[:_MAX_ERROR_CHARACTERS].encode(errors="backslashreplace").decode()
