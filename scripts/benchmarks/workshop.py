"""The places where contestants work: folders on disk and in memory, and a GitHub of their own each."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from benchmarks.machine import SHARED_MEMORY

REPOSITORY = "holdfast/checkpoints"
TOKEN = "a-token-of-the-bench"
NO_LIMIT = 100_000_000


@dataclass(frozen=True)
class Traffic:
    """What went to a GitHub in some time."""

    requests: int
    content_requests: int
    bytes_sent: int
    refusals: int


class GitHubProcess:
    """An emulated GitHub in a process of its own, so that its work is nobody else's time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        command = [sys.executable, "-m", "holdfast", "emulator", "--json", "--root", str(root)]
        self._process = subprocess.Popen([*command, "--limit", str(NO_LIMIT)], stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self.url: str = json.loads(self._process.stdout.readline())["url"]
        self._control = httpx.Client(base_url=f"{self.url}/_emulator", timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._control.close()
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def bare_repository(self) -> Path:
        """Where the commits land, for those who push with git."""
        return self.root / f"{REPOSITORY}.git"

    def delay_answers(self, seconds: float) -> None:
        """Hold every answer back that long, as a network would; 0 ends it."""
        self._control.delete("/faults").raise_for_status()
        if seconds:
            self._control.post("/faults", json={"fault": f"any:delay={seconds}"}).raise_for_status()

    def change(self, **options: Any) -> None:
        """Change the emulator's options."""
        self._control.post("/options", json=options).raise_for_status()

    def clear_traffic(self) -> None:
        """Count from here."""
        self._control.delete("/journal").raise_for_status()

    def traffic(self) -> Traffic:
        """Return what came in since the last `clear_traffic`."""
        entries = self._control.get("/journal").raise_for_status().json()["entries"]
        return Traffic(
            requests=len(entries),
            content_requests=sum(entry["is_content"] for entry in entries),
            bytes_sent=sum(entry["bytes_in"] for entry in entries),
            refusals=sum(entry["status"] in (403, 429) for entry in entries),
        )


class Workshop:
    """Makes folders that vanish with it: on the real disk, and in memory where there is such a place."""

    def __init__(self) -> None:
        self.disk = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=_real_disk()))
        place = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else self.disk
        self.memory = Path(tempfile.mkdtemp(prefix="holdfast-bench-", dir=place))
        self._numbers = count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.memory, ignore_errors=True)
        shutil.rmtree(self.disk, ignore_errors=True)

    def disk_folder(self) -> Path:
        """Return a new folder on the real disk."""
        return self._new(self.disk)

    def memory_folder(self) -> Path:
        """Return a new folder in memory, for what is not being measured."""
        return self._new(self.memory)

    @contextmanager
    def github(self) -> Iterator[GitHubProcess]:
        """Start a GitHub with an empty repository."""
        root = self.memory_folder()
        with GitHubProcess(root) as github:
            yield github
        shutil.rmtree(root, ignore_errors=True)

    def _new(self, parent: Path) -> Path:
        folder = parent / str(next(self._numbers))
        folder.mkdir()
        return folder


def _real_disk() -> Path:
    """Return a folder in this checkout, because the folder for temporary files may be in memory."""
    folder = Path(__file__).resolve().parents[2] / ".venv" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
