import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.repository.findings import Report, check_file, check_numbers, tell_gaps
from tests.fakes.saved import stamped

FIXTURES = Path(__file__).parents[3] / "fixtures"


def batch(*contents: bytes, count: int | None = None) -> bytes:
    metadata = {
        "first_sequence": 1,
        "last_sequence": 2,
        "checkpoint_count": len(contents) if count is None else count,
    }
    return b'{"checkpoints":[%s],"batch_metadata":%s}' % (b",".join(contents), json.dumps(metadata).encode())


def check(content: bytes) -> Report:
    return check_file(content, "f.json")


def test_good_files_are_valid() -> None:
    one, two = stamped({"a": 1}, sequence=1).content, stamped({"a": 2}, sequence=2).content

    assert check(one).is_valid
    assert check(batch(one, two)).is_valid
    assert check(batch(one, two)).checkpoints == 2


def test_checkpoint_with_a_field_named_as_a_batch_has_it_is_a_checkpoint() -> None:
    report = check(stamped({"a": 1}, checkpoints=[1, 2]).content)

    assert report.is_valid
    assert (report.checkpoints, report.notes) == (1, ())


def test_submission_is_checked_as_such() -> None:
    report = check(b'{"trigger":"manual","state":{}}')

    assert report.is_valid
    assert len(report.notes) == 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "expected"),
        (b"[1]", "JSON object"),
        (b'{"trigger":"never","state":{},"run_id":"r"}', "'never' is not a trigger"),
        (b'{"trigger":"manual","run_id":"r"}', "state: is missing"),
        (b'{"trigger":"manual","run_id":"r","state":{"progress":{"style":"tasks"}}}', "progress.tasks"),
        (stamped({"a": 1}).content.replace(b'"a":1', b'"a":2'), "does not match"),
        (stamped({"a": 1}).content[:-20], "expected"),
        ((FIXTURES / "formats/2_newer.json").read_bytes(), "format 2 is newer"),
        (b'{"checkpoints":3,"batch_metadata":{}}', "array"),
        (b'{"run_id":"r","checkpoints":[{"sequence":1}]}', "not an index"),
        (b'{"run_id":"r","checkpoint_count":3,"checkpoints":[]}', "checkpoint_count is 3, but it names 0"),
    ],
)
def test_what_is_wrong_is_told(content: bytes, reason: str) -> None:
    report = check(content)

    assert not report.is_valid
    assert reason in report.findings[0].reason


def test_every_wrong_checkpoint_of_a_batch_is_told_and_a_wrong_count() -> None:
    good, bad = stamped({"a": 1}).content, stamped({"a": 1}, sequence=2).content.replace(b'"a":1', b'"a":9')

    report = check(batch(bad, good, b"{}", count=7))

    assert [finding.path for finding in report.findings] == ["f.json#0", "f.json#2", "f.json"]


@pytest.mark.parametrize(
    ("name", "words"), [("task_state", "a task state"), ("agentic_loop", "an agentic-loop checkpoint")]
)
def test_native_file_is_recognised_and_sent_to_import(name: str, words: str) -> None:
    report = check((FIXTURES / "importer_formats" / f"{name}.json").read_bytes())

    assert not report.is_valid
    assert report.notes[-1] == f"it looks like {words}: holdfast import takes it in"


@pytest.mark.parametrize(
    ("numbers", "reasons"),
    [
        ([1, 2, 3], []),
        ([], []),
        ([4, 5], []),
        ([1, 3], ["no checkpoint has the number 2"]),
        ([1, 1, 9], ["no checkpoints have the numbers 2 to 8"]),
    ],
)
def test_gaps_are_told(numbers: list[int], reasons: list[str]) -> None:
    assert list(tell_gaps(numbers)) == reasons


def test_number_that_is_there_twice_is_found() -> None:
    found = [finding.reason for finding in check_numbers([1, 2, 2, 4], "r")]

    assert found == ["two checkpoints have the number 2"]


@pytest.mark.parametrize(
    "path", sorted((FIXTURES / "checkpoints").rglob("*.json")), ids=lambda path: path.stem
)
def test_every_sample_is_valid(path: Any) -> None:
    assert check_file(path.read_bytes(), path.name).findings == []
