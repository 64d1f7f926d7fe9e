"""The list of preserved runs."""

import json

import pytest

from holdfast.clock import Deadline
from holdfast.errors import Conflict, IntegrityFailure
from holdfast.format.paths import Layout
from holdfast.github.write_calls import WriteFile
from holdfast.retention.preserved import PreservedRuns
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway

PATH = "checkpoints/preserved_runs.json"


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    repository.write_as_someone_else(BRANCH, {"README.md": b"hello"})
    return repository


def preserved(repository: MemoryGateway) -> PreservedRuns:
    return PreservedRuns(repository, Layout(), BRANCH, Deadline(VirtualClock()))


def test_run_is_added_and_removed_once(repository: MemoryGateway) -> None:
    runs = preserved(repository)

    assert [runs.add("b"), runs.add("a"), runs.add("b")] == [True, True, False]
    assert json.loads(repository.files(BRANCH)[PATH]) == ["a", "b"]
    assert [runs.remove("b"), runs.remove("b")] == [True, False]
    assert runs.read() == {"a"}


def test_list_is_begun_in_an_empty_repository() -> None:
    repository = MemoryGateway()

    assert preserved(repository).add("a")

    assert json.loads(repository.files(BRANCH)[PATH]) == ["a"]


def test_other_runs_that_are_added_meanwhile_stay(repository: MemoryGateway) -> None:
    def add(_: object) -> bool:
        repository.write_as_someone_else(BRANCH, {PATH: b'["other"]'})
        return True

    repository.fail_next(WriteFile, Conflict(PATH, "stale", kind="stale_file"), when=add)

    preserved(repository).add("a")

    assert json.loads(repository.files(BRANCH)[PATH]) == ["a", "other"]


def test_conflict_without_end_is_raised(repository: MemoryGateway) -> None:
    repository.fail_next(WriteFile, Conflict(PATH, "stale", kind="stale_file"), times=50)

    with pytest.raises(Conflict):
        preserved(repository).add("a")


def test_damaged_list_is_not_overwritten(repository: MemoryGateway) -> None:
    repository.write_as_someone_else(BRANCH, {PATH: b'["other"'})

    with pytest.raises(IntegrityFailure):
        preserved(repository).add("a")

    assert repository.files(BRANCH)[PATH] == b'["other"'
