"""What retention writes down: its log, the list of preserved runs, and the summary of a run."""

import json

import pytest

from holdfast.errors import IntegrityFailure
from holdfast.format.moments import format_moment
from holdfast.format.preserved_list import parse_preserved
from holdfast.jsontext.members import parse_document
from holdfast.retention.records import (
    MAX_ACTIONS,
    MAX_SWEEPS,
    RetentionLog,
    RunRecord,
    SweepRecord,
    describe_last,
    parse_log,
    parse_summary,
)
from tests.fakes.stored_runs import make_envelope


def test_log_is_bounded_and_comes_back_as_it_was() -> None:
    log = RetentionLog()
    for number in range(MAX_SWEEPS + 20):
        sweep = SweepRecord(format_moment(number), 1, 2, tuple((f"r{n}", "trim") for n in range(100)))
        log = log.after(sweep, {"r": RunRecord("a", "b")})

    assert len(log.sweeps) == MAX_SWEEPS
    assert sum(len(sweep.actions) for sweep in log.sweeps) == MAX_ACTIONS
    assert log.sweeps[0].at == format_moment(MAX_SWEEPS + 19)
    assert parse_log(log.to_bytes(), "retention_log.json") == log


@pytest.mark.parametrize("content", [b"", b"[]", b'{"sweeps": 3, "runs": {}}', b'{"runs": {"r": {}}}'])
def test_damaged_log_is_none(content: bytes) -> None:
    assert parse_log(content, "retention_log.json") is None


@pytest.mark.parametrize(
    "content",
    [
        b'["a", "b"]',
        b'{"preserved_runs": ["a", "b"]}',
        b'{"format_version": 1, "runs": [{"run_id": "a"}, {"run_id": "b"}]}',
        b'{"a": {"why": "interesting"}, "b": null}',
    ],
)
def test_list_of_preserved_runs_is_taken_in_every_usual_shape(content: bytes) -> None:
    assert parse_preserved(content, "preserved_runs.json") == {"a", "b"}


@pytest.mark.parametrize("content", [b"", b"3", b"[1]", b'[{"id": "a"}]', b'{"a": [], "b": []}'])
def test_list_of_preserved_runs_that_cannot_be_read_is_not_an_empty_one(content: bytes) -> None:
    with pytest.raises(IntegrityFailure):
        parse_preserved(content, "preserved_runs.json")


def test_cost_of_any_size_becomes_a_number_that_everyone_reads() -> None:
    envelope = make_envelope("r", 1, state={"cost_accumulated": 10**40})
    document = parse_document(envelope.content).value

    summary = describe_last(envelope, document).summarise("r", "2026-01-01T00:00:00Z", None)

    assert json.loads(summary.to_bytes())["total_cost_usd"] == 1e40


@pytest.mark.parametrize("content", [b"", b"[]", b'{"run_id": "r"}'])
def test_damaged_summary_is_told(content: bytes) -> None:
    with pytest.raises(IntegrityFailure, match=r"summary\.json: it is not a summary"):
        parse_summary(content, "summary.json")
