"""Locks between processes, kept in files: one holder at a time, and none once its process has ended.

`flock` belongs to the open file, which a forked process shares with its parent. The child therefore closes
its copy at once: what its parent holds is the parent's alone, and free when the parent has died.
"""

import fcntl
import os
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from holdfast.disk import translate
from holdfast.errors import SpoolBusy

_POLL_S = 0.01
# Where in its -shm file SQLite locks whoever writes (https://www.sqlite.org/walformat.html).
_SQLITE_WRITER_BYTE = 120


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


def locked(path: Path, *, timeout_s: float, busy: Callable[[], str]) -> AbstractContextManager[object]:
    """Be the only one inside, of all threads and processes. Raises SpoolBusy, which says `busy`.

    Raises SpoolUnwritable where the file cannot be made.
    """
    return _held(path, _lock_whole, timeout_s, busy)


@contextmanager
def byte_locked(
    path: Path, number: int, *, timeout_s: float, busy: Callable[[], str]
) -> Iterator[int | None]:
    """Be the only process inside that has locked this byte of the file, which need not be that long.

    Gives the file's descriptor: on Linux, a program that inherits it keeps the lock if this process dies
    before it lets go. Raises like `locked`. Elsewhere, opening the file a second time loses the lock.
    """
    with _held(path, partial(_lock_byte, number=number), timeout_s, busy) as handle:
        try:
            yield handle.descriptor
        finally:
            if handle.descriptor is not None:
                _lock_byte(handle.descriptor, number, kind=fcntl.F_UNLCK)


def writers_kept_out(
    shm: Path, *, timeout_s: float, busy: Callable[[], str]
) -> AbstractContextManager[object]:
    """Let nobody commit to the SQLite file that `shm` belongs to, once those who do so now have finished.

    Closing the lock takes from this process what locks SQLite has on this file: only for one given up.
    """
    lock = partial(_lock_byte, number=_SQLITE_WRITER_BYTE)
    return _held(shm, lock, timeout_s, busy) if shm.exists() else nullcontext()


@contextmanager
def _held(
    path: Path, lock: Callable[[int], None], timeout_s: float, busy: Callable[[], str]
) -> Iterator[_Handle]:
    try:
        handle = _Handle(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise translate(error, path.parent) from error
    _handles.add(handle)
    try:
        _wait(handle, lock, timeout_s, busy)
        yield handle
    finally:
        _handles.discard(handle)
        if handle.descriptor is not None:
            fcntl.flock(handle.descriptor, fcntl.LOCK_UN)
            os.close(handle.descriptor)


def _lock_whole(descriptor: int) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock_byte(descriptor: int, number: int, kind: int = fcntl.F_WRLCK) -> None:
    if sys.platform == "linux":
        # A lock of the open file, not of the process: it keeps out the other threads of this one, too.
        wanted = struct.pack("hhqqi", kind, os.SEEK_SET, number, 1, 0)
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, wanted)
    else:
        how = fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
        fcntl.lockf(descriptor, how, 1, number)


def _wait(handle: _Handle, lock: Callable[[int], None], timeout_s: float, busy: Callable[[], str]) -> None:
    deadline = time.monotonic() + timeout_s
    while handle.descriptor is not None:
        try:
            return lock(handle.descriptor)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise SpoolBusy(busy()) from None
        time.sleep(_POLL_S)
    raise SpoolBusy("this process was forked while it waited for the lock")
