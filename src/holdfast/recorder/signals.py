"""SIGINT and SIGTERM: save first, then do what would have happened without us.

A signal handler runs in the main thread, between any two of its instructions. While the main thread saves, it
holds locks that the handler's own save would wait for without end; so signals are deferred until it is done.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

LONGEST_SAVE_S = 5.0
"""How long a signal waits for its save at most. Runners that stop a job kill it after 7 to 10 seconds."""

Handler = Callable[[int, FrameType | None], object]

WATCHED = (signal.SIGINT, signal.SIGTERM)


class _Deferral:
    """The signals that wait while the main thread does what none may interrupt; one for all runs."""

    def __init__(self) -> None:
        self.depth = 0
        self.waiting: list[Callable[[], None]] = []

    @contextmanager
    def active(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            while not self.depth and self.waiting:
                self.waiting.pop(0)()


_deferral = _Deferral()
signals_deferred = _deferral.active


class SignalWatch:
    """Calls `save` when a signal comes, then does what would have happened without us.

    A signal that is ignored stays ignored. Outside of the main thread nothing is watched. `raised` is what
    the handler of a signal raised, so that it can be told from an error of the work.
    """

    def __init__(self, save: Callable[[], None]) -> None:
        self._save = save
        self._before: dict[int, Handler | signal.Handlers] = {}
        self._is_open = False
        self.raised: BaseException | None = None

    def open(self) -> None:
        """Begin to watch."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._is_open = True
        for number in WATCHED:
            before = signal.getsignal(number)
            if callable(before) or before is signal.SIG_DFL:
                self._before[number] = before
                signal.signal(number, self._handle)

    def close(self) -> None:
        """Stop watching, and give the signals back to whom they belonged."""
        self._is_open = False
        self.raised = None
        if threading.current_thread() is not threading.main_thread():
            return
        for number, before in self._before.items():
            # Whoever has taken the signal over since then may call us: we stay in the chain, and do nothing.
            if signal.getsignal(number) == self._handle:
                signal.signal(number, before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if _deferral.depth:
            _deferral.waiting.append(lambda: self._react(number, frame))
        else:
            self._react(number, frame)

    def _react(self, number: int, frame: FrameType | None) -> None:
        if self._is_open:
            # In a thread of its own: should the main thread hold a lock that saving needs, the signal waits
            # for a while, not for ever.
            saving = threading.Thread(target=self._save, name="holdfast-interrupted", daemon=True)
            saving.start()
            saving.join(LONGEST_SAVE_S)
        before = self._before[number]
        if callable(before):
            self._pass_on(before, number, frame)
        elif before is signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _pass_on(self, handler: Handler, number: int, frame: FrameType | None) -> None:
        try:
            handler(number, frame)
        except BaseException as error:
            self.raised = error if self._is_open else None
            raise
