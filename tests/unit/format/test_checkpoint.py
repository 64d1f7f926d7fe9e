"""The envelope: what callers hand in, what waits in the spool, what the repository holds."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from holdfast.errors import IntegrityFailure, InvalidCheckpoint
from holdfast.format.checkpoint import (
    Draft,
    draft_from_mapping,
    draft_from_text,
    open_stored,
    renumber_body,
    stamp,
)
from holdfast.format.header import RunStatus
from holdfast.format.triggers import Priority, Trigger

NOW = "2026-11-16T10:00:00.000Z"
AN_ID = "550e8400-e29b-41d4-a716-446655440000"
SHORT = {"run_id": "build-42", "trigger": "manual", "phase": "phase_1_plan", "state": {"answer": 42}}


def draft(document: dict[str, Any] | bytes, *, run_id: str | None = None) -> Draft:
    if isinstance(document, bytes):
        return draft_from_text(document, now=NOW, new_id=lambda: AN_ID, run_id=run_id)
    return draft_from_mapping(document, now=NOW, new_id=lambda: AN_ID, run_id=run_id)


def test_short_form_is_filled_in() -> None:
    header = draft(SHORT).header

    assert asdict(header) == {
        "format_version": 1,
        "checkpoint_id": AN_ID,
        "run_id": "build-42",
        "timestamp": NOW,
        "trigger": "manual",
        "phase": "phase_1_plan",
        "sequence_number": None,
        "status": "in_progress",
        "priority": "medium",
        "workflow": None,
        "fence": None,
    }


def test_stamped_checkpoint_has_every_field_and_the_state_under_its_own_name() -> None:
    stored = json.loads(stamp(draft(SHORT).body(7)).content)

    assert stored.pop("integrity")["sha256"]
    assert stored["sequence_number"] == 7
    assert stored["state_snapshot"] == {"answer": 42}
    assert stored["context_fields"] == {}
    assert "state" not in stored


def test_integrity_is_the_digest_of_the_canonical_rest() -> None:
    stored = json.loads(stamp(draft(SHORT).body(1)).content)
    digest = stored.pop("integrity")["sha256"]

    canonical = json.dumps(stored, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    assert digest == hashlib.sha256(canonical.encode()).hexdigest()


def test_what_the_caller_wrote_survives_byte_for_byte() -> None:
    state = b'{"z": 1.10, "a": 18446744073709551617, "e": 1e400, "t": "\\u00e9", "n": {"b":1,"a":2}}'
    document = b'{"run_id": "r", "trigger": "manual", "state": %s, "mine": [1.0]}' % state

    content = stamp(draft(document).body(1)).content

    assert b'"state_snapshot":' + state in content
    assert b'"mine":[1.0]' in content


def test_stamping_the_same_body_again_gives_the_same_bytes() -> None:
    body = draft(SHORT).body(3)

    assert stamp(body).content == stamp(body).content


def test_renumbered_body_differs_in_nothing_but_the_number() -> None:
    body = draft({**SHORT, "state": {"text": ',"state_snapshot":'}}).body(3)

    renumbered = renumber_body(body, 4)

    assert renumbered == body.replace(b'"sequence_number":3', b'"sequence_number":4')
    assert stamp(renumbered).sequence == 4


@pytest.mark.parametrize("state", [42, None, "text", [1, 2], True, 1.5])
def test_a_state_may_be_any_json_value(state: object) -> None:
    stored = json.loads(stamp(draft({**SHORT, "state": state}).body(1)).content)

    assert stored["state_snapshot"] == state


@pytest.mark.parametrize(
    ("change", "place", "reason"),
    [
        ({"trigger": None}, "trigger", "required"),
        ({"trigger": "lunch"}, "trigger", "use one of circuit_breaker"),
        ({"trigger": 7}, "trigger", "Input should be"),
        ({"run_id": "../up"}, "run_id", "begin with a letter or a digit"),
        ({"run_id": "a/b"}, "run_id", "use 1 to 128 characters"),
        ({"run_id": "a..b"}, "run_id", "no '..'"),
        ({"run_id": "a\x00"}, "run_id", "use 1 to 128 characters"),
        ({"run_id": "x" * 129}, "run_id", "use 1 to 128 characters"),
        ({"run_id": "CON"}, "run_id", "something else"),
        ({"run_id": "preserved_runs.json"}, "run_id", "something else"),
        ({"run_id": None}, "run_id", "required"),
        ({"checkpoint_id": "nope"}, "checkpoint_id", "use a UUID"),
        ({"checkpoint_id": 5}, "checkpoint_id", "valid string"),
        ({"timestamp": "yesterday"}, "timestamp", "ISO 8601"),
        ({"timestamp": "2026-11-16T10:00:00"}, "timestamp", "time zone"),
        ({"sequence_number": 0}, "sequence_number", "greater than or equal to 1"),
        ({"sequence_number": -3}, "sequence_number", "greater than or equal to 1"),
        ({"sequence_number": "2"}, "sequence_number", "valid integer"),
        ({"sequence_number": 1.5}, "sequence_number", "valid integer"),
        ({"status": "paused"}, "status", "in_progress"),
        ({"priority": "urgent"}, "priority", "critical"),
        ({"phase": ""}, "phase", "at least 1 character"),
        ({"workflow": 5}, "workflow", "valid string"),
        ({"format_version": 2}, "format_version", "format 2 is newer"),
        ({"format_version": 0}, "format_version", "greater than or equal to 1"),
        ({"state": {"cost_accumulated": "much"}}, "state.cost_accumulated", "use a number"),
        ({"state": {"phase_outputs": []}}, "state.phase_outputs", "valid dictionary"),
        ({"state": {"gate_history": [{"score": "high"}]}}, "state.gate_history[0].score", "use a number"),
        ({"context_fields": {"warnings": {}}}, "context_fields.warnings", "valid list"),
        ({"context_fields": 5}, "context_fields", "dictionary"),
        ({"state": {"a": float("nan")}}, "state.a", "is not JSON"),
    ],
)
@pytest.mark.parametrize("as_text", [False, True])
def test_wrong_field_is_refused_with_its_path_and_the_reason(
    change: dict[str, Any], place: str, reason: str, as_text: bool
) -> None:
    document = {**SHORT, **change}

    with pytest.raises(InvalidCheckpoint) as refusal:
        draft(json.dumps(document).encode() if as_text else document)

    assert refusal.value.place == place
    assert reason in refusal.value.reason


def test_every_wrong_field_is_named_at_once() -> None:
    with pytest.raises(InvalidCheckpoint, match=r"run_id: .*; trigger: "):
        draft({**SHORT, "run_id": "..", "trigger": "lunch"})


def test_state_missing_or_given_twice_is_refused() -> None:
    with pytest.raises(InvalidCheckpoint, match="is missing"):
        draft({"run_id": "r", "trigger": "manual"})
    with pytest.raises(InvalidCheckpoint, match="not both"):
        draft({**SHORT, "state_snapshot": {}})


def test_run_named_beside_the_document_fills_in_or_must_agree() -> None:
    without = {name: value for name, value in SHORT.items() if name != "run_id"}

    assert draft(without, run_id="other").run_id == "other"
    with pytest.raises(InvalidCheckpoint, match="'other' was named beside it"):
        draft(SHORT, run_id="other")


def test_priority_comes_from_the_trigger_unless_given() -> None:
    assert draft({**SHORT, "trigger": "circuit_breaker"}).priority is Priority.CRITICAL
    assert draft({**SHORT, "trigger": "circuit_breaker", "priority": "high"}).priority is Priority.HIGH


def test_other_spellings_of_a_trigger_are_the_same_trigger() -> None:
    assert draft({**SHORT, "trigger": "error_encountered"}).trigger is Trigger.ERROR


def test_whole_checkpoint_handed_in_again_keeps_its_identity() -> None:
    content = stamp(draft(SHORT).body(5)).content

    again = draft(content)

    assert again.checkpoint_id == AN_ID
    assert again.sequence == 5
    assert stamp(again.body(5)).content == content


def test_whole_checkpoint_with_a_false_integrity_is_refused() -> None:
    content = stamp(draft(SHORT).body(5)).content.replace(b'"answer":42', b'"answer":43')

    with pytest.raises(InvalidCheckpoint, match=r"integrity\.sha256"):
        draft(content)


@pytest.mark.parametrize("as_text", [True, False])
def test_short_form_is_held_to_its_integrity_too(as_text: bool) -> None:
    digest = hashlib.sha256(json.dumps(SHORT, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    true = {**SHORT, "integrity": {"sha256": digest}}
    false = {**true, "state": {"answer": 43}}

    def hand_in(document: dict[str, Any]) -> Draft:
        return draft(json.dumps(document).encode() if as_text else document)

    assert "integrity" not in hand_in(true).texts
    assert hand_in({**SHORT, "integrity": None}).texts == hand_in(SHORT).texts
    with pytest.raises(InvalidCheckpoint, match=r"integrity\.sha256: the content does not match it"):
        hand_in(false)


@pytest.mark.parametrize("claim", ["abc", 7, [], {}, {"sha256": None}, {"sha1": "abc"}], ids=repr)
def test_integrity_that_claims_nothing_is_refused(claim: Any) -> None:
    with pytest.raises(InvalidCheckpoint, match=r'integrity: it is not {"sha256": "…"}'):
        draft({**SHORT, "integrity": claim})


def with_id(**changes: Any) -> Callable[[], str | None]:
    return lambda: draft({**SHORT, "checkpoint_id": AN_ID, **changes}).fingerprint


def test_repetition_is_known_by_its_content_not_by_its_time_number_or_spelling() -> None:
    first = with_id()()

    assert first is not None
    assert with_id(timestamp="2026-01-01T00:00:00Z", sequence_number=9)() == first
    spelled = b'{"state": {"answer": 42}, "checkpoint_id": "%s", "run_id": "build-42",' % AN_ID.encode()
    assert draft(spelled + b' "trigger": "manual", "phase": "phase_1_plan"}').fingerprint == first
    assert with_id(state={"answer": 43})() != first
    assert with_id(status=RunStatus.FAILED)() != first


def test_nothing_identifies_a_checkpoint_whose_id_was_made_here() -> None:
    assert draft(SHORT).fingerprint is None


def test_stored_checkpoint_opens_again() -> None:
    content = stamp(draft(SHORT).body(2)).content

    envelope, document = open_stored(content, "checkpoints/build-42/cp_002_manual.json")

    assert envelope.sequence == 2
    assert document.members["state_snapshot"] == b'{"answer":42}'


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: content[:-10], "byte"),
        (lambda content: content.replace(b"42}", b"43}"), "does not match"),
        (lambda content: content[: content.index(b',"integrity"')] + b"}", r"has no integrity\.sha256"),
        (lambda content: content.replace(b'"format_version":1', b'"format_version":9'), "format 9 is newer"),
        (lambda content: content.replace(b'"run_id":"build-42"', b'"run_id":"../x"'), "run_id"),
        (lambda content: b"[]", "object"),
    ],
)
def test_damaged_file_is_named_with_the_reason(damage: Callable[[bytes], bytes], reason: str) -> None:
    content = stamp(draft(SHORT).body(2)).content

    with pytest.raises(IntegrityFailure, match=reason) as failure:
        open_stored(damage(content), "checkpoints/build-42/cp_002_manual.json")

    assert failure.value.path == "checkpoints/build-42/cp_002_manual.json"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "place"),
    [
        ('{"phase_outputs":[%s]}', "state.phase_outputs"),
        ('{"health_history":{"a":[%s]}}', "state.health_history"),
        ('{"gate_history":[%s,{"score":"high"}]}', r"state.gate_history\[30000\].score"),
        ('{"current_phase_state":{"partial_output":[%s],"phase":7}}', "state.current_phase_state.phase"),
        ('{"cost_accumulated":[%s]}', "state.cost_accumulated"),
    ],
)
def test_a_large_state_is_checked_like_a_small_one(state: str, place: str) -> None:
    filling = ",".join(['{"gate_id":"%s"}' % ("x" * 80)] * 30_000)
    text = f'{{"run_id":"r","trigger":"manual","state":{state % filling}}}'.encode()

    with pytest.raises(InvalidCheckpoint, match=place):
        draft(text)


@pytest.mark.slow
def test_a_state_that_is_large_by_white_space_alone_is_kept() -> None:
    for state in (b'{%b"errors_encountered":[]}', b'{"errors_encountered":[%b]}', b"{%b}", b'{"a":{%b}}'):
        text = (
            b'{"run_id":"r","trigger":"manual","state":%b,"context_fields":{}}' % state % (b" " * 3_000_000)
        )
        assert draft(text).texts["state_snapshot"] == state % (b" " * 3_000_000)


@pytest.mark.slow
def test_a_large_header_is_refused_and_a_large_state_is_kept_byte_for_byte() -> None:
    items = b",".join([b'{"x":1}'] * 400_000)
    state = b'{"phase_outputs":{"a":[%b],"b":1.10},"other":"%b"}' % (items, b"y" * 3_000_000)

    kept = draft(b'{"run_id":"r","trigger":"manual","state":%b}' % state)

    assert kept.texts["state_snapshot"] == state
    with pytest.raises(InvalidCheckpoint, match="workflow"):
        draft(b'{"run_id":"r","trigger":"manual","workflow":"%b","state":1}' % (b"w" * 3_000_000))
