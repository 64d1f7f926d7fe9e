"""Locks between processes, kept in files: one holder at a time, and none once its process has ended.

`flock` belongs to the open file, which a forked process shares with its parent. The child therefore closes
its copy at once: what its parent holds is the parent's alone, and free when the parent has died.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.disk import translate
from holdfast.errors import SpoolBusy

_POLL_S = 0.01


@dataclass(eq=False)
class _Handle:
    """An open lock file; None where it was left to the parent process."""

    descriptor: int | None


_handles: set[_Handle] = set()


def _leave_to_parent() -> None:
    for handle in _handles:
        if handle.descriptor is not None:
            os.close(handle.descriptor)
            handle.descriptor = None
    _handles.clear()


os.register_at_fork(after_in_child=_leave_to_parent)


@contextmanager
def locked(path: Path, *, timeout_s: float, busy: Callable[[], str]) -> Iterator[None]:
    """Be the only one inside, of all threads and processes. Raises SpoolBusy, which says `busy`.

    Raises SpoolUnwritable where the file cannot be made.
    """
    try:
        handle = _Handle(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise translate(error, path.parent) from error
    _handles.add(handle)
    try:
        _wait(handle, timeout_s, busy)
        yield
    finally:
        _handles.discard(handle)
        if handle.descriptor is not None:
            fcntl.flock(handle.descriptor, fcntl.LOCK_UN)
            os.close(handle.descriptor)


def _wait(handle: _Handle, timeout_s: float, busy: Callable[[], str]) -> None:
    deadline = time.monotonic() + timeout_s
    while handle.descriptor is not None:
        try:
            return fcntl.flock(handle.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise SpoolBusy(busy()) from None
        time.sleep(_POLL_S)
    raise SpoolBusy("this process was forked while it waited for the lock")
