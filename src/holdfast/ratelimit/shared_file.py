"""The budget of this machine: one for all its threads and processes, kept in a file."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from math import inf
from pathlib import Path

from holdfast.clock import Clock
from holdfast.disk import sync_folder
from holdfast.errors import SpoolError
from holdfast.locks import locked
from holdfast.logs import log
from holdfast.ratelimit.budget import Budget
from holdfast.ratelimit.limiter import RateLimiter, ResultT
from holdfast.ratelimit.limits import Limits
from holdfast.ratelimit.record import format_budget, parse_budget

LONGEST_LOCK_WAIT_S = 1.0
STORE_EVERY_S = 1.0  # where only the headers' limits hold, so that a fast server is not slowed down


def rate_limiter_path(folder: Path, *identity: str) -> Path:
    """Return the file in `folder` for one `identity`: the API, and whose limits its token uses up.

    Nothing of the identity can be read from the name.
    """
    digest = sha256("\n".join(identity).encode()).hexdigest()
    return folder / f"budget-{digest[:16]}.json"


class FileRateLimiter(RateLimiter):
    """Keeps one budget in the file at `path`, together with every other process that uses this file."""

    def __init__(self, path: Path, limits: Limits, clock: Clock) -> None:
        super().__init__(limits, clock)
        self._path = path
        self._pid = 0
        self._make_locks()
        self._version: tuple[int, ...] | None = None
        self._stored_at = -inf
        self._is_stored = True
        self._has_warned = False
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)

    @property
    def budget(self) -> Budget:
        """The budget as it is now."""
        with self._alone():
            self._load()
            self._budget = self._budget.at(self._clock.now())
            return self._budget

    def close(self) -> None:
        """Store what is not stored yet."""
        with self._alone(), self._shared() as is_shared:
            if is_shared and not self._is_stored:
                self._store(is_synced=False)

    def _change(
        self, change: Callable[[Budget, float], tuple[Budget, ResultT]], *, is_synced: bool = False
    ) -> ResultT:
        """Apply `change` to the newest budget, in memory and in the file, and return its result."""
        with self._alone():
            if not (is_synced or self._is_time_to_store()):
                self._is_stored = False
                self._budget, result = change(self._budget, self._clock.now())
                return result
            with self._shared() as is_shared:
                self._load()
                self._budget, result = change(self._budget, self._clock.now())
                if is_shared:
                    self._store(is_synced=is_synced)
                return result

    def _is_time_to_store(self) -> bool:
        """Whether a change goes to the file at once: where we count ourselves, each one does."""
        since_s = abs(self._clock.now() - self._stored_at)
        return self._limits.has_content_limits or since_s >= STORE_EVERY_S

    def _alone(self) -> threading.Lock:
        """Return what keeps the threads of this process apart."""
        if self._pid != os.getpid():
            self._make_locks()
        return self._thread_lock

    def _make_locks(self) -> None:
        """Make the locks of this process: those that it inherited at a fork are its parent's."""
        self._pid = os.getpid()
        self._thread_lock = threading.Lock()

    @contextmanager
    def _shared(self) -> Iterator[bool]:
        """Hold the file against other processes; false if that cannot be done in a moment."""
        lock = self._path.with_name(f"{self._path.name}.lock")
        busy = f"{lock.name} was held for {LONGEST_LOCK_WAIT_S:.0f} s"
        with ExitStack() as held:
            try:
                held.enter_context(locked(lock, timeout_s=LONGEST_LOCK_WAIT_S, busy=lambda: busy))
                is_held = True
            except (OSError, SpoolError) as error:
                self._warn(error)
                is_held = False
            yield is_held

    def _load(self) -> None:
        """Take over what another process has stored since we last looked."""
        try:
            version = _version_of(self._path.stat())
            if version != self._version:
                self._budget = parse_budget(self._path.read_bytes(), self._limits)
                self._version = version
        except FileNotFoundError:
            return
        except OSError as error:
            self._warn(error)

    def _store(self, *, is_synced: bool) -> None:
        """Replace the file as a whole; `is_synced` makes that survive a power cut."""
        temporary = self._path.with_suffix(f".{os.getpid()}.tmp")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(format_budget(self._budget))
                file.flush()
                if is_synced:
                    os.fsync(descriptor)
                version = _version_of(os.fstat(descriptor))
            temporary.replace(self._path)
            self._version = version
            self._stored_at, self._is_stored = self._clock.now(), True
            if is_synced:
                sync_folder(self._path.parent)
        except OSError as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning("budget_not_stored", path=str(self._path), cause=str(error))


def _version_of(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_ino, status.st_mtime_ns, status.st_size)
