"""Finding runs: all of them, newest first, with few requests, however many there are."""

import json
from pathlib import Path
from weakref import ref

import pytest
from structlog.testing import capture_logs

from holdfast.cache.local_copy import RepositoryCache
from holdfast.emulator.app import Emulator
from holdfast.emulator.options import EmulatorOptions
from holdfast.emulator.transport import EmulatorTransport
from holdfast.format.git_ids import blob_sha
from holdfast.format.index import Index
from holdfast.format.paths import Layout
from holdfast.format.stored_file import entry_of
from holdfast.github.calls import Answer
from holdfast.github.client import GitHubClient
from holdfast.github.write_calls import CreateBranch, WriteCommit, WriteFile, WriteTree
from holdfast.repository import catalog, known_lines
from holdfast.repository.reader import Reader
from holdfast.repository.understanding import read_index
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.saved import stamped
from tests.fakes.spooling import open_spool
from tests.fakes.workshop import Workshop, open_workshop

RUNS = 1_200


def files_of(
    run_id: str, *, status: str = "in_progress", moment: str = "2026-11-16T10:00:00Z"
) -> dict[str, bytes]:
    """Return the files of a run with one checkpoint."""
    envelope = stamped({"n": 1}, run_id=run_id, status=status, workflow="flows/ci.yml")
    path = f"checkpoints/{run_id}/cp_001_manual.json"
    index = Index(run_id).with_entries([entry_of(envelope, path)], workflow="flows/ci.yml", now=moment)
    return {
        path: envelope.content,
        f"checkpoints/{run_id}/index.json": index.to_bytes(),
        f"checkpoints/{run_id}/latest.json": envelope.content,
    }


def names(workshop: Workshop, *, is_resumable: bool = False, workflow: str | None = None) -> list[str]:
    runs = workshop.reader.list_runs(is_resumable=is_resumable, workflow=workflow)
    return [run.run_id for run in runs]


@pytest.mark.slow
def test_more_than_a_thousand_runs_cost_few_requests(tmp_path: Path) -> None:
    answers: list[Answer] = []
    clock = VirtualClock()
    emulator = Emulator(EmulatorOptions(root=tmp_path / "git", repo="holdfast/checkpoints", clock=clock.now))
    client = GitHubClient(
        "holdfast/checkpoints",
        token=lambda: "t",
        api_url="http://github.test",
        clock=clock,
        observe=answers.append,
        transport=EmulatorTransport(emulator, sleep=clock.sleep),
    )
    spool = open_spool(tmp_path / "spool")
    cache = RepositoryCache(tmp_path / "mirror")
    with client:
        every = {p: c for number in range(RUNS) for p, c in files_of(f"run-{number:04d}").items()}
        fill(client, every)
        reader = Reader(client, spool, cache, Layout(), BRANCH)
        answers.clear()
        assert len(reader.list_runs()) == RUNS
        cold = len(answers)
        answers.clear()
        assert len(reader.list_runs()) == RUNS
        warm = len(answers)
        path = "checkpoints/run-0007/index.json"
        ended = files_of("run-0007", status="completed")[path]
        client.perform(WriteFile(path, ended, "Completed", BRANCH, blob_sha(every[path])))
        answers.clear()
        assert len(reader.list_runs(is_resumable=True)) == RUNS - 1
        changed = len(answers)
    cache.close()
    spool.close()
    emulator.close()

    assert cold <= 20
    assert warm == 1
    assert changed <= 4


def fill(client: GitHubClient, files: dict[str, bytes]) -> None:
    """Begin the branch with all of these files in one commit."""
    client.perform(WriteFile("README.md", b"", "First", branch=""))
    tree_sha = client.perform(WriteTree({path: content.decode() for path, content in files.items()}))
    client.perform(CreateBranch(BRANCH, client.perform(WriteCommit(tree_sha, "Runs"))))


def test_without_graphql_the_runs_are_found_one_by_one(tmp_path: Path) -> None:
    repository = MemoryGateway(has_graphql=False)
    repository.write_as_someone_else(BRANCH, {p: c for n in range(5) for p, c in files_of(f"r{n}").items()})
    with open_workshop(tmp_path, repository) as workshop:
        assert len(names(workshop)) == 5


def test_newest_comes_first_and_those_that_nobody_stopped_are_resumable(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    files = {
        **files_of("old", moment="2026-11-01T10:00:00Z"),
        **files_of("new", moment="2026-11-15T10:00:00Z"),
        **files_of("done", status="completed", moment="2026-11-14T10:00:00Z"),
        **files_of("broken", status="failed", moment="2026-11-13T10:00:00Z"),
    }
    repository.write_as_someone_else(BRANCH, files)
    workshop.save("spooled")

    assert names(workshop) == ["spooled", "new", "done", "broken", "old"]
    assert names(workshop, is_resumable=True) == ["spooled", "new", "broken", "old"]


@pytest.mark.parametrize("workflow", ["flows/ci.yml", "./flows/ci.yml", "ci.yml", "ci"])
def test_runs_are_found_by_the_path_or_the_name_of_their_workflow(
    workshop: Workshop, repository: MemoryGateway, workflow: str
) -> None:
    repository.write_as_someone_else(BRANCH, files_of("a"))
    workshop.save("b", workflow="other.yml")
    workshop.save("c")

    assert names(workshop, workflow=workflow) == ["a"]


def test_spooled_checkpoint_says_how_a_run_stands(workshop: Workshop, repository: MemoryGateway) -> None:
    repository.write_as_someone_else(BRANCH, files_of("a"))
    workshop.save("a", status="completed")

    (run,) = workshop.reader.list_runs()

    assert (run.status, run.resumable, run.checkpoint_count) == ("completed", False, 2)


@pytest.mark.parametrize("damage", [b"{", b'{"run_id":"b","checkpoints":[]}', None])
def test_run_with_a_bad_index_is_listed_from_its_files(
    workshop: Workshop, repository: MemoryGateway, damage: bytes | None
) -> None:
    files: dict[str, bytes | None] = {**files_of("a"), **files_of("b")}
    repository.write_as_someone_else(BRANCH, files)
    repository.write_as_someone_else(BRANCH, {"checkpoints/a/index.json": damage})

    assert sorted(names(workshop)) == ["a", "b"]


def test_folders_that_are_no_runs_are_left_out(workshop: Workshop, repository: MemoryGateway) -> None:
    repository.write_as_someone_else(
        BRANCH,
        {
            **files_of("a"),
            "checkpoints/archived/summary.json": b"{}",
            "checkpoints/-odd-/index.json": b"{}",
            "checkpoints/preserved_runs.json": b"[]",
            "checkpoints/ruin/index.json": b"{",
            "checkpoints/ruin/latest.json": b"{",
        },
    )

    assert names(workshop) == ["a"]


def test_claimed_run_without_a_checkpoint_is_left_out_without_a_word(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    repository.write_as_someone_else(BRANCH, {**files_of("a"), "checkpoints/claimed/claim.json": b"{}"})

    with capture_logs() as logs:
        assert names(workshop) == ["a"]

    assert logs == []


def test_run_without_index_and_latest_is_listed_from_its_files(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    three = stamped({"n": 3}, sequence=3, run_id="headless").content
    repository.write_as_someone_else(BRANCH, {"checkpoints/headless/cp_003_manual.json": three})

    (run,) = workshop.reader.list_runs(is_resumable=True)

    assert (run.run_id, run.checkpoint_count) == ("headless", 1)


def test_archived_runs_cost_no_request_each(workshop: Workshop, repository: MemoryGateway) -> None:
    summaries: dict[str, bytes | None] = {f"checkpoints/{n}/summary.json": b"{}" for n in range(50)}
    repository.write_as_someone_else(BRANCH, summaries)
    repository.calls.clear()

    assert workshop.reader.list_runs() == []
    assert len(repository.calls) <= 6


def test_run_with_nothing_but_a_latest_is_listed(workshop: Workshop, repository: MemoryGateway) -> None:
    latest = files_of("a")["checkpoints/a/latest.json"]
    repository.write_as_someone_else(
        BRANCH, {"checkpoints/a/latest.json": latest, "checkpoints/b/latest.json": latest}
    )

    (run,) = workshop.reader.list_runs()

    assert (run.run_id, run.workflow, run.last_updated) == (
        "a",
        "flows/ci.yml",
        json.loads(latest)["timestamp"],
    )


def test_of_a_run_only_its_line_is_kept_while_all_are_listed(
    workshop: Workshop, repository: MemoryGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = 20
    for number in range(runs):
        repository.write_as_someone_else(BRANCH, files_of(f"run-{number}"))
    read: list[ref[Index]] = []
    most = 0

    def read_counted(content: bytes, path: str, run_id: str) -> Index:
        nonlocal most
        index = read_index(content, path, run_id)
        read.append(ref(index))
        most = max(most, sum(each() is not None for each in read))
        return index

    monkeypatch.setattr(catalog, "read_index", read_counted)

    assert len(names(workshop)) == runs
    assert (len(read), most <= 2) == (runs, True)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs whose index was read, in order."""
    opened: list[str] = []

    def read_noted(content: bytes, path: str, run_id: str) -> Index:
        opened.append(run_id)
        return read_index(content, path, run_id)

    monkeypatch.setattr(catalog, "read_index", read_noted)
    return opened


def test_a_list_reads_only_the_indexes_that_changed(
    workshop: Workshop, repository: MemoryGateway, opened: list[str]
) -> None:
    for run_id in ("a", "b", "c"):
        repository.write_as_someone_else(BRANCH, files_of(run_id))
    assert names(workshop) == ["c", "b", "a"]
    opened.clear()

    assert names(workshop) == ["c", "b", "a"]
    assert opened == []

    changed = files_of("b", status="completed", moment="2026-11-17T10:00:00Z")
    repository.write_as_someone_else(BRANCH, {**changed, **dict.fromkeys(files_of("c"))})

    assert [(run.run_id, run.status) for run in workshop.reader.list_runs()] == [
        ("b", "completed"),
        ("a", "in_progress"),
    ]
    assert opened == ["b"]


def test_a_run_with_something_in_the_spool_is_never_told_from_memory(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    repository.write_as_someone_else(BRANCH, files_of("a"))
    assert workshop.reader.list_runs()[0].checkpoint_count == 1

    workshop.save("a", status="completed")

    for _ in range(2):
        (run,) = workshop.reader.list_runs()
        assert (run.checkpoint_count, run.status) == (2, "completed")


def test_what_is_remembered_of_runs_has_a_limit(
    workshop: Workshop, repository: MemoryGateway, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_lines, "MOST_KEPT", 2)
    for run_id in ("a", "b", "c"):
        repository.write_as_someone_else(BRANCH, files_of(run_id))
    names(workshop)
    opened.clear()

    assert names(workshop) == ["c", "b", "a"]
    assert opened == ["c"]


def test_a_damaged_run_is_made_anew_once(
    workshop: Workshop, repository: MemoryGateway, opened: list[str]
) -> None:
    repository.write_as_someone_else(BRANCH, files_of("a") | {"checkpoints/a/index.json": b"{"})
    assert names(workshop) == ["a"]
    opened.clear()

    assert names(workshop) == ["a"]
    assert opened == []


def test_what_waits_is_told_without_asking_anyone(
    workshop: Workshop, repository: MemoryGateway, opened: list[str]
) -> None:
    for run_id in ("a", "b", "c"):
        repository.write_as_someone_else(BRANCH, files_of(run_id))
    workshop.reader.list_runs()
    opened.clear()
    workshop.save("a", trigger="circuit_breaker")
    workshop.save("b", trigger="manual", state={"n": 2})

    def told() -> list[tuple[str, str]]:
        repository.calls.clear()
        lines = workshop.reader.list_waiting(is_asking=False)
        assert repository.calls == []
        return [(line.summary.run_id, line.review.kind) for line in lines if line.review]

    assert told() == [("a", "circuit_breaker")]  # by its trigger, while it is spooled
    assert opened == ["a"]
    workshop.worker.drain()
    assert told() == [("a", "circuit_breaker")]  # by the index that was written here
    workshop.save("a", trigger="review", status="in_progress")
    assert told() == []
