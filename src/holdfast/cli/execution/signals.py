"""Signals while a command runs: passed on to it, and those that end a run noted."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)
_OTHERS = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH)
# What a terminal sends to all of its foreground by itself.
_FROM_KEYS = (signal.SIGINT, signal.SIGQUIT)


class SignalRelay:
    """Passes signals on to a command, and calls `stopping` with the first that asks it to end.

    A signal that is ignored stays ignored, by the command too. `stopped_by` is the first that asked.
    """

    def __init__(self, stopping: Callable[[int], object] = lambda _number: None) -> None:
        self.stopped_by: int | None = None
        self.stopping = stopping
        self._send: Callable[[int], object] = _to_nobody
        self._before_resize: Callable[[], object] = lambda: None
        self._before: dict[int, signal.Handlers | Callable[[int, FrameType | None], object]] = {}

    def open(self) -> None:
        """Begin."""
        for number in (*ENDING, *_OTHERS):
            before = signal.getsignal(number)
            if callable(before) or before is signal.SIG_DFL:
                self._before[number] = before
                signal.signal(number, self._handle)

    def close(self) -> None:
        """Give the signals back."""
        for number, before in self._before.items():
            signal.signal(number, before)
        self._before.clear()

    def is_stopped(self) -> bool:
        """Whether a signal has asked us to end."""
        return self.stopped_by is not None

    @contextmanager
    def relaying_to(
        self, send: Callable[[int], object], *, before_resize: Callable[[], object]
    ) -> Iterator[None]:
        """Hand signals to `send` meanwhile; that the window's size has changed, after `before_resize`."""
        self._send, self._before_resize = send, before_resize
        if self.stopped_by is not None:
            self._send(self.stopped_by)
        try:
            yield
        finally:
            self._send = _to_nobody

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGWINCH:
            self._before_resize()
        if number in ENDING and self.stopped_by is None:
            self.stopped_by = number
            self.stopping(number)
        if not (number in _FROM_KEYS and _is_in_foreground()):
            self._send(number)


def _to_nobody(_number: int) -> None:
    """Drop a signal: there is no command yet, or none any more."""


def _is_in_foreground() -> bool:
    """Whether a terminal's keys reach us, and so the command in our process group as well."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def name_of(number: int) -> str:
    """Return the name of a signal, such as SIGKILL.

    >>> name_of(9)
    'SIGKILL'
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
