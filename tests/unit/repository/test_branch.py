"""A branch that is missing is made by whoever first needs it."""

import pytest

from holdfast.errors import Missing, Unavailable
from holdfast.github.write_calls import CreateBranch, WriteFile
from holdfast.repository.branch import perform_on_branch
from tests.fakes.memory_gateway import MemoryGateway

WRITE = WriteFile("checkpoints/a.json", b"{}", "A message", "checkpoints")


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    repository.write_as_someone_else("main", {"README.md": b"code"})
    return repository


def test_call_on_a_missing_branch_makes_it_and_is_performed_again(repository: MemoryGateway) -> None:
    perform_on_branch(repository, "checkpoints", WRITE)
    perform_on_branch(repository, "checkpoints", WriteFile("b.json", b"{}", "Another", "checkpoints"))

    assert {"checkpoints/a.json", "b.json"} < set(repository.files("checkpoints"))
    assert repository.count(CreateBranch) == 1


def test_what_is_missing_although_the_branch_is_there_is_missing(repository: MemoryGateway) -> None:
    repository.fail_next(WriteFile, Missing("x", "no such branch"), times=9)

    with pytest.raises(Missing):
        perform_on_branch(repository, "checkpoints", WRITE)
    assert repository.count(WriteFile) == 2


def test_other_failures_make_no_branch(repository: MemoryGateway) -> None:
    repository.fail_next(WriteFile, Unavailable("x", "502"))

    with pytest.raises(Unavailable):
        perform_on_branch(repository, "checkpoints", WRITE)
    assert "checkpoints" not in repository.branches
