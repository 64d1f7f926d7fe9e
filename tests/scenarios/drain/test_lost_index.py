"""Writers that find an index missing, damaged, put back or of another run: it is made whole."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.format.checkpoint import stamp
from holdfast.github.calls import (
    ListFolder,
    ReadTree,
)
from holdfast.github.results import Listing, Snapshot
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.desk import open_desk
from tests.fakes.meddling import LaggingGateway
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.one_run import index_of, names_of, remove, store
from tests.fakes.stored_runs import make_envelope
from tests.fakes.workshop import check_run, open_workshop


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    repository.write_as_someone_else(BRANCH, {"README.md": b""})
    return repository


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def test_number_of_the_latest_is_not_given_to_a_rival_that_sorts_before_it(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path / "theirs", repository) as theirs:
        stored = store(theirs, 3)
    rival = make_envelope("r", 3, trigger="iteration").content
    repository.write_as_someone_else(BRANCH, {"checkpoints/r/cp_003_iteration.json": rival})
    remove(repository, "index.json")

    with open_workshop(tmp_path / "ours", repository) as ours:
        store(ours)

    assert {receipt.checkpoint_id for receipt in stored} <= index_of(repository).by_id.keys()


def test_file_that_lists_a_part_where_there_is_none_is_left_out(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    body = json.loads(make_envelope("r", 1).content)
    del body["integrity"]
    body["parts"] = [["state_snapshot", "nowhere"]]
    content = stamp(json.dumps(body, separators=(",", ":")).encode()).content
    repository.write_as_someone_else(BRANCH, {"checkpoints/r/cp_001_manual.json": content})

    with open_workshop(tmp_path, repository) as workshop:
        (receipt,) = store(workshop)

    assert index_of(repository).by_id.keys() == {receipt.checkpoint_id}


class _CutGateway:
    """Lists no folder whole, not even by its tree."""

    def __init__(self, inner: MemoryGateway) -> None:
        self._inner = inner

    def perform(self, call: Any) -> Any:
        if isinstance(call, ReadTree):
            call = replace(call, sha=self._inner.branches.get(call.sha, call.sha))
        found = self._inner.perform(call)
        if isinstance(call, ListFolder):
            return found._replace(is_complete=False)
        if isinstance(call, ReadTree) and any(entry.path == "index.json" for entry in found.entries):
            kept = tuple(entry for entry in found.entries if entry.path != "cp_002_manual.json")
            return Listing(kept, is_complete=False)
        return found


def test_listing_that_was_cut_off_is_not_taken_for_whole(tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path / "theirs", repository) as theirs:
        store(theirs, 4)
    repository.has_graphql = False  # a query would list all of them

    with open_workshop(tmp_path / "ours", _CutGateway(repository)) as ours:
        ours.save()
        result = ours.worker.drain()

    assert result.left == 1
    assert "more than GitHub lists" in result.reason
    assert list(check_run(repository)) == [1, 2, 3, 4]


def test_index_made_anew_in_commit_mode_is_of_the_head(tmp_path: Path, repository: MemoryGateway) -> None:
    lagging = LaggingGateway(repository)
    with (
        open_workshop(tmp_path / "theirs", repository) as theirs,
        open_workshop(tmp_path / "ours", lagging, mode="commit") as ours,
    ):
        store(theirs, 2)
        before = repository.branches[BRANCH]
        store(theirs)
        repository.write_as_someone_else(BRANCH, {"checkpoints/r/index.json": b"{"})
        lagging.shows.append(before)
        store(ours)

    assert list(check_run(repository)) == [1, 2, 3, 4]


@pytest.mark.parametrize("gone", [("index.json",), ("index.json", "latest.json")])
@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_files_without_an_index_stay_in_the_run(
    mode: str, gone: tuple[str, ...], tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path / "theirs", repository) as theirs:
        store(theirs, 3)
    remove(repository, *gone)

    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        store(ours)

    assert list(check_run(repository)) == [1, 2, 3, 4]


@pytest.mark.parametrize("is_empty", [True, False])
@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_index_that_is_older_than_the_latest_is_made_whole(
    mode: str, *, is_empty: bool, tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path / "theirs", repository) as theirs:
        store(theirs, 2)
        older = index_of(repository)
        store(theirs, 3)
    put_back = replace(older, entries=()) if is_empty else older
    repository.write_as_someone_else(BRANCH, {"checkpoints/r/index.json": put_back.to_bytes()})

    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        store(ours)

    assert list(check_run(repository)) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_file_that_no_index_names_is_not_overwritten(
    mode: str, tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path / "theirs", repository) as theirs:
        store(theirs, 2)
        older = {path: text for path, text in repository.files(BRANCH).items() if "/cp_" not in path}
        store(theirs, 2)
    repository.write_as_someone_else(BRANCH, dict(older))
    before = repository.files(BRANCH)

    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        (receipt,) = store(ours)

    after = repository.files(BRANCH)
    assert receipt.sequence_number == 5
    assert {path: after[path] for path in before if "/cp_" in path}.items() <= before.items()


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_batch_that_cannot_be_read_whole_is_not_swept_away(
    mode: str, tmp_path: Path, repository: MemoryGateway, clock: VirtualClock
) -> None:
    with open_workshop(tmp_path / "theirs", repository, clock=clock) as theirs:
        usual = theirs.worker.policy
        theirs.worker.policy = replace(usual, singles_share=0.0)
        for _ in range(5):
            theirs.save()
        assert theirs.worker.drain().left == 0
        theirs.worker.policy = usual
        store(theirs)
    batch = json.loads(repository.files(BRANCH)["checkpoints/r/batch_1_5.json"])
    batch["checkpoints"][0]["phase"] = "altered"
    damaged = {"checkpoints/r/batch_1_5.json": json.dumps(batch).encode(), "checkpoints/r/index.json": None}
    repository.write_as_someone_else(BRANCH, damaged)

    with open_workshop(tmp_path / "ours", repository, mode=mode, clock=clock) as ours:
        store(ours)
    with open_desk(tmp_path / "desk", repository, clock) as desk:
        desk.sweeper.sweep()

    assert "batch_1_5.json" in names_of(repository)


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_index_that_was_put_back_gives_no_number_twice(
    mode: str, tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path / "theirs", repository) as theirs:
        store(theirs, 3)
        older = repository.files(BRANCH)["checkpoints/r/index.json"]
        store(theirs, 2)
    rival = make_envelope("r", 3, trigger="iteration").content
    changes = {"checkpoints/r/cp_003_iteration.json": rival, "checkpoints/r/index.json": older}
    repository.write_as_someone_else(BRANCH, dict(changes))

    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        store(ours)

    assert [entry.sequence for entry in index_of(repository).entries] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_number_that_was_pruned_stays_used_when_an_index_is_put_back(
    mode: str, tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path / "theirs", repository) as theirs:
        store(theirs, 3)
        older = repository.files(BRANCH)["checkpoints/r/index.json"]
        store(theirs, 7)
    remove(repository, *(f"cp_00{number}_manual.json" for number in range(1, 8)))
    repository.write_as_someone_else(BRANCH, {"checkpoints/r/index.json": older})

    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        (receipt,) = store(ours, sequence_number=5)

    assert receipt.sequence_number > 7


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_folder_that_was_copied_from_another_run_is_no_way_into_that_one(
    mode: str, tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path / "theirs", repository) as theirs:
        store(theirs, 3, run_id="other")
        copied = repository.files(BRANCH).items()
        copy = {path.replace("/other/", "/r/"): text for path, text in copied if "/other/" in path}
        store(theirs, 3, run_id="other")
    repository.write_as_someone_else(BRANCH, dict(copy))
    before = check_run(repository, "other")

    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        ours.save()
        ours.worker.drain()

    assert check_run(repository, "other") == before


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_latest_of_another_run_is_not_brought_back(
    mode: str, tmp_path: Path, repository: MemoryGateway
) -> None:
    foreign = make_envelope("other", 3).content
    repository.write_as_someone_else(BRANCH, {"checkpoints/r/latest.json": foreign})

    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        (receipt,) = store(ours)

    assert list(check_run(repository).values()) == [receipt.checkpoint_id]


class _FilesAloneGateway:
    """Shows files in a snapshot, but no folders."""

    def __init__(self, inner: MemoryGateway) -> None:
        self._inner = inner

    def perform(self, call: Any) -> Any:
        found = self._inner.perform(call)
        return found._replace(folders={}) if isinstance(found, Snapshot) else found


def test_commit_mode_lists_the_folder_where_a_snapshot_does_not(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path / "theirs", repository) as theirs:
        store(theirs, 3)
    remove(repository, "index.json")

    with open_workshop(tmp_path / "ours", _FilesAloneGateway(repository), mode="commit") as ours:
        store(ours, 2)

    assert list(check_run(repository)) == [1, 2, 3, 4, 5]
