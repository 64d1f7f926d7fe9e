"""A repository in memory with a commit in it, and a machine that works on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.assembly import BRANCH
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, open_workshop


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    repository.write_as_someone_else(BRANCH, {"README.md": b""})
    return repository


@pytest.fixture
def workshop(tmp_path: Path, repository: MemoryGateway) -> Iterator[Workshop]:
    with open_workshop(tmp_path, repository) as workshop:
        yield workshop
