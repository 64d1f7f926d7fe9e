"""A long run costs what a short one does: counted in requests, and in segments that are opened."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cache import local_copy
from holdfast.format import index as index_module
from holdfast.format import index_segments
from holdfast.github.calls import ListFolder, ReadBlobs, ReadHeadIfChanged, ReadPage, ReadTree
from holdfast.repository import runs, sources, stored_run, understanding
from tests.fakes.assembly import BRANCH
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.one_run import store
from tests.fakes.workshop import Workshop, check_run, open_workshop

MODES = pytest.mark.parametrize("mode", ["contents", "commit"])
SHORT, LONG = 3, 41


@pytest.fixture(autouse=True)
def short_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MOST_LISTED", 6)
    monkeypatch.setattr(index_module, "_LEAST_LISTED", 2)
    monkeypatch.setattr(index_module, "_MOST_LISTED_BESIDE_SEGMENTS", 4)
    monkeypatch.setattr(index_module, "_MOST_IN_A_SEGMENT", 8)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the paths of the segments that are opened, or outlined, from here on."""
    paths: list[str] = []

    def outline_segment(
        segment: index_segments.Segment, content: bytes, run_id: str
    ) -> index_segments.Segment:
        paths.append(segment.file_path)
        return index_segments.outline_segment(segment, content, run_id)

    monkeypatch.setattr(understanding, "outline_segment", outline_segment)

    def open_segment(segment: index_segments.Segment, content: bytes, run_id: str) -> index_segments.Segment:
        paths.append(segment.file_path)
        return index_segments.open_segment(segment, content, run_id)

    for module in (runs, sources, stored_run, understanding):
        monkeypatch.setattr(module, "open_segment", open_segment)
    return paths


def make_repository(folder: Path, mode: str) -> MemoryGateway:
    """Return a repository with a short run and a long one, written by the machine in `folder`."""
    repository = MemoryGateway()
    repository.write_as_someone_else(BRANCH, {"README.md": b""})
    with open_workshop(folder, repository, mode=mode) as workshop:
        store(workshop, SHORT, "short")
        for _ in range(LONG):
            workshop.save("long")
        assert workshop.worker.drain().left == 0
    return repository


def calls_of(repository: MemoryGateway, work: Callable[[], object]) -> list[str]:
    """Return which calls some work makes."""
    repository.calls.clear()
    work()
    return [type(call).__name__ for call in repository.calls]


@MODES
def test_save_of_a_process_that_begins_opens_no_segment(tmp_path: Path, mode: str, opened: list[str]) -> None:
    repository = make_repository(tmp_path / "ours", mode)
    opened.clear()

    def save_twice(run_id: str) -> list[list[str]]:
        with open_workshop(tmp_path / "ours", repository, mode=mode) as workshop:
            return [calls_of(repository, lambda: store(workshop, 1, run_id)) for _ in range(2)]

    costs = {run_id: save_twice(run_id) for run_id in ("short", "long")}

    assert len(index_of_long(repository).segments) > 3
    assert costs["long"] == costs["short"]
    assert not opened
    assert len(check_run(repository, "long")) == LONG + 2


@MODES
def test_machine_that_is_new_to_a_run_opens_each_segment_once_and_never_again(
    tmp_path: Path, mode: str, opened: list[str]
) -> None:
    repository = make_repository(tmp_path / "ours", mode)
    segments = [segment.file_path for segment in index_of_long(repository).segments]
    opened.clear()
    with open_workshop(tmp_path / "theirs", repository, mode=mode) as theirs:
        store(theirs, 1, "long")
    assert sorted(opened) == sorted(segments)

    opened.clear()
    with open_workshop(tmp_path / "theirs", repository, mode=mode) as theirs:
        store(theirs, 2, "long")
    assert not opened


@MODES
def test_id_that_a_segment_has_is_stored_once_although_only_its_outline_is_known(
    tmp_path: Path, mode: str, opened: list[str]
) -> None:
    repository = make_repository(tmp_path / "ours", mode)
    old = next(iter(check_run(repository, "long").items()))
    with open_workshop(tmp_path / "theirs", repository, mode=mode) as theirs:
        store(theirs, 1, "long")
    opened.clear()

    with open_workshop(tmp_path / "theirs", repository, mode=mode) as theirs:
        theirs.save("long", checkpoint_id=old[1])
        assert theirs.worker.drain().left == 0
        again = theirs.spool.receipt(old[1])

    assert again
    assert again.sequence_number == old[0]
    assert len(opened) == 1
    assert len(check_run(repository, "long")) == LONG + 1


@MODES
def test_file_of_a_segment_that_is_gone_is_noticed_although_only_its_outline_is_known(
    tmp_path: Path, mode: str
) -> None:
    repository = make_repository(tmp_path / "ours", mode)
    repository.write_as_someone_else(BRANCH, {"checkpoints/long/cp_002_manual.json": None})

    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        store(ours, 1, "long")

    assert 2 not in check_run(repository, "long")
    assert len(check_run(repository, "long")) == LONG


@MODES
def test_outline_that_is_lost_is_made_anew(
    tmp_path: Path, mode: str, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = make_repository(tmp_path / "ours", mode)
    with monkeypatch.context() as broken:
        broken.setattr(local_copy.RepositoryCache, "outlines", lambda *_: {})
        opened.clear()
        with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
            store(ours, 1, "long")
    assert opened

    opened.clear()
    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        store(ours, 1, "long")
    assert not opened
    assert len(check_run(repository, "long")) == LONG + 2


@pytest.mark.parametrize("machine", ["ours", "theirs"])
def test_list_of_the_newest_and_resume_cost_the_same_and_open_no_segment(
    tmp_path: Path, machine: str, opened: list[str]
) -> None:
    repository = make_repository(tmp_path / "ours", "commit")
    opened.clear()

    def look(workshop: Workshop, run_id: str) -> list[list[str]]:
        reader = workshop.reader
        return [
            calls_of(repository, lambda: reader.list_checkpoints(run_id, newest=2)),
            calls_of(repository, lambda: reader.list_checkpoints(run_id, newest=2)),
            calls_of(repository, lambda: reader.resume(run_id)),
            calls_of(repository, lambda: reader.resume(run_id)),
        ]

    costs = {}
    for run_id in ("short", "long"):
        with open_workshop(tmp_path / machine, repository) as workshop:
            if machine == "theirs":
                workshop.assembly.cache.keep_head(local_copy.Head("", ""))
            costs[run_id] = look(workshop, run_id)

    assert costs["long"] == costs["short"]
    assert len(costs["long"][0]) <= 2
    assert costs["long"][1] == ["ReadHeadIfChanged"]
    assert not opened


def test_folder_that_is_too_long_for_a_listing_costs_one_query_more_and_none_once_that_is_known(
    tmp_path: Path,
) -> None:
    repository = MemoryGateway()
    files = {f"checkpoints/r/cp_{number:03d}_manual.json": b"{}" for number in range(1, 1201)}
    repository.write_as_someone_else(BRANCH, files)
    with open_workshop(tmp_path, repository) as workshop:
        listed = workshop.assembly.reader._github(is_hasty=False).files("r")
        assert len(listed) == 1200
        assert (repository.count(ListFolder), repository.count(ReadPage)) == (1, 1)
        assert repository.count(ReadTree) == 0

        repository.write_as_someone_else(BRANCH, {"checkpoints/r/cp_1201_manual.json": b"{}"})
        repository.calls.clear()
        again = workshop.assembly.reader._github(is_hasty=False).files("r")

    assert len(again) == 1201
    assert (repository.count(ListFolder), repository.count(ReadPage)) == (0, 1)
    assert repository.count(ReadBlobs) == 0


def test_folder_that_is_too_long_is_walked_to_where_there_is_no_graphql(tmp_path: Path) -> None:
    repository = MemoryGateway(has_graphql=False)
    files = {f"checkpoints/r/cp_{number:03d}_manual.json": b"{}" for number in range(1, 1201)}
    repository.write_as_someone_else(BRANCH, files)
    with open_workshop(tmp_path, repository) as workshop:
        listed = workshop.assembly.reader._github(is_hasty=False).files("r")

    assert len(listed) == 1200
    assert repository.count(ReadTree) == 3


def index_of_long(repository: MemoryGateway) -> index_module.Index:
    return index_module.parse_index(repository.files(BRANCH)["checkpoints/long/index.json"], "index.json")


@pytest.mark.parametrize("machine", ["ours", "theirs"])
def test_checkpoints_and_plan_are_had_together_with_one_question_for_the_head(
    tmp_path: Path, machine: str
) -> None:
    repository = make_repository(tmp_path / "ours", "commit")
    with open_workshop(tmp_path / machine, repository) as workshop:
        repository.calls.clear()
        index, plan = workshop.reader.look_at("long", newest=2)

    assert [entry.sequence for entry in index.entries] == [LONG - 1, LONG]
    assert plan.sequence_number == LONG
    assert repository.count(ReadHeadIfChanged) == 1
    assert len(repository.calls) <= 3
