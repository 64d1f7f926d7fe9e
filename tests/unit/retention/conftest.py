"""Three runs, of which the rules keep one, trim one and archive one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.desk import Desk, open_desk
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.stored_runs import NOON, make_run, with_paths


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    repository, clock = MemoryGateway(), VirtualClock(NOON)
    runs = {name: make_run(name, at=NOON - age) for name, age in (("new", 10), ("old", 20), ("older", 30))}
    repository.write_as_someone_else(BRANCH, with_paths(runs))
    with open_desk(tmp_path, repository, clock) as desk:
        yield desk
