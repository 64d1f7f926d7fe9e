"""What a scan learns of a branch, and how little it asks for."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from holdfast.cache.local_copy import RepositoryCache
from holdfast.errors import IntegrityFailure
from holdfast.format.moments import format_moment
from holdfast.github.calls import ReadBlob, ReadBlobs, ReadTree
from holdfast.github.presence import GraphqlPresence
from holdfast.retention.records import RetentionLog
from holdfast.retention.scan import WORTH_LISTING_ALL, Scanner
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.stored_runs import DAY_S, LAYOUT, NOON, make_run, with_paths

RUNS = {name: make_run(name) for name in ("a", "b")}


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    repository.date = format_moment(NOON)
    repository.write_as_someone_else(BRANCH, with_paths(RUNS))
    return repository


@pytest.fixture
def scanner(repository: MemoryGateway, tmp_path: Path) -> Iterator[Scanner]:
    cache = RepositoryCache(tmp_path)
    yield Scanner(repository, cache, LAYOUT, BRANCH, GraphqlPresence(VirtualClock()))
    cache.close()


def write(repository: MemoryGateway, path: str, content: bytes | None) -> None:
    repository.write_as_someone_else(BRANCH, {f"checkpoints/{path}": content})


def test_without_a_branch_there_is_nothing(scanner: Scanner, repository: MemoryGateway) -> None:
    repository.branches.clear()

    assert scanner.survey().runs == {}


def test_every_run_is_listed_and_understood(scanner: Scanner) -> None:
    found = scanner.survey()

    assert {run_id: run.files.keys() for run_id, run in found.runs.items()} == {
        run_id: files.keys() for run_id, files in RUNS.items()
    }
    assert [len(run.snapshot.index.all_entries) for run in found.runs.values()] == [3, 3]
    assert found.strangers == []


def test_only_the_runs_that_are_asked_for_are_read(scanner: Scanner) -> None:
    assert scanner.survey({"b", "unheard-of"}).runs.keys() == {"b"}


@pytest.mark.parametrize("path", ["notes.md", "..hidden/index.json", "nul/index.json"])
def test_what_we_did_not_write_is_named_as_a_strangers(
    scanner: Scanner, repository: MemoryGateway, path: str
) -> None:
    write(repository, path, b"{}")

    found = scanner.survey()

    assert found.strangers == [f"checkpoints/{path.partition('/')[0]}"]
    assert found.runs.keys() == RUNS.keys()


def test_what_did_not_change_is_not_asked_for_again(scanner: Scanner, repository: MemoryGateway) -> None:
    scanner.survey()
    write(repository, "b/notes.md", b"mine")
    repository.calls.clear()

    found = scanner.survey()

    assert "notes.md" in found.runs["b"].files
    folders = [call for call in repository.calls if isinstance(call, ReadTree) and call.is_recursive]
    assert len(folders) == 1
    assert repository.count(ReadBlob) + repository.count(ReadBlobs) == 0


def test_many_unknown_runs_are_listed_at_once(scanner: Scanner, repository: MemoryGateway) -> None:
    runs = {f"more-{number}": make_run(f"more-{number}") for number in range(WORTH_LISTING_ALL)}
    repository.write_as_someone_else(BRANCH, with_paths(runs))

    found = scanner.survey()

    assert len(found.runs) == WORTH_LISTING_ALL + len(RUNS)
    assert sum(isinstance(call, ReadTree) and call.is_recursive for call in repository.calls) == 1


def test_a_list_of_preserved_runs_that_cannot_be_read_stops_everything(
    scanner: Scanner, repository: MemoryGateway
) -> None:
    write(repository, "preserved_runs.json", b"no json")

    with pytest.raises(IntegrityFailure, match=r"preserved_runs\.json"):
        scanner.survey()


def test_a_damaged_log_is_begun_anew(scanner: Scanner, repository: MemoryGateway) -> None:
    write(repository, "retention_log.json", b"no json")

    with capture_logs() as logs:
        found = scanner.survey()

    assert [event["event"] for event in logs] == ["retention_log_damaged"]
    assert found.log == RetentionLog()


def test_a_run_with_a_damaged_file_is_damaged_and_no_other(
    scanner: Scanner, repository: MemoryGateway
) -> None:
    write(repository, "a/claim.json", b"no json")

    with capture_logs() as logs:
        found = scanner.survey()

    assert found.runs["a"].damage.startswith("claim.json is damaged")
    assert not found.runs["b"].damage
    assert [event["run_id"] for event in logs] == ["a"]


def test_a_run_that_lost_its_index_and_its_latest_is_understood_by_its_files(
    scanner: Scanner, repository: MemoryGateway
) -> None:
    write(repository, "a/index.json", None)
    write(repository, "a/latest.json", None)

    found = scanner.survey()

    assert [entry.sequence for entry in found.runs["a"].snapshot.index.all_entries] == [1, 2, 3]


def test_files_are_opened_when_the_plan_asks_for_them(scanner: Scanner) -> None:
    runs = scanner.survey().runs
    assert {run_id: run.latest for run_id, run in runs.items()} == {"a": None, "b": None}

    scanner.open(runs, {"a": ["latest.json"]})

    assert [run_id for run_id, run in runs.items() if run.latest] == ["a"]


def test_only_what_was_there_by_githubs_dates_is_old(scanner: Scanner, repository: MemoryGateway) -> None:
    repository.date = format_moment(NOON + 5 * DAY_S)
    repository.write_as_someone_else(BRANCH, with_paths({"c": make_run("c")}))
    found = scanner.survey()

    scanner.look_back(found, 2, NOON + 6 * DAY_S)

    before = {run_id: set(run.files_before[2]) for run_id, run in found.runs.items()}
    assert before == {**{run_id: set(files) for run_id, files in RUNS.items()}, "c": set()}
