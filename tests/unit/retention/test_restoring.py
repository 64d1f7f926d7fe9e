"""What came between is put back beside what has been written since."""

import json

from holdfast.clock import Deadline
from holdfast.retention.restoring import Restoring
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.repository import check_files
from tests.fakes.stored_runs import NOON, make_run, with_paths

INDEX = "checkpoints/r/index.json"
LATEST = "checkpoints/r/latest.json"


def test_checkpoints_of_both_histories_are_there_and_in_the_index() -> None:
    repository = MemoryGateway()
    one, two, three = (with_paths({"r": make_run("r", count, at=NOON)}) for count in (1, 2, 3))
    before = repository.write_as_someone_else(BRANCH, one)
    between = repository.write_as_someone_else(BRANCH, two)
    repository.branches[BRANCH] = before
    third = "checkpoints/r/cp_003_manual.json"
    index = json.loads(three[INDEX])
    index["checkpoints"] = [entry for entry in index["checkpoints"] if entry["sequence"] != 2]
    since = {third: three[third], INDEX: json.dumps(index).encode(), LATEST: three[LATEST]}
    repository.write_as_someone_else(BRANCH, since)

    Restoring(repository, BRANCH, Deadline(VirtualClock())).put_back(before, between)

    assert repository.files(BRANCH)[LATEST] == three[LATEST]
    stored = json.loads(repository.files(BRANCH)[INDEX])["checkpoints"]
    assert [entry["sequence"] for entry in stored] == [1, 2, 3]


def test_nothing_else_is_touched() -> None:
    repository = MemoryGateway()
    before = repository.write_as_someone_else(BRANCH, with_paths({"r": make_run("r", 1)}))
    between = repository.write_as_someone_else(BRANCH, with_paths({"s": make_run("s", 2)}))
    repository.branches[BRANCH] = before
    repository.write_as_someone_else(BRANCH, with_paths({"t": make_run("t", 2)}))

    Restoring(repository, BRANCH, Deadline(VirtualClock())).put_back(before, between)

    for run_id in ("r", "s", "t"):
        check_files(repository.files(BRANCH), run_id)
