"""Signals: how a command that is told to stop ends in good order, and in time."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Together less than the 10 s that a stop may take: the write under way, then what is to be told.
GRACE_S = 7.5
LONGEST_LAST_WORDS_S = 1.0
_SHOW_CURSOR = "\x1b[?25h"


@dataclass
class LastWords:
    """What a command that was asked to stop, and cannot, tells before its process ends with `code`."""

    code: int
    tell: Callable[[], object] = lambda: None


@contextmanager
def stop_on_signals(last_words: LastWords | None = None) -> Iterator[threading.Event]:
    """Give an event that the first SIGTERM or SIGINT sets; the second ends the process at once.

    With `last_words`, the process ends even if the work does not: a call to GitHub that hangs cannot be
    interrupted, and a kill does no harm.
    """
    stop, is_over = threading.Event(), threading.Event()

    def watch() -> None:
        stop.set()
        if last_words and not is_over.wait(GRACE_S):
            _end_process(last_words)

    def handle(_number: int, _frame: FrameType | None) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        if _is_watched():
            sys.stderr.write(_SHOW_CURSOR)
        # The main thread may be inside stop.wait(), and hold the lock that set() needs.
        threading.Thread(target=watch, daemon=True).start()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield stop
    finally:
        is_over.set()
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_watched() -> bool:
    """Whether a person sees standard error."""
    return not sys.stderr.closed and sys.stderr.isatty()


def hold_signals() -> None:
    """Keep these signals waiting until they are released, also if the program was started to ignore them."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def release_signals() -> None:
    """Let the signals in, those that wait first."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _end_process(last_words: LastWords) -> None:
    telling = threading.Thread(target=last_words.tell, daemon=True)
    telling.start()
    telling.join(LONGEST_LAST_WORDS_S)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(last_words.code)
