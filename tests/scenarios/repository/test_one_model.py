"""One idea of what a run holds: reader, validator, retention and the next writer tell the same."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import pytest

from holdfast.format.checkpoint import Envelope
from holdfast.format.index import IndexEntry, parse_index
from holdfast.repository.validate import Validator
from holdfast.styles.diff import compare
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.desk import open_desk
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.stored_runs import make_envelope, make_run, run_files, with_paths
from tests.fakes.workshop import Workshop, open_workshop

FOLDER = "checkpoints/r"


@pytest.fixture
def repository() -> MemoryGateway:
    return MemoryGateway()


@pytest.fixture
def workshop(tmp_path: Path, repository: MemoryGateway) -> Iterator[Workshop]:
    with open_workshop(tmp_path / "reader", repository) as workshop:
        yield workshop


def put(repository: MemoryGateway, files: dict[str, bytes]) -> None:
    repository.write_as_someone_else(BRANCH, dict(with_paths({"r": files})))


def batch(*envelopes: Envelope) -> bytes:
    return b'{"checkpoints":[%s]}' % b",".join(envelope.content for envelope in envelopes)


def rival(number: int, **fields: Any) -> Envelope:
    """Return another checkpoint under a number that one of the run has already."""
    return make_envelope("r", number, checkpoint_id=str(uuid5(NAMESPACE_URL, f"rival {number}")), **fields)


def listed(workshop: Workshop) -> tuple[IndexEntry, ...]:
    return workshop.reader.list_checkpoints("r").entries


def retained(tmp_path: Path, repository: MemoryGateway) -> tuple[IndexEntry, ...]:
    with open_desk(tmp_path / "desk", repository, VirtualClock()) as desk:
        return desk.sweeper.scanner.survey().runs["r"].snapshot.index.entries


def written(tmp_path: Path, repository: MemoryGateway, mode: str) -> tuple[IndexEntry, ...]:
    """Return what the next index says of the checkpoints that were there before it."""
    with open_workshop(tmp_path / "writer", repository, mode=mode) as writer:
        receipt = writer.save("r")
        assert writer.worker.drain().left == 0
    index = parse_index(repository.files(BRANCH)[f"{FOLDER}/index.json"], "index.json")
    return tuple(entry for entry in index.entries if entry.checkpoint_id != receipt.checkpoint_id)


def lost_index() -> dict[str, dict[str, bytes]]:
    """Return folders without an index in which two files claim one number."""
    files = make_run("r", 3, status="in_progress")
    del files["index.json"]
    no_latest = {name: content for name, content in files.items() if name != "latest.json"}
    before, after = (rival(3, trigger=trigger) for trigger in ("iteration", "task_change"))
    others = [rival(number, phase="other") for number in (3, 4)]
    damaged = others[1].content.replace(b'"other"', b'"altered"')
    return {
        "a rival that sorts before the latest": {**files, "cp_003_iteration.json": before.content},
        "a rival that sorts after it": {**files, "cp_003_task_change.json": after.content},
        "no latest": {**no_latest, "cp_003_iteration.json": before.content},
        "a batch": {**no_latest, "batch_3_4.json": batch(*others)},
        "a batch that is damaged in part": {
            **{name: text for name, text in no_latest.items() if "003" not in name},
            "batch_3_4.json": b'{"checkpoints":[%s,%s]}' % (others[0].content, damaged),
        },
        "another run's checkpoint": {
            **files,
            "cp_002_iteration.json": make_envelope("other", 2, trigger="iteration").content,
        },
        "a file under another number": {**files, "cp_004_manual.json": files["cp_002_manual.json"]},
    }


@pytest.mark.parametrize("mode", ["contents", "commit"])
@pytest.mark.parametrize("case", lost_index())
def test_index_that_is_lost_is_the_same_for_all(
    case: str, mode: str, tmp_path: Path, repository: MemoryGateway, workshop: Workshop
) -> None:
    put(repository, lost_index()[case])

    told = listed(workshop)

    numbers = [entry.sequence for entry in told]
    assert len(numbers) == len(set(numbers)) >= 3
    assert retained(tmp_path, repository) == told
    assert written(tmp_path, repository, mode) == told


def test_validation_names_the_rival_that_no_index_will_name(
    repository: MemoryGateway, workshop: Workshop
) -> None:
    put(repository, lost_index()["a rival that sorts before the latest"])

    findings = Validator(workshop.reader).check_run("r").findings

    assert [(finding.path.removeprefix(f"{FOLDER}/"), finding.reason) for finding in findings] == [
        ("index.json", "it is missing"),
        ("cp_003_iteration.json", "checkpoint 3 is not in the index"),
        (FOLDER, "two checkpoints have the number 3"),
    ]


def test_checkpoint_that_is_asked_for_is_the_one_that_is_listed(
    repository: MemoryGateway, workshop: Workshop
) -> None:
    for case in ("no latest", "a rival that sorts before the latest"):
        put(repository, {**lost_index()[case]})
        third = listed(workshop)[2]

        assert workshop.reader.read_checkpoint("r", 3).checkpoint_id == third.checkpoint_id
        assert workshop.reader.read_checkpoint("r").checkpoint_id == third.checkpoint_id


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_index_that_is_older_than_the_latest_is_the_same_for_all(
    mode: str, tmp_path: Path, repository: MemoryGateway, workshop: Workshop
) -> None:
    older = make_run("r", 2, status="in_progress")
    put(repository, {**make_run("r", 4, status="in_progress"), "index.json": older["index.json"]})

    told = listed(workshop)

    assert [entry.sequence for entry in told] == [1, 2, 3, 4]
    assert retained(tmp_path, repository) == told
    assert written(tmp_path, repository, mode) == told


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_entry_without_its_file_is_told_by_none(
    mode: str, tmp_path: Path, repository: MemoryGateway, workshop: Workshop
) -> None:
    files = make_run("r", 3, status="in_progress")
    del files["cp_002_manual.json"]
    put(repository, files)

    told = listed(workshop)

    assert [entry.sequence for entry in told] == [1, 3]
    assert retained(tmp_path, repository) == told
    assert written(tmp_path, repository, mode) == told


def test_trimmed_run_is_listed_where_its_latest_lies(repository: MemoryGateway, workshop: Workshop) -> None:
    put(repository, {"latest.json": make_run("r", 3)["latest.json"]})

    (entry,) = listed(workshop)

    assert (entry.sequence, entry.file_path) == (3, f"{FOLDER}/latest.json")


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_checkpoints_of_the_specifications_own_format_stay_in_an_index_made_anew(
    mode: str, tmp_path: Path, repository: MemoryGateway, workshop: Workshop
) -> None:
    put(repository, {f"cp_00{number}_manual.json": _unstamped(number) for number in (1, 2)})

    told = listed(workshop)

    assert [entry.sequence for entry in told] == [1, 2]
    assert retained(tmp_path, repository) == told
    assert written(tmp_path, repository, mode) == told


def _unstamped(number: int) -> bytes:
    document = json.loads(make_envelope("r", number).content)
    for name in ("integrity", "format_version", "priority"):
        del document[name]
    return json.dumps(document).encode()


@pytest.mark.parametrize("has_index", [True, False])
def test_field_of_a_caller_that_is_named_as_a_batch_has_it_survives(
    *, has_index: bool, tmp_path: Path, repository: MemoryGateway, workshop: Workshop
) -> None:
    own = [{"at": 1}, {"at": 2}]
    envelopes = [make_envelope("r", number, checkpoints=own[:number]) for number in (1, 2)]
    files = run_files("r", envelopes, last_updated="2026-11-16T10:00:00Z")
    put(repository, files if has_index else {n: c for n, c in files.items() if n.startswith("cp_")})

    shown = json.loads(workshop.reader.read_checkpoint("r", 2).content)

    assert shown["checkpoints"] == own
    assert workshop.reader.resume("r").checkpoint_id == envelopes[1].checkpoint_id
    assert len(workshop.reader.history("r").envelopes) == 2
    assert [entry.sequence for entry in listed(workshop)] == [1, 2]
    contents = [workshop.reader.read_checkpoint("r", number).content for number in (1, 2)]
    assert "/checkpoints/1" in [change.pointer for change in compare(*contents).changes]
    assert written(tmp_path, repository, "contents") == listed(workshop)[:2]
