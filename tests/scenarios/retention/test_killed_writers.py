"""Writers that were killed and never came back: a clean-up ends what they had begun, and loses nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.clock import Deadline
from holdfast.errors import Unavailable
from holdfast.format.moments import format_moment
from holdfast.github.inspection import ReadHistory
from holdfast.github.write_calls import WriteFile
from holdfast.retention import Squash
from holdfast.retention.disposal import Action
from holdfast.retention.rules import DAY_S, RetentionRules
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.desk import Desk, open_desk
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.stored_runs import NOON
from tests.fakes.workshop import check_run, open_workshop

ALL = RetentionRules(full_runs=5)


@pytest.fixture(params=[True, False], ids=["one commit", "file by file"])
def repository(request: pytest.FixtureRequest) -> MemoryGateway:
    repository = MemoryGateway(has_graphql=request.param)
    repository.date = format_moment(NOON - 3 * DAY_S)
    return repository


def kill_at(repository: MemoryGateway, name: str) -> None:
    """Have every request for this file fail from now on: its writer gets no further."""
    repository.fail_next(
        WriteFile, Unavailable("", "killed"), times=50, when=lambda call: call.path.endswith(f"/{name}")
    )


def leave_file(
    folder: Path, repository: MemoryGateway, *, stored: int = 2, killed_at: str = "index.json"
) -> str:
    """Have a machine store some checkpoints, and be killed during the next; return the id of that one."""
    with open_workshop(folder, repository) as workshop:
        for _ in range(stored):
            workshop.save()
            workshop.worker.drain()
        kill_at(repository, killed_at)
        left = workshop.save()
        workshop.worker.drain()
    repository.forget_failures()
    return left.checkpoint_id


@contextmanager
def cleaning_at(folder: Path, repository: MemoryGateway, moment: float) -> Iterator[Desk]:
    repository.date = format_moment(moment)
    with open_desk(folder, repository, VirtualClock(moment), ALL) as desk:
        yield desk


def squash(repository: MemoryGateway, moment: float) -> None:
    repository.date = format_moment(moment)
    clock = VirtualClock(moment)
    Squash(repository, BRANCH, clock, Deadline(clock)).run(may_be_unguarded=True)


@pytest.mark.parametrize("stored", [0, 2])
@pytest.mark.parametrize("killed_at", ["index.json", "latest.json"])
def test_what_was_left_before_a_squash_comes_into_the_index(
    tmp_path: Path, repository: MemoryGateway, stored: int, killed_at: str
) -> None:
    left = leave_file(tmp_path / "killed", repository, stored=stored, killed_at=killed_at)
    squash(repository, NOON - 2 * DAY_S)

    with cleaning_at(tmp_path / "cleaner", repository, NOON) as desk:
        (plan,) = desk.sweeper.sweep().plan.runs

        assert plan.action is Action.MEND
        assert check_run(repository).keys() == set(range(1, stored + 2))
        assert left in repository.files(BRANCH)["checkpoints/r/latest.json"].decode()
        (plan,) = desk.sweeper.sweep().plan.runs
        assert plan.action is Action.KEEP


def test_what_was_left_just_now_is_its_writers_to_end(tmp_path: Path, repository: MemoryGateway) -> None:
    leave_file(tmp_path / "killed", repository)
    before = repository.files(BRANCH)

    with cleaning_at(tmp_path / "cleaner", repository, NOON - 2.5 * DAY_S) as desk:
        (plan,) = desk.sweeper.sweep().plan.runs

    assert plan.action is Action.LEAVE
    assert repository.files(BRANCH) == before


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_writer_that_comes_back_after_all_stores_nothing_twice(tmp_path: Path, mode: str) -> None:
    repository = MemoryGateway()
    repository.date = format_moment(NOON - 3 * DAY_S)
    left = leave_file(tmp_path / "killed", repository)
    with cleaning_at(tmp_path / "cleaner", repository, NOON) as desk:
        desk.sweeper.sweep()

    with open_workshop(tmp_path / "killed", repository, mode=mode) as back:
        assert back.worker.drain().left == 0
        back.save()
        assert back.worker.drain().left == 0

    stored = check_run(repository)
    assert stored.keys() == {1, 2, 3, 4}
    assert left in repository.files(BRANCH)["checkpoints/r/cp_003_manual.json"].decode()


def test_whole_runs_cost_no_look_into_the_history(tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path / "writer", repository) as workshop:
        workshop.save()
        workshop.worker.drain()

    with cleaning_at(tmp_path / "cleaner", repository, NOON) as desk:
        desk.sweeper.sweep()

    assert repository.count(ReadHistory) == 0
