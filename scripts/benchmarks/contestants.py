"""Those who save checkpoints in a repository, made alike, so that a section need not tell them apart."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from benchmarks.peers.git_loop import GitLoop
from benchmarks.peers.githubkit_loop import GithubkitLoop
from benchmarks.peers.pygithub_loop import PyGithubLoop
from benchmarks.states import State
from benchmarks.workshop import REPOSITORY, TOKEN, GitHubProcess, Workshop
from holdfast import Holdfast
from holdfast.security.jose import make_shared_key
from holdfast.settings import Settings

PYGITHUB = "PyGithub loop"
GITHUBKIT = "githubkit loop"
GIT = "git push loop"
CONTENTS = "Holdfast contents"
BATCHES = "Holdfast batches"
COMMIT = "Holdfast commit"
SEALED = "Holdfast commit, sealed"
ALL = (PYGITHUB, GITHUBKIT, GIT, CONTENTS, BATCHES, COMMIT)

# With less than this many calls left, Holdfast writes batches.
_ALWAYS_LOW = 10**9


@dataclass(frozen=True)
class Job:
    """One checkpoint to save: the number is the run's own, from 1."""

    run_id: str
    sequence: int
    state: State


class Contestant(Protocol):
    """Stores checkpoints in a repository; when it returns, they are stored and verified."""

    def save_all(self, jobs: Sequence[Job]) -> None:
        """Store all jobs, in the best way that this one has."""
        ...

    def set_network(self, seconds: float) -> None:
        """Know how long a round trip takes, where the emulated GitHub cannot play it."""
        ...

    def close(self) -> None:
        """Close files and connections."""
        ...


class _OneByOne:
    """Stores one checkpoint after the other: a loop has no other way."""

    def __init__(self, peer: PyGithubLoop | GithubkitLoop | GitLoop) -> None:
        self._peer = peer

    def save_all(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._peer.save(job.run_id, job.sequence, job.state)

    def set_network(self, seconds: float) -> None:
        if isinstance(self._peer, GitLoop):
            self._peer.network_s = seconds

    def close(self) -> None:
        self._peer.close()


class _Spooled:
    """Holdfast: saves to its spool and drains it."""

    def __init__(self, settings: Settings) -> None:
        self.holdfast = Holdfast(settings)

    def save_all(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self.holdfast.save(job.run_id, job.state, phase="phase_1_plan")
        result = self.holdfast.drain(timeout_s=60)
        if result.left or result.verified != len(jobs):
            raise AssertionError(f"Holdfast left work behind: {result}")

    def set_network(self, seconds: float) -> None:
        del seconds

    def close(self) -> None:
        self.holdfast.close()


@contextmanager
def contestant(name: str, github: GitHubProcess, workshop: Workshop) -> Iterator[Contestant]:
    """Open one of ALL, or SEALED, on a GitHub of its own."""
    made: Contestant
    match name:
        case "PyGithub loop":
            made = _OneByOne(PyGithubLoop(github.url, REPOSITORY, TOKEN))
        case "githubkit loop":
            made = _OneByOne(GithubkitLoop(github.url, REPOSITORY, TOKEN))
        case "git push loop":
            made = _OneByOne(GitLoop(github.bare_repository, workshop.disk_folder()))
        case _:
            made = _Spooled(holdfast_settings(name, github.url, workshop.disk_folder()))
    try:
        yield made
    finally:
        made.close()


def holdfast_settings(name: str, url: str, folder: Path, **changes: Any) -> Settings:
    """Return the settings of one way that Holdfast writes, against a server without content limits."""
    values: dict[str, Any] = {
        "repo": REPOSITORY,
        "token": TOKEN,
        "api_url": url,
        "data_dir": folder,
        "write_mode": "commit" if name in (COMMIT, SEALED) else "contents",
        "low_budget": _ALWAYS_LOW if name == BATCHES else 100,
        "write_interval_s": 0,
        "content_per_minute": 0,
        "content_per_hour": 0,
    }
    if name == SEALED:
        values["encryption_key"] = json.dumps(make_shared_key())
    return Settings(**{**values, **changes})
