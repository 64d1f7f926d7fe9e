"""Writers that meet what retention has left: nothing comes back that was removed, no number is used again."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import Unavailable
from holdfast.format.index import parse_index
from holdfast.github.calls import ListFolder, ReadFile
from holdfast.github.write_calls import WriteFile
from tests.fakes.assembly import BRANCH
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, check_run, open_workshop, stored_run, trim

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


def test_index_that_was_removed_does_not_come_back(workshop: Workshop, repository: MemoryGateway) -> None:
    store(workshop, 3)
    trim(repository)

    store(workshop)

    assert check_run(repository).keys() == {3, 4}, "the latest has got a file of its own again"


def test_index_that_was_removed_does_not_come_back_after_a_restart(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path, repository) as before:
        store(before, 3)
    trim(repository)

    with open_workshop(tmp_path, repository) as after:
        store(after)

    assert check_run(repository).keys() == {3, 4}


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


def test_number_of_a_latest_that_was_left_alone_is_not_taken_by_one_who_did_not_know(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with (
        open_workshop(tmp_path / "first", repository) as first,
        open_workshop(tmp_path / "second", repository) as second,
    ):
        store(first)  # it believes from now on that the run has one checkpoint
        store(second, 2)
        trim(repository)
        written = repository.count(WriteFile)

        store(first)

    # Under the number that was free as far as it knew, then under the next; the latest that was left alone;
    # index and latest.
    assert repository.count(WriteFile) - written == 5
    assert check_run(repository).keys() == {3, 4}


def test_batch_of_one_who_did_not_know_is_given_up_as_a_whole(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with (
        open_workshop(tmp_path / "first", repository) as first,
        open_workshop(tmp_path / "second", repository) as second,
    ):
        store(first)
        store(second, 2)
        trim(repository)
        first.worker.policy = replace(first.worker.policy, singles_share=0.0)
        for _ in range(3):
            first.save()  # as 2 to 4, as far as it knows; but 3 was the latest

        assert first.worker.drain().left == 0

    assert list(check_run(repository)) == [3, 5, 6, 7]


def test_damaged_file_of_the_latest_is_mended_and_costs_the_others_nothing(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path / "first", repository) as first:
        store(first, 3)
    damage = {"checkpoints/r/index.json": None, "checkpoints/r/cp_003_manual.json": b"{"}
    repository.write_as_someone_else(BRANCH, damage)

    with open_workshop(tmp_path / "second", repository) as second:
        store(second)

    assert list(check_run(repository)) == [1, 2, 3, 4]


def test_index_that_a_late_write_brought_back_is_mended_by_the_next_checkpoint(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path / "a", repository) as workshop:
        store(workshop, 3)
        index = repository.files(BRANCH)["checkpoints/r/index.json"]
        trim(repository)
        repository.write_as_someone_else(BRANCH, {"checkpoints/r/index.json": index})

    with open_workshop(tmp_path / "b", repository) as other:
        store(other)

    assert check_run(repository).keys() == {3, 4}


def test_numbers_go_on_after_what_was_pruned(tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path / "a", repository) as workshop:
        store(workshop, 5)
        path = "checkpoints/r/index.json"
        index = parse_index(repository.files(BRANCH)[path], path)
        rest = index.without({entry.checkpoint_id for entry in index.entries if entry.sequence in (1, 2, 4)})
        gone = {f"checkpoints/r/cp_00{n}_manual.json": None for n in (1, 2, 4)}
        repository.write_as_someone_else(BRANCH, {path: rest.to_bytes(), **gone})

    with open_workshop(tmp_path / "b", repository) as other:
        store(other)
        store(other)

    assert check_run(repository).keys() == {3, 5, 6, 7}


@pytest.mark.parametrize("mode", MODES)
def test_numbers_go_on_after_the_latest_that_was_left_alone(
    mode: str, tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path / "a", repository) as workshop:
        store(workshop, 3)
    trim(repository)

    for name in ("b", "c"):
        with open_workshop(tmp_path / name, repository, mode=mode) as other:
            store(other)

    assert check_run(repository).keys() == {3, 4, 5}


@pytest.mark.parametrize("mode", MODES)
def test_archived_run_comes_back_to_life(mode: str, tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path, repository, mode=mode) as workshop:
        store(workshop, 3)
        trim(repository, keeps=())
        repository.write_as_someone_else(BRANCH, {"checkpoints/r/summary.json": b"{}"})
        store(workshop)

    files = stored_run(repository)
    assert files["latest.json"]["sequence_number"] == 4
    assert [entry["sequence"] for entry in files["index.json"]["checkpoints"]] == [4]


def test_part_that_was_removed_before_its_checkpoint_landed_is_stored_again(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    state = {"large": "x" * 9000}

    def is_checkpoint(call: WriteFile) -> bool:
        if "cp_002" in call.path:
            trim(repository)
        return False

    with open_workshop(tmp_path, repository, max_file_bytes=4000) as workshop:
        workshop.save(state=state)
        workshop.worker.drain()
        workshop.save(state=state)
        repository.fail_next(WriteFile, Unavailable("", ""), when=is_checkpoint)
        assert workshop.worker.drain().left == 0
        assert workshop.reader.read_checkpoint("r", 2).content

    names = stored_run(repository).keys()
    assert [name for name in names if name.startswith("parts/")]
