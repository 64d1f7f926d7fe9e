"""Writers beside other writers and a cleanup, at exactly the wrong moment: nothing is lost or doubled."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.drain.pending import LONGEST_REQUEST_S
from holdfast.errors import Missing, Throttled, Unavailable
from holdfast.format.receipt import Progress
from holdfast.github.calls import ReadPage
from holdfast.github.write_calls import CommitFiles, DeleteFile, WriteFile, WriteTree
from holdfast.retention.rules import RetentionRules
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.desk import open_desk
from tests.fakes.meddling import LaggingGateway, MeddlingGateway
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.one_run import index_of, names_of, store
from tests.fakes.stored_runs import make_run, with_paths
from tests.fakes.workshop import Workshop, check_run, open_workshop, stored_run, trim


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    repository.write_as_someone_else(BRANCH, {"README.md": b""})
    return repository


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def dangling(repository: MemoryGateway) -> set[str]:
    return {entry.file_path for entry in index_of(repository).entries} - repository.files(BRANCH).keys()


def write_a_later_run(repository: MemoryGateway, clock: VirtualClock) -> None:
    """Make the run one of those of which cleanup keeps the latest alone."""
    clock.sleep(60)
    repository.write_as_someone_else(BRANCH, with_paths({"z": make_run("z", 2, at=clock.now())}))


def puts(name: str) -> Callable[[Any], bool]:
    return lambda call: isinstance(call, WriteFile) and call.path.startswith(f"checkpoints/r/{name}")


def test_run_that_was_empty_when_it_was_looked_at_is_looked_at_again(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path / "theirs", repository) as theirs:

        def meddle() -> None:
            store(theirs, 3)
            trim(repository)

        meddling = MeddlingGateway(repository, puts("cp_"), meddle)
        with open_workshop(tmp_path / "ours", meddling) as ours:
            stored = store(ours, 3)

    assert [receipt.sequence_number for receipt in stored] == [4, 5, 6]
    assert check_run(repository).keys() == {3, 4, 5, 6}


def test_run_that_is_remembered_as_empty_is_doubted(tmp_path: Path, repository: MemoryGateway) -> None:
    repository.secret = b"SECRET"
    with (
        open_workshop(tmp_path / "ours", repository) as ours,
        open_workshop(tmp_path / "theirs", repository) as theirs,
    ):
        ours.save(state={"x": "SECRET"})
        ours.worker.drain()  # it is refused, and all that is remembered is an empty folder
        store(theirs, 3)
        trim(repository)
        (receipt,) = store(ours)

    assert receipt.sequence_number == 4
    assert stored_run(repository)["latest.json"]["checkpoint_id"] == receipt.checkpoint_id


def test_listing_that_lags_behind_brings_no_index_back(tmp_path: Path, repository: MemoryGateway) -> None:
    lagging = LaggingGateway(repository)
    with (
        open_workshop(tmp_path / "theirs", repository) as theirs,
        open_workshop(tmp_path / "ours", lagging) as ours,
    ):
        store(theirs, 3)
        store(ours, run_id="other")
        lagging.shows.append(repository.branches[BRANCH])
        trim(repository)
        before = lagging.shows.pop()
        store(ours, run_id="other")  # on top of the cleanup
        lagging.shows.append(before)
        store(ours)

    assert check_run(repository).keys() == {3, 4}


def test_run_that_was_archived_between_index_and_latest_is_not_certain(
    tmp_path: Path, repository: MemoryGateway, clock: VirtualClock
) -> None:
    rules = RetentionRules(deletes_completed=True)
    with (
        open_workshop(tmp_path / "theirs", repository, clock=clock) as theirs,
        open_desk(tmp_path / "desk", repository, clock, rules) as desk,
    ):

        def meddle() -> None:
            store(theirs, status="completed")
            desk.sweeper.sweep()
            assert desk.names("r") == {"summary.json"}

        meddling = MeddlingGateway(
            repository, lambda call: puts("latest")(call) and call.expected_sha is not None, meddle
        )
        with open_workshop(tmp_path / "ours", meddling, clock=clock) as ours:
            store(ours, 3)

    assert not dangling(repository)


def test_part_on_its_way_into_a_trimmed_run_is_not_swept_away(
    tmp_path: Path, repository: MemoryGateway, clock: VirtualClock
) -> None:
    with open_workshop(tmp_path / "old", repository, clock=clock) as old:
        store(old, 3)
    write_a_later_run(repository, clock)
    with open_desk(tmp_path / "desk", repository, clock) as desk:
        desk.sweeper.sweep()
        assert desk.names("r") == {"latest.json"}
        meddling = MeddlingGateway(repository, puts("cp_"), desk.sweeper.sweep)
        with open_workshop(tmp_path / "new", meddling, clock=clock, max_file_bytes=4000) as new:
            (receipt,) = store(new, state={"large": "x" * 9000})

    assert receipt.status is Progress.VERIFIED
    assert any(name.startswith("parts/") for name in names_of(repository))


class _FileByFile:
    """A repository without GraphQL and git data; `pause` happens before the first checkpoint is deleted."""

    def __init__(self, inner: MemoryGateway, pause: Callable[[], object]) -> None:
        self._inner = MeddlingGateway(
            inner, lambda call: isinstance(call, DeleteFile) and "/cp_" in call.path, pause
        )

    def perform(self, call: Any) -> Any:
        if isinstance(call, WriteTree):
            raise Missing("git", "no git data here")
        return self._inner.perform(call)


def test_index_made_anew_names_nothing_that_a_sweep_is_deleting(tmp_path: Path, clock: VirtualClock) -> None:
    repository = MemoryGateway(has_graphql=False)
    with open_workshop(tmp_path / "old", repository, clock=clock) as old:
        store(old, 3)
    write_a_later_run(repository, clock)

    def look_and_write() -> None:
        """Find the index gone and the files there; they go as well before ours is written."""
        meddling = MeddlingGateway(repository, puts("cp_"), lambda: trim(repository))
        with open_workshop(tmp_path / "new", meddling, clock=clock) as new:
            store(new)

    with open_desk(tmp_path / "desk", _FileByFile(repository, look_and_write), clock) as desk:
        desk.sweeper.sweep()

    assert stored_run(repository)["latest.json"]["sequence_number"] == 4
    assert "index.json" not in names_of(repository) or not dangling(repository)


def test_batch_with_a_gap_where_the_latest_was_does_not_pass_for_it(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with (
        open_workshop(tmp_path / "ours", repository) as ours,
        open_workshop(tmp_path / "theirs", repository) as theirs,
    ):
        store(ours)
        store(theirs, 2)
        trim(repository)
        ours.worker.policy = replace(ours.worker.policy, singles_share=0.0)
        for number in (2, 4):
            ours.save(sequence_number=number)
        assert ours.worker.drain().left == 0

    assert list(check_run(repository)) == [3, 5, 6]


def test_litter_that_came_to_be_of_use_is_no_litter(tmp_path: Path, repository: MemoryGateway) -> None:
    lagging = LaggingGateway(repository)
    with open_workshop(tmp_path, lagging, max_file_bytes=4000) as workshop:
        store(workshop)
        repository.secret = b"SECRET"
        good = workshop.save()
        workshop.save(state={"large": "x" * 9000 + "SECRET"})
        # Both go together and the second is refused: the write is given up, to be done in halves.
        wait_s = LONGEST_REQUEST_S - 0.5
        throttled = Throttled("x", "slow down", kind="secondary", retry_after_s=wait_s)
        repository.fail_next(WriteFile, throttled, when=lambda call: "cp_002" in call.path)
        workshop.worker.drain()
        workshop.clock.sleep(wait_s)
        assert workshop.worker.drain().left == 0
        assert list(check_run(repository)) == [1, 2]

        workshop.clock.sleep(1)
        message = f"Checkpoint {good.checkpoint_id}"
        lagging.shows += [commit.sha for commit in repository.history(BRANCH) if commit.message == message]
        workshop.save()
        workshop.worker.drain()

    assert list(check_run(repository)) == [1, 2, 4]


def test_leftovers_of_a_sweep_that_was_cut_short_go_with_a_later_one(
    tmp_path: Path, repository: MemoryGateway, clock: VirtualClock
) -> None:
    with open_workshop(tmp_path / "ours", repository, clock=clock) as ours:
        store(ours, 3)
        trim(repository, keeps=("latest.json", "cp_001_manual.json"))
        store(ours)

    with open_desk(tmp_path / "desk", repository, clock) as desk:
        desk.sweeper.sweep()

    assert "cp_001_manual.json" not in names_of(repository)
    assert list(check_run(repository)) == [3, 4]


def lose_the_answer(repository: MemoryGateway, workshop: Workshop) -> None:
    """Let the next commit be made, and let nobody know."""
    gone = Unavailable(BRANCH, "no answer")
    repository.fail_next(CommitFiles, gone, is_applied=True)
    # Each look asks twice: for the files, and whether GitHub is there at all.
    repository.fail_next(ReadPage, gone, times=6)
    workshop.worker.drain()
    workshop.clock.sleep(10_000)


@pytest.mark.parametrize("has_graphql", [True, False])
def test_own_latest_that_was_left_alone_is_stored_in_its_turn(
    tmp_path: Path, repository: MemoryGateway, *, has_graphql: bool
) -> None:
    with open_workshop(tmp_path, repository, mode="commit") as workshop:
        store(workshop, 2)
        first, second = workshop.save(), workshop.save()
        lose_the_answer(repository, workshop)
        trim(repository)
        repository.has_graphql = has_graphql
        assert workshop.worker.drain().left == 0
        numbers = [
            receipt.sequence_number
            for each in (first, second)
            if (receipt := workshop.spool.receipt(each.checkpoint_id))
        ]

    stored = check_run(repository)
    assert [stored[number] for number in numbers] == [first.checkpoint_id, second.checkpoint_id]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize("stored_before", [0, 1])
@pytest.mark.parametrize("name", ["batch_1_2.json", "cp_001_manual.json"])
@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_checkpoint_that_another_machine_has_stored_is_acknowledged_and_not_doubled(
    tmp_path: Path, repository: MemoryGateway, mode: str, name: str, stored_before: int
) -> None:
    with open_workshop(tmp_path / "theirs", repository) as theirs:
        share = 0.0 if name.startswith("batch") else 1.0
        theirs.worker.policy = replace(theirs.worker.policy, singles_share=share)
        saved = [theirs.save() for _ in range(2)]
        assert theirs.worker.drain().left == 0
    assert name in names_of(repository)
    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        store(ours)
    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        store(ours, stored_before)
        ours.save(checkpoint_id=saved[0].checkpoint_id)

        assert ours.worker.drain().left == 0

    assert len(check_run(repository)) == 3 + stored_before


def test_no_checkpoint_waits_for_what_is_to_be_deleted(tmp_path: Path, repository: MemoryGateway) -> None:
    throttled = Throttled("x", "used up", kind="own_budget", retry_after_s=60)
    with (
        open_workshop(tmp_path / "ours", repository) as ours,
        open_workshop(tmp_path / "theirs", repository) as theirs,
    ):
        store(ours)
        store(theirs, 2)
        trim(repository)
        repository.fail_next(DeleteFile, throttled)
        store(ours)  # first as 2, which was used
        assert "cp_002_manual.json" in names_of(repository)

        ours.clock.sleep(LONGEST_REQUEST_S)
        store(ours)

    assert list(check_run(repository)) == [3, 4, 5]


class _TearingGateway:
    """Stores checkpoints torn, for so many commits, and does not speak for them, as with more than 10 MB."""

    def __init__(self, inner: MemoryGateway, times: int) -> None:
        self._inner = inner
        self._times = times

    def perform(self, call: Any) -> Any:
        if not isinstance(call, CommitFiles) or not self._times:
            return self._inner.perform(call)
        self._times -= 1
        torn = {path: text[:50] if "/cp_" in path else text for path, text in call.additions.items()}
        revision = self._inner.perform(replace(call, additions=torn))
        spoken_for = {path: sha for path, sha in revision.blob_shas.items() if "/cp_" not in path}
        return replace(revision, blob_shas=spoken_for)


def test_what_a_commit_has_torn_is_written_again(tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path, _TearingGateway(repository, 1), mode="commit") as workshop:
        store(workshop)

    assert list(check_run(repository)) == [1]


def test_what_every_commit_tears_is_never_acknowledged(tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path, _TearingGateway(repository, 9), mode="commit") as workshop:
        receipt = workshop.save()
        workshop.worker.drain()
        found = workshop.spool.receipt(receipt.checkpoint_id)

    assert found is not None
    assert found.status is not Progress.VERIFIED
