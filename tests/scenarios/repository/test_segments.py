"""A run that is too long for one index: written, merged, listed, mended and pruned, segments and all."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import pytest

from holdfast.errors import IntegrityFailure, Missing, Unavailable
from holdfast.format import index as index_module
from holdfast.format.git_ids import blob_sha
from holdfast.format.index_segments import open_segment
from holdfast.github.calls import Call, ReadBlob, ReadBlobs, ReadFile
from holdfast.github.write_calls import WriteFile
from holdfast.jsontext.members import sha256_hex
from holdfast.repository import runs as runs_module
from holdfast.repository.validate import Validator
from holdfast.retention.rules import RetentionRules
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.desk import open_desk
from tests.fakes.meddling import LaggingGateway
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.one_run import index_of, names_of, remove, store
from tests.fakes.stored_runs import NOON
from tests.fakes.workshop import Workshop, check_run, open_workshop

MODES = pytest.mark.parametrize("mode", ["contents", "commit"])
FOLDER = "checkpoints/r"


@pytest.fixture(autouse=True)
def short_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "MOST_LISTED", 6)
    monkeypatch.setattr(index_module, "_LEAST_LISTED", 2)
    monkeypatch.setattr(index_module, "_MOST_LISTED_BESIDE_SEGMENTS", 4)


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    repository.write_as_someone_else(BRANCH, {"README.md": b""})
    return repository


class WithoutIndex:
    """Refuses every write of `index.json`: as good as a writer that dies before it."""

    def __init__(self, inner: MemoryGateway) -> None:
        self._inner = inner

    def perform(self, call: Call[Any]) -> Any:
        if isinstance(call, WriteFile) and call.path.endswith("/index.json"):
            raise Unavailable(call.path, "the line is cut")
        return self._inner.perform(call)


def segments_of(repository: MemoryGateway) -> list[str]:
    return sorted(name for name in names_of(repository) if name.startswith("index_"))


def change(repository: MemoryGateway, name: str, content: bytes) -> None:
    repository.write_as_someone_else(BRANCH, {f"{FOLDER}/{name}": content})


def lose_segment(repository: MemoryGateway, damage: str) -> None:
    name = segments_of(repository)[0]
    if damage == "lost":
        remove(repository, name)
    else:
        change(repository, name, b"{}")


def listed(workshop: Workshop, newest: int | None = None) -> list[int]:
    return [entry.sequence for entry in workshop.reader.list_checkpoints("r", newest=newest).entries]


@MODES
def test_long_run_is_stored_whole_one_at_a_time_and_in_bursts(
    tmp_path: Path, repository: MemoryGateway, mode: str
) -> None:
    with open_workshop(tmp_path, repository, mode=mode) as workshop:
        store(workshop, 17)
        for _ in range(12):
            workshop.save()
        assert workshop.worker.drain().left == 0

        assert len(check_run(repository)) == 29
        assert listed(workshop) == list(range(1, 30))
    assert len(index_of(repository).segments) > 2


@MODES
def test_closed_segment_is_never_written_again(tmp_path: Path, repository: MemoryGateway, mode: str) -> None:
    with open_workshop(tmp_path, repository, mode=mode) as workshop:
        store(workshop, 8)
        before = {name: repository.files(BRANCH)[f"{FOLDER}/{name}"] for name in segments_of(repository)}
        store(workshop, 8)

    after = repository.files(BRANCH)
    assert before
    assert all(after[f"{FOLDER}/{name}"] == content for name, content in before.items())


@MODES
def test_restart_and_another_machine_go_on_with_the_same_segments(
    tmp_path: Path, repository: MemoryGateway, mode: str
) -> None:
    for machine in ("ours", "theirs", "ours", "theirs"):
        with open_workshop(tmp_path / machine, repository, mode=mode) as workshop:
            store(workshop, 5)

    assert list(check_run(repository)) == list(range(1, 21))


@MODES
def test_repetition_of_an_id_that_lies_in_a_segment_is_stored_once(
    tmp_path: Path, repository: MemoryGateway, mode: str
) -> None:
    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        first = store(ours, 12)[0]
    with open_workshop(tmp_path / "theirs", repository, mode=mode) as theirs:
        store(theirs, 1)  # it knows by then how far the run has come
        theirs.save(checkpoint_id=first.checkpoint_id)
        assert theirs.worker.drain().left == 0
        again = theirs.spool.receipt(first.checkpoint_id)

    assert again
    assert again.sequence_number == 1
    assert len(check_run(repository)) == 13


@MODES
def test_number_of_a_checkpoint_in_a_segment_is_not_given_again(
    tmp_path: Path, repository: MemoryGateway, mode: str
) -> None:
    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        store(ours, 12)
    with open_workshop(tmp_path / "theirs", repository, mode=mode) as theirs:
        theirs.save(sequence_number=2)
        assert theirs.worker.drain().left == 0

    assert len(check_run(repository)) == 13


def save_again(theirs: Workshop, checkpoint_id: str) -> None:
    """Save what lies in a segment once more, on a machine that knows its outline alone."""
    store(theirs)
    theirs.save(checkpoint_id=checkpoint_id)
    theirs.save("another")


@MODES
@pytest.mark.parametrize(
    "failure", [IntegrityFailure("index_1_4.json", "torn"), Missing("0a", "no such blob")]
)
def test_segment_that_cannot_be_read_at_first_is_read_again(
    tmp_path: Path, repository: MemoryGateway, mode: str, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        first = store(ours, 12)[0]
    with open_workshop(tmp_path / "theirs", repository, mode=mode) as theirs:
        save_again(theirs, first.checkpoint_id)
        known = theirs.assembly.cache.outlines("r")
        fail_once = Mock(side_effect=[failure, DEFAULT, DEFAULT], wraps=open_segment)
        monkeypatch.setattr(runs_module, "open_segment", fail_once)

        assert theirs.worker.drain().left == 0

        again = theirs.spool.receipt(first.checkpoint_id)
        assert again
        assert again.sequence_number == 1
        assert theirs.assembly.cache.outlines("r") == known
    assert len(check_run(repository)) == 13


def test_commit_is_planned_on_its_parent_though_the_branch_shows_an_older_one(
    tmp_path: Path, repository: MemoryGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_workshop(tmp_path / "ours", repository, mode="commit") as ours:
        first = store(ours, 12)[0]
    lagging, older = LaggingGateway(repository), repository.branches[BRANCH]
    with open_workshop(tmp_path / "theirs", lagging, mode="commit") as theirs:
        save_again(theirs, first.checkpoint_id)
        theirs.save()
        failure = IntegrityFailure("index_1_4.json", "torn")
        fail_once = Mock(side_effect=[failure, DEFAULT, DEFAULT], wraps=open_segment)
        monkeypatch.setattr(runs_module, "open_segment", fail_once)
        lagging.shows = [older]

        assert theirs.worker.drain().left == 0

    assert len(check_run(repository)) == 14


@MODES
def test_run_with_a_segment_that_never_parses_waits_while_the_others_go_on(
    tmp_path: Path, repository: MemoryGateway, mode: str
) -> None:
    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        first = store(ours, 12)[0]
    name = segments_of(repository)[0]
    content = repository.files(BRANCH)[f"{FOLDER}/{name}"]
    strange = content.replace(b"in_progress", b"undreamt_of", 1)
    index = repository.files(BRANCH)[f"{FOLDER}/index.json"]
    change(repository, name, strange)
    change(
        repository, "index.json", index.replace(sha256_hex(content).encode(), sha256_hex(strange).encode())
    )

    with open_workshop(tmp_path / "theirs", repository, mode=mode) as theirs:
        save_again(theirs, first.checkpoint_id)
        result = theirs.worker.drain()
        later = theirs.worker.drain(timeout_s=600)

    assert (result.verified, result.left) == (1, 1)
    assert f"{FOLDER}/{name}: it is not an index: " in result.reason
    assert "undreamt_of" in later.reason
    check_run(repository, "another")


def test_restart_asks_for_no_segment_again(tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path, repository) as workshop:
        store(workshop, 16)
    repository.calls.clear()

    with open_workshop(tmp_path, repository) as workshop:
        store(workshop)

    assert repository.count(ReadBlob) == repository.count(ReadBlobs) == 0
    assert len(check_run(repository)) == 17


@MODES
def test_machine_that_is_new_to_the_run_reads_all_segments_at_once(
    tmp_path: Path, repository: MemoryGateway, mode: str
) -> None:
    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        store(ours, 20)
    repository.calls.clear()

    with open_workshop(tmp_path / "theirs", repository, mode=mode) as theirs:
        store(theirs)

    assert len(index_of(repository).segments) > 3
    assert repository.count(ReadBlobs) == 1
    assert repository.count(ReadBlob) <= 1  # index.json


def test_list_of_the_newest_reads_no_segment_and_the_whole_list_all_at_once(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path / "ours", repository) as ours:
        store(ours, 20)
    with open_workshop(tmp_path / "theirs", repository) as theirs:
        repository.calls.clear()
        assert listed(theirs, newest=2) == [19, 20]
        assert repository.count(ReadBlobs) == 0
        newest_calls = len(repository.calls)
        assert listed(theirs) == list(range(1, 21))
        assert repository.count(ReadBlobs) == 1
    assert newest_calls <= 4


def test_resume_reads_no_segment(tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path / "ours", repository) as ours:
        store(ours, 20)
    names = segments_of(repository)
    repository.calls.clear()

    with open_workshop(tmp_path / "theirs", repository) as theirs:
        assert theirs.reader.resume("r").sequence_number == 20

    shas = {blob_sha(repository.files(BRANCH)[f"{FOLDER}/{name}"]) for name in names}
    asked = [sha for call in repository.calls if isinstance(call, ReadBlobs) for sha in call.shas]
    assert not shas.intersection(asked)
    assert not any(isinstance(call, ReadBlob) and call.sha in shas for call in repository.calls)
    assert not any(isinstance(call, ReadFile) and "index_" in call.path for call in repository.calls)


def test_old_checkpoint_is_found_by_number_and_by_id(tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path / "ours", repository) as ours:
        stored = store(ours, 12)
    with open_workshop(tmp_path / "theirs", repository) as theirs:
        by_number = theirs.reader.read_checkpoint("r", 2)
        by_id = theirs.reader.read_checkpoint("r", stored[1].checkpoint_id)
        everything = theirs.reader.history("r")

    assert by_number.checkpoint_id == by_id.checkpoint_id == stored[1].checkpoint_id
    assert [envelope.sequence for envelope in everything.envelopes] == list(range(1, 13))


def test_runs_count_what_lies_in_segments(tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path, repository) as workshop:
        store(workshop, 12)
        (run,) = workshop.reader.list_runs()

    assert run.checkpoint_count == 12


@MODES
@pytest.mark.parametrize("damage", ["lost", "damaged", "of another time"])
def test_segment_that_is_lost_or_damaged_is_made_anew_from_the_files(
    tmp_path: Path, repository: MemoryGateway, damage: str, mode: str
) -> None:
    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        store(ours, 14)
        name = segments_of(repository)[0]
        content = repository.files(BRANCH)[f"{FOLDER}/{name}"]
        if damage == "lost":
            remove(repository, name)
        else:
            change(
                repository, name, b"{}" if damage == "damaged" else content.replace(b"manual", b"iteration")
            )

    with open_workshop(tmp_path / "theirs", repository, mode=mode) as theirs:
        assert listed(theirs) == list(range(1, 15))
        assert Validator(theirs.reader).check_run("r").findings
        store(theirs)
        assert Validator(theirs.reader).check_run("r").is_valid

    assert sorted(check_run(repository)) == list(range(1, 16))


@MODES
@pytest.mark.parametrize("damage", ["lost", "damaged"])
def test_writer_that_goes_on_from_its_copy_makes_a_segment_anew_that_someone_else_lost(
    tmp_path: Path, repository: MemoryGateway, damage: str, mode: str
) -> None:
    with open_workshop(tmp_path, repository, mode=mode) as ours:
        store(ours, 14)
        lose_segment(repository, damage)
        store(ours)
        assert Validator(ours.reader).check_run("r").is_valid

    lose_segment(repository, damage)
    with open_workshop(tmp_path, repository, mode=mode) as ours:
        store(ours)
        assert Validator(ours.reader).check_run("r").is_valid

    assert sorted(check_run(repository)) == list(range(1, 17))


@pytest.mark.parametrize("limit", [None, 9])
@pytest.mark.parametrize("damage", ["lost", "damaged"])
def test_clean_up_makes_a_lost_segment_anew_and_goes_on(
    tmp_path: Path, repository: MemoryGateway, damage: str, limit: int | None
) -> None:
    with open_workshop(tmp_path / "ours", repository) as ours:
        store(ours, 20)
    lose_segment(repository, damage)
    unused = f"parts/{'0' * 64}.json"
    change(repository, unused, b"{}")

    with open_desk(
        tmp_path / "desk", repository, VirtualClock(NOON), RetentionRules(checkpoints=limit)
    ) as desk:
        desk.sweeper.sweep()
        assert not desk.sweeper.sweep().done

    with open_workshop(tmp_path / "theirs", repository) as theirs:
        assert Validator(theirs.reader).check_run("r").is_valid
    assert unused not in names_of(repository)
    assert sorted(check_run(repository)) == list(range(1 if limit is None else 12, 21))


def test_clean_up_of_a_run_that_lacks_more_than_a_segment_leaves_it_alone(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path / "ours", repository) as ours:
        store(ours, 14)
    lose_segment(repository, "lost")
    change(repository, "cp_001_manual.json", b"damaged")
    before = repository.files(BRANCH)

    with open_desk(tmp_path / "desk", repository, VirtualClock(NOON), RetentionRules()) as desk:
        report = desk.sweeper.sweep()

    assert not report.done
    assert repository.files(BRANCH) == before


@MODES
def test_lost_index_is_made_anew_however_long(tmp_path: Path, repository: MemoryGateway, mode: str) -> None:
    with open_workshop(tmp_path / "ours", repository, mode=mode) as ours:
        store(ours, 14)
    remove(repository, "index.json")

    with open_workshop(tmp_path / "theirs", repository, mode=mode) as theirs:
        store(theirs)

    assert list(check_run(repository)) == list(range(1, 16))


def test_writer_that_dies_after_the_segment_leaves_nothing_that_harms(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path, repository) as workshop:
        store(workshop, 6)
        workshop.save()
    with open_workshop(tmp_path, WithoutIndex(repository)) as workshop:
        assert workshop.worker.drain().left == 1
    assert len(segments_of(repository)) == 1

    with open_workshop(tmp_path, repository) as workshop:
        workshop.save()
        assert workshop.worker.drain().left == 0

    assert list(check_run(repository)) == list(range(1, 9))


def test_pruning_rewrites_one_segment_and_drops_those_that_are_empty(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path / "ours", repository) as ours:
        store(ours, 20)
    before = index_of(repository).segments
    rules = RetentionRules(checkpoints=20 - before[0].count - 1)

    with open_desk(tmp_path / "desk", repository, VirtualClock(NOON), rules) as desk:
        desk.sweeper.sweep()
        again = desk.sweeper.sweep()

    after = index_of(repository).segments
    kept = list(check_run(repository))
    assert kept == list(range(before[0].count + 2, 21))
    assert not again.done
    assert after[1:] == before[2:]
    assert segments_of(repository) == sorted(each.file_path.rpartition("/")[2] for each in after)


def test_segment_that_nobody_needs_any_more_is_swept(tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path / "ours", repository) as ours:
        store(ours, 14)
    change(repository, "index_1_3.json", b"{}")

    with open_desk(tmp_path / "desk", repository, VirtualClock(NOON), RetentionRules()) as desk:
        desk.sweeper.sweep()

    assert "index_1_3.json" not in names_of(repository)
    assert len(check_run(repository)) == 14


def test_trimmed_run_keeps_no_segment(tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path / "ours", repository) as ours:
        store(ours, 14)
    with open_desk(
        tmp_path / "desk", repository, VirtualClock(NOON), RetentionRules(full_runs=0, latest_runs=5)
    ) as desk:
        desk.sweeper.sweep()

    assert names_of(repository) == ["latest.json"]


def test_index_that_an_earlier_version_wrote_is_folded_with_the_next_checkpoint(
    tmp_path: Path, repository: MemoryGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier, open_workshop(tmp_path / "ours", repository) as ours:
        earlier.setattr(index_module, "MOST_LISTED", 1000)
        store(ours, 14)
        assert len(json.loads(repository.files(BRANCH)[f"{FOLDER}/index.json"])["checkpoints"]) == 14
    with open_workshop(tmp_path / "theirs", repository) as theirs:
        store(theirs)

    assert list(check_run(repository)) == list(range(1, 16))
    assert len(index_of(repository).entries) == 2
