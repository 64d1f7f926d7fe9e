from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import GatewayError, UnknownRun
from holdfast.github.calls import ReadHeadIfChanged
from holdfast.repository.findings import Report
from holdfast.repository.validate import Validator
from tests.fakes.assembly import BRANCH
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.saved import stamped
from tests.fakes.workshop import Workshop, open_workshop

from .test_reader import AWAY, damage, store


@pytest.fixture
def workshop(tmp_path: Path, repository: MemoryGateway) -> Iterator[Workshop]:
    with open_workshop(tmp_path, repository, max_file_bytes=20_000) as workshop:
        store(workshop, 1, 2, 3)
        yield workshop


def check(workshop: Workshop, run_id: str = "r") -> Report:
    return Validator(workshop.reader).check_run(run_id)


def reasons(workshop: Workshop) -> list[str]:
    return [f"{finding.path.rpartition('/')[2]}: {finding.reason}" for finding in check(workshop).findings]


def test_good_run_has_no_findings_stored_spooled_or_both(workshop: Workshop) -> None:
    assert check(workshop).findings == []
    assert check(workshop).checkpoints == 3

    workshop.save(state={"n": 4})
    workshop.save("other", state={"n": 1})

    assert (check(workshop).findings, check(workshop).checkpoints) == ([], 4)
    assert (check(workshop, "other").findings, check(workshop, "other").checkpoints) == ([], 1)
    assert "still in the spool" in check(workshop).notes[0]


def test_unknown_run_is_no_valid_run(workshop: Workshop) -> None:
    with pytest.raises(UnknownRun):
        check(workshop, "nobody")


def test_damaged_and_lost_files_are_named(workshop: Workshop, repository: MemoryGateway) -> None:
    damage(repository, "cp_001_manual.json", None)
    damage(repository, "cp_002_manual.json")

    found = reasons(workshop)

    assert "cp_001_manual.json: the index names it, but it is not there" in found
    assert any(reason.startswith("cp_002_manual.json: ") for reason in found)


def test_file_that_the_index_does_not_name_is_told(workshop: Workshop, repository: MemoryGateway) -> None:
    damage(repository, "cp_004_manual.json", stamped({"n": 4}, sequence=4).content)

    assert reasons(workshop) == [
        "cp_004_manual.json: checkpoint 4 is not in the index",
        "latest.json: it holds checkpoint 3, but the newest is 4",
    ]


def test_gap_in_the_numbers_is_told_and_is_no_fault(workshop: Workshop) -> None:
    workshop.save(sequence_number=6)
    workshop.worker.drain()

    report = Validator(workshop.reader).check_run("r")

    assert report.is_valid
    assert report.notes == ["no checkpoints have the numbers 4 to 5"]


@pytest.mark.slow
def test_index_that_says_something_else_than_the_files_is_told(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    index = repository.files(BRANCH)["checkpoints/r/index.json"]
    changed = index.replace(b'"status":"in_progress","blob_sha"', b'"status":"failed","blob_sha"', 1)
    assert changed != index
    damage(repository, "index.json", changed.replace(b'"checkpoint_count":3', b'"checkpoint_count":5'))

    assert reasons(workshop) == [
        "index.json: checkpoint_count is 5, but it names 3",
        "index.json: checkpoint 1: its status is 'in_progress', not 'failed'",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["index.json", "latest.json"])
def test_missing_index_or_latest_is_told(workshop: Workshop, repository: MemoryGateway, name: str) -> None:
    damage(repository, name, None)

    assert f"{name}: it is missing" in reasons(workshop)


def test_run_that_retention_reduced_to_its_newest_checkpoint_is_in_order(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    reduce_to_latest(repository)

    report = check(workshop)

    assert (report.checkpoints, report.findings) == (1, [])
    assert report.notes == ["it begins with checkpoint 3: those before were pruned, or never stored"]


def test_damage_of_the_only_checkpoint_that_retention_left_is_told(
    tmp_path: Path, workshop: Workshop, repository: MemoryGateway
) -> None:
    reduce_to_latest(repository)
    damage(repository, "latest.json", b"{")

    with open_workshop(tmp_path / "stranger", repository) as stranger:
        assert [reason.partition(":")[0] for reason in reasons(stranger)] == ["latest.json"]


def reduce_to_latest(repository: MemoryGateway) -> None:
    for name in ("index.json", "cp_001_manual.json", "cp_002_manual.json", "cp_003_manual.json"):
        damage(repository, name, None)


@pytest.mark.slow
def test_lost_part_is_named(tmp_path: Path, repository: MemoryGateway, workshop: Workshop) -> None:
    workshop.save(state={"output": "x" * 30_000})
    workshop.worker.drain()
    (part,) = [path for path in repository.files(BRANCH) if "/parts/" in path]
    repository.write_as_someone_else(BRANCH, {part: None})

    with open_workshop(tmp_path / "stranger", repository) as stranger:
        assert part in [finding.path for finding in check(stranger).findings]


def test_progress_that_makes_no_sense_is_a_finding_spooled_or_stored(workshop: Workshop) -> None:
    workshop.save(state={"progress": {"style": "tasks"}})

    assert any("spool#4" in reason for reason in reasons(workshop))
    workshop.worker.drain()
    assert any("cp_004_manual.json: progress.tasks" in reason for reason in reasons(workshop))


def test_with_github_away_the_local_copy_is_checked_but_nothing_is_called_valid(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    repository.fail_next(ReadHeadIfChanged, AWAY[0])

    report = check(workshop)

    assert (report.checkpoints, report.findings) == (3, [])
    assert not report.is_valid
    assert "GitHub could not be read" in report.unchecked[0]


def test_with_github_away_what_the_local_copy_lacks_is_unchecked_not_damaged(
    tmp_path: Path, workshop: Workshop, repository: MemoryGateway
) -> None:
    assert check(workshop).is_valid
    with open_workshop(tmp_path / "stranger", repository) as stranger:
        stranger.reader.resume("r")
        stranger.reader.list_checkpoints("r")
        repository.fail_next(ReadHeadIfChanged, AWAY[0])

        report = check(stranger)

    assert report.findings == []
    lacking = [reason for reason in report.unchecked if "it is not in the local copy" in reason]
    assert [reason.partition(":")[0][-18:] for reason in lacking] == [
        "cp_001_manual.json",
        "cp_002_manual.json",
    ]


@pytest.mark.parametrize("error", AWAY, ids=lambda error: type(error).__name__)
def test_with_github_away_what_is_only_spooled_is_checked_and_replayed(
    tmp_path: Path, repository: MemoryGateway, error: GatewayError
) -> None:
    with open_workshop(tmp_path / "stranger", repository) as stranger:
        stranger.save("new", state={"n": 1})
        repository.fail_next(ReadHeadIfChanged, error, times=2)

        report = check(stranger, "new")
        history = stranger.reader.history("new")

    assert (report.checkpoints, report.findings, report.is_valid) == (1, [], False)
    assert str(error) in report.unchecked[0]
    assert ([envelope.sequence for envelope in history.envelopes], len(history.warnings)) == ([1], 1)
