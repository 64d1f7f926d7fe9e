"""What is wrong with one run's folder, or too large in it, stops no other run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pygit2
import pytest

from holdfast.emulator.app import Emulator
from holdfast.emulator.options import EmulatorOptions
from holdfast.emulator.transport import EmulatorTransport
from holdfast.github.client import GitHubClient
from tests.fakes.clock import VirtualClock
from tests.fakes.repository import check_files, read_branch
from tests.fakes.workshop import Workshop, open_workshop

REPOSITORY = "holdfast/checkpoints"
OTHERS = ("a", "s", "z")
LARGE = b'{"run_id": "r", "checkpoints": [], "x": "%s"}' % (b"x" * 11 * 1024**2)


@contextmanager
def workshop_on_emulator(folder: Path, mode: str) -> Iterator[tuple[Workshop, Path]]:
    """Open a writer on a real git repository, and yield where that lies, too."""
    clock = VirtualClock()
    emulator = Emulator(EmulatorOptions(root=folder / "github", repo=REPOSITORY, clock=clock.now))
    transport = EmulatorTransport(emulator, sleep=clock.sleep)
    with (
        GitHubClient(
            REPOSITORY,
            token=lambda: "a-token",
            api_url="http://github.test",
            clock=clock,
            transport=transport,
        ) as client,
        open_workshop(folder / "machine", client, mode=mode, clock=clock) as workshop,
    ):
        yield workshop, folder / "github" / f"{REPOSITORY}.git"
    emulator.close()


@pytest.fixture(params=["contents", "commit"])
def opened(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Workshop, Path]]:
    with workshop_on_emulator(tmp_path, request.param) as opened:
        yield opened


def put(repository: Path, path: str, content: bytes, mode: pygit2.enums.FileMode) -> None:
    """Commit something at a path, whatever was there before."""
    git = pygit2.Repository(str(repository))
    head = git.branches["checkpoints"].peel(pygit2.Commit)
    index = pygit2.Index()
    index.read_tree(head.tree)
    is_commit = mode == pygit2.enums.FileMode.COMMIT
    index.add(pygit2.IndexEntry(path, head.id if is_commit else git.create_blob(content), mode))
    commit(git, index)


def take_away(repository: Path, path: str) -> None:
    git = pygit2.Repository(str(repository))
    index = pygit2.Index()
    index.read_tree(git.branches["checkpoints"].peel(pygit2.Commit).tree)
    index.remove(path)
    commit(git, index)


def commit(git: pygit2.Repository, index: pygit2.Index) -> None:
    head = git.branches["checkpoints"].peel(pygit2.Commit)
    someone = pygit2.Signature("Someone", "someone@example.com", 1_800_000_000, 0)
    git.create_commit("refs/heads/checkpoints", someone, someone, "x", index.write_tree(git), [head.id])


@pytest.mark.parametrize(
    "mode", [pygit2.enums.FileMode.BLOB, pygit2.enums.FileMode.LINK, pygit2.enums.FileMode.COMMIT]
)
def test_something_in_the_place_of_a_runs_folder_isolates_that_run_until_it_is_moved_away(
    opened: tuple[Workshop, Path], mode: pygit2.enums.FileMode
) -> None:
    workshop, repository = opened
    workshop.save("first")
    workshop.worker.drain()
    put(repository, "checkpoints/r", b"elsewhere", mode)
    for run_id in ("r", *OTHERS):
        workshop.save(run_id)

    result = workshop.worker.drain(timeout_s=60)

    assert (result.verified, result.left) == (len(OTHERS), 1)
    assert workshop.spool.status(0.0).set_aside == 0
    for run_id in OTHERS:
        check_files(read_branch(repository), run_id)

    take_away(repository, "checkpoints/r")
    result = workshop.worker.drain(timeout_s=900)

    assert (result.verified, result.left) == (1, 0)
    check_files(read_branch(repository), "r")


@pytest.mark.parametrize("name", ["index.json", "latest.json"])
def test_large_file_of_one_run_does_not_stop_the_others(opened: tuple[Workshop, Path], name: str) -> None:
    workshop, repository = opened
    workshop.save("r")
    workshop.worker.drain()
    put(repository, f"checkpoints/r/{name}", LARGE, pygit2.enums.FileMode.BLOB)
    for run_id in ("r", *OTHERS):
        workshop.save(run_id)

    result = workshop.worker.drain(timeout_s=60)

    assert result.verified >= len(OTHERS)
    for run_id in OTHERS:
        check_files(read_branch(repository), run_id)


@pytest.mark.parametrize("name", ["index.json", "latest.json"])
def test_large_file_of_one_run_does_not_hide_the_others(opened: tuple[Workshop, Path], name: str) -> None:
    workshop, repository = opened
    for run_id in OTHERS:
        workshop.save(run_id)
    workshop.worker.drain()
    put(repository, f"checkpoints/r/{name}", LARGE, pygit2.enums.FileMode.BLOB)

    assert {run.run_id for run in workshop.reader.list_runs()} >= set(OTHERS)
