"""Everything between the spool and the repository, real but for the repository and the clock."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from holdfast.cache.gateway import CachingGateway
from holdfast.cache.local_copy import RepositoryCache
from holdfast.drain.commits import CommitWriter
from holdfast.drain.contents import ContentsWriter
from holdfast.drain.plan import DrainPolicy
from holdfast.drain.worker import Worker
from holdfast.format.checkpoint import draft_from_mapping
from holdfast.format.parts import MAX_FILE_BYTES
from holdfast.format.paths import Layout
from holdfast.format.receipt import Receipt
from holdfast.github.calls import Gateway
from holdfast.github.wrappers.budgeted import BudgetedGateway
from holdfast.queue import Queue, QueueLimits, SqliteQueue
from holdfast.ratelimit.limits import Limits
from holdfast.ratelimit.shared_file import RateLimiter
from holdfast.repository.branch import check_repository
from holdfast.repository.reader import Reader
from holdfast.repository.runs import Runs
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.repository import check_files, files_of_run

BRANCH = "checkpoints"
NO_LIMITS = Limits(write_interval_s=0, content_per_minute=0, content_per_hour=0)


@dataclass
class Workshop:
    """One writer with its own spool; several of them can share a repository."""

    gateway: Gateway
    spool: Queue
    runs: Runs
    worker: Worker
    reader: Reader
    clock: VirtualClock
    stop: threading.Event
    token: list[str] = field(default_factory=lambda: ["token"])

    def save(self, run_id: str = "r", *, trigger: str = "manual", **fields: Any) -> Receipt:
        """Spool one checkpoint."""
        checkpoint = {"run_id": run_id, "trigger": trigger, "state": {"n": str(uuid4())}, **fields}
        return self.spool.put(draft_from_mapping(checkpoint, now="2026-11-16T10:00:00Z", new_id=_new_id))


@contextmanager
def open_workshop(
    folder: Path,
    gateway: Gateway,
    *,
    clock: VirtualClock | None = None,
    mode: str = "contents",
    limits: Limits = NO_LIMITS,
    max_file_bytes: int = MAX_FILE_BYTES,
) -> Iterator[Workshop]:
    """Open a writer whose spool is in `folder`; opening the same folder again is a restart."""
    clock = clock or VirtualClock()
    layout, stop, token = Layout(), threading.Event(), ["token"]
    spool = SqliteQueue.open(
        folder / "spool", limits=QueueLimits(min_free_bytes=0), clock=clock, layout=layout
    )
    cache = RepositoryCache.open(folder / "mirror")
    rate_limiter = RateLimiter(folder / "budget.json", limits, clock)
    gateway = CachingGateway(BudgetedGateway(gateway, rate_limiter, clock), cache, layout)
    runs = Runs(gateway, cache, layout, BRANCH)
    worker = Worker(
        spool=spool,
        contents=ContentsWriter(gateway, spool, runs, layout, BRANCH, clock, max_file_bytes),
        commits=CommitWriter(gateway, spool, runs, layout, BRANCH, clock, max_file_bytes),
        rate_limiter=rate_limiter,
        policy=DrainPolicy(mode=mode),  # type: ignore[arg-type]
        layout=layout,
        clock=clock,
        is_stopping=stop.is_set,
        credentials=lambda: token[0],
        probe=lambda: check_repository(gateway),
        jitter=lambda: 1.0,
    )
    reader = Reader(gateway, spool, cache, layout, BRANCH)
    try:
        yield Workshop(gateway, spool, runs, worker, reader, clock, stop, token)
    finally:
        cache.close()
        spool.close()


def trim(repository: MemoryGateway, *, keeps: tuple[str, ...] = ("latest.json",)) -> None:
    """Delete all files of the run r but some, as another machine's cleanup does."""
    gone = [path for path in repository.files(BRANCH) if path.startswith("checkpoints/r/")]
    paths = [path for path in gone if path.rpartition("/")[2] not in keeps]
    repository.write_as_someone_else(BRANCH, dict.fromkeys(paths))


def stored_run(repository: MemoryGateway, run_id: str = "r") -> dict[str, Any]:
    """Return the files of a run, by name, parsed."""
    return files_of_run(repository.files(BRANCH), run_id)


def check_run(repository: MemoryGateway, run_id: str = "r") -> dict[int, str]:
    """Assert that index, files and latest agree, and return the checkpoint ids by number."""
    return check_files(repository.files(BRANCH), run_id)


def _new_id() -> str:
    return str(uuid4())
