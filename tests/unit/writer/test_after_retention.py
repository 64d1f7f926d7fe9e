"""Writers that meet what retention has left: nothing comes back that was removed, no number is used again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.index import parse_index
from holdfast.github.gateway import ListFolder, MoveBranch, ReadCommit, ReadFile, ReadHead, WriteCommit
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import BRANCH, Workshop, check_run, open_workshop

MODES = ("contents", "commit")


@pytest.fixture
def repository() -> MemoryGateway:
    return MemoryGateway()


@pytest.fixture(params=MODES)
def workshop(request: pytest.FixtureRequest, tmp_path: Path, repository: MemoryGateway) -> Iterator[Workshop]:
    with open_workshop(tmp_path / "first", repository, mode=request.param) as workshop:
        yield workshop


def store(workshop: Workshop, count: int = 1) -> None:
    for _ in range(count):
        workshop.save()
        assert workshop.worker.drain().left == 0


def trim(repository: MemoryGateway, *, keeps: tuple[str, ...] = ("latest.json",)) -> None:
    """Delete all files of the run but some, as another machine's cleanup does."""
    gone = [path for path in repository.files(BRANCH) if path.startswith("checkpoints/r/")]
    paths = [path for path in gone if path.rpartition("/")[2] not in keeps]
    repository.write_as_someone_else(BRANCH, dict.fromkeys(paths))


def squash(repository: MemoryGateway) -> None:
    tree_sha = repository.perform(ReadCommit(repository.perform(ReadHead(BRANCH)))).tree_sha
    commit_sha = repository.perform(WriteCommit(tree_sha, "Squashed"))
    repository.perform(MoveBranch(BRANCH, commit_sha, is_forced=True))


def test_index_that_was_removed_does_not_come_back(workshop: Workshop, repository: MemoryGateway) -> None:
    store(workshop, 3)
    trim(repository)

    store(workshop)

    assert check_run(repository).keys() == {4}


def test_index_that_was_removed_does_not_come_back_after_a_restart(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path, repository) as before:
        store(before, 3)
    trim(repository)

    with open_workshop(tmp_path, repository) as after:
        store(after)

    assert check_run(repository).keys() == {4}


def test_removed_index_never_names_what_is_gone_not_even_for_a_moment(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path, repository) as workshop:
        store(workshop, 3)
        trim(repository)
        workshop.save()
        workshop.worker.drain()

    for commit in repository.history(BRANCH):
        files = {
            entry.path: entry.sha
            for entry in repository.perform(ListFolder("checkpoints/r", commit.sha)).entries
        }
        if "index.json" in files:
            content = repository.perform(ReadFile("checkpoints/r/index.json", commit.sha)).content
            named = {entry.file_path for entry in parse_index(content, "index.json").entries}
            assert named <= {f"checkpoints/r/{name}" for name in files}
        if not commit.parent_shas[:1]:
            break
        if "Someone" in commit.message:
            break
