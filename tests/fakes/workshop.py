"""Everything between the spool and the repository, real but for the repository and the clock."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from holdfast.assembly import Assembly
from holdfast.drain.worker import Worker
from holdfast.format.checkpoint import draft_from_mapping
from holdfast.format.part_files import MAX_FILE_BYTES
from holdfast.format.receipt import Receipt
from holdfast.github.calls import Gateway
from holdfast.queue import Queue
from holdfast.ratelimit.limits import Limits
from holdfast.repository.reader import Reader
from holdfast.repository.runs import Runs
from tests.fakes.assembly import BRANCH, NO_LIMITS, make_assembly
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.repository import check_files, files_of_run


@dataclass
class Workshop:
    """One writer with its own spool; several of them can share a repository."""

    assembly: Assembly
    clock: VirtualClock
    token: list[str]

    @property
    def gateway(self) -> Gateway:
        return self.worker.contents.gateway

    @property
    def spool(self) -> Queue:
        return self.assembly.spool

    @property
    def runs(self) -> Runs:
        return self.worker.contents.runs

    @property
    def worker(self) -> Worker:
        return self.assembly.worker

    @property
    def reader(self) -> Reader:
        return self.assembly.reader

    @property
    def stop(self) -> threading.Event:
        return self.assembly.stop

    def save(self, run_id: str = "r", *, trigger: str = "manual", **fields: Any) -> Receipt:
        """Queue one checkpoint."""
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
    **settings: Any,
) -> Iterator[Workshop]:
    """Open a writer whose spool is in `folder`; opening the same folder again is a restart."""
    clock, token = clock or VirtualClock(), ["token"]
    assembly = make_assembly(
        folder,
        gateway,
        clock,
        limits=limits,
        token=token,
        write_mode=mode,
        max_checkpoint_bytes=max_file_bytes,
        **settings,
    )
    try:
        yield Workshop(assembly, clock, token)
    finally:
        assembly.close()


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
