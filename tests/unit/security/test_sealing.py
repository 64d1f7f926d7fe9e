"""Drafts are sealed, and stored checkpoints opened; what was moved or altered is noticed."""

import json
from typing import Any

import pytest

from holdfast.errors import IntegrityFailure, InvalidCheckpoint, KeyMissing
from holdfast.format.checkpoint import Draft, Envelope, draft_from_mapping, draft_from_text, stamp
from holdfast.security import jose
from holdfast.security.keys import parse_keys
from holdfast.security.sealing import Keyring, is_sealed, sealed_key_ids
from tests.unit.security.test_redaction import ID, NOW

OTHER_ID = ID[:-1] + "1"


def ring(*keys: dict[str, str]) -> Keyring:
    return Keyring(parse_keys(json.dumps(list(keys)), "encryption"), b"local secret")


KEY, OLD, PAIR = jose.make_shared_key(), jose.make_shared_key(), jose.make_recipient_key()
RING = ring(KEY)


def draft(state: Any, run_id: str = "r", checkpoint_id: str = ID, **members: Any) -> Draft:
    mapping = {"trigger": "manual", "phase": "p", "state": state, "checkpoint_id": checkpoint_id, **members}
    return draft_from_mapping(mapping, now=NOW, new_id=str, run_id=run_id)


def members_of(envelope: Envelope) -> dict[str, Any]:
    members: dict[str, Any] = json.loads(envelope.content)
    return members


def rewrite(envelope: Envelope, **members: Any) -> Envelope:
    """Return the checkpoint as someone without a key would alter it, digest and all."""
    changed = {**members_of(envelope), **members}
    del changed["integrity"]
    return stamp(json.dumps(changed, separators=(",", ":")).encode())


def test_all_that_the_caller_says_is_sealed_and_the_rest_stays_readable() -> None:
    stored = stamp(RING.seal(draft({"a": 1}, context_fields={"b": 2}, workflow="w", own=[3])).body(7))

    members = members_of(stored)
    for name in ("state_snapshot", "context_fields", "own"):
        assert list(members[name]) == ["$sealed"]
    for name in (
        "checkpoint_id",
        "run_id",
        "timestamp",
        "trigger",
        "phase",
        "status",
        "priority",
        "workflow",
    ):
        assert members[name] == getattr(stored.header, name)
    opened = members_of(RING.open(stored, "path"))
    assert opened["state_snapshot"] == {"a": 1}
    assert opened["context_fields"] == {"b": 2}
    assert opened["own"] == [3]


def test_every_digit_of_the_state_comes_back() -> None:
    text = b'{"trigger":"manual","state": {"n": 1.10, "u": "\\u00e9", "big": 123456789012345678901234567890}}'
    given = draft_from_text(text, now=NOW, new_id=lambda: ID, run_id="r")
    opened = RING.open(stamp(RING.seal(given).body(1)), "path")
    assert (
        b'"state_snapshot":{"n": 1.10, "u": "\\u00e9", "big": 123456789012345678901234567890}'
        in opened.content
    )


def test_without_a_key_nothing_is_sealed_and_nothing_opened() -> None:
    given = draft({"a": 1})
    assert Keyring().seal(given) is given
    plain = stamp(given.body(1))
    assert RING.open(plain, "path") is plain


def test_old_keys_open_and_the_first_seals() -> None:
    both = ring(KEY, OLD)
    old = stamp(ring(OLD).seal(draft({"a": 1})).body(1))
    assert members_of(both.open(old, "path"))["state_snapshot"] == {"a": 1}
    new = stamp(both.seal(draft({})).body(1))
    texts = {name: json.dumps(value).encode() for name, value in members_of(new).items()}
    assert sealed_key_ids(texts, "path") == {KEY["kid"]}


@pytest.mark.parametrize("keys", [Keyring(), ring(OLD)])
def test_missing_key_is_named(keys: Keyring) -> None:
    stored = stamp(RING.seal(draft({})).body(1))
    with pytest.raises(
        KeyMissing, match=f"cp_001.json: it is sealed with key {KEY['kid']}, which is not here"
    ):
        keys.open(stored, "cp_001.json")


def test_writer_that_cannot_read_is_told_so() -> None:
    writer = ring(jose.public_half(PAIR))
    stored = stamp(writer.seal(draft({"a": 1})).body(1))
    with pytest.raises(KeyMissing, match="a writer that cannot read"):
        writer.open(stored, "path")
    assert members_of(ring(PAIR).open(stored, "path"))["state_snapshot"] == {"a": 1}


def test_wrong_key_under_the_same_id_does_not_open() -> None:
    stored = stamp(RING.seal(draft({})).body(1))
    with pytest.raises(IntegrityFailure, match="not what was sealed with key"):
        ring({**OLD, "kid": KEY["kid"]}).open(stored, "path")


def test_state_that_was_moved_or_altered_is_noticed() -> None:
    one = stamp(RING.seal(draft({"n": 1})).body(1))
    two = stamp(RING.seal(draft({"n": 2}, checkpoint_id=OTHER_ID)).body(2))
    elsewhere = stamp(RING.seal(draft({"n": 1}, run_id="s")).body(1))
    sealed = members_of(one)["state_snapshot"]["$sealed"]
    for altered in (
        rewrite(two, state_snapshot=members_of(one)["state_snapshot"]),
        rewrite(one, state_snapshot=members_of(one)["context_fields"]),
        rewrite(one, checkpoint_id=OTHER_ID),
        rewrite(elsewhere, run_id="r"),
        rewrite(one, state_snapshot={"$sealed": sealed[:-30]}),
        rewrite(one, state_snapshot={"$sealed": sealed[:-2] + "AA"}),
        rewrite(one, state_snapshot={"$sealed": "nothing"}),
        rewrite(one, state_snapshot={"$sealed": 7}),
        rewrite(one, state_snapshot={"$sealed": sealed, "a": 1}),
    ):
        with pytest.raises(IntegrityFailure):
            RING.open(altered, "path")


def test_what_is_sealed_already_stays_as_it_is() -> None:
    body = RING.seal(draft({"n": 1})).body(4)
    for keys in (RING, Keyring()):
        again = keys.seal(draft_from_text(body, now=NOW, new_id=str))
        assert again.body(4) == body


def test_what_was_sealed_for_another_place_or_is_no_such_thing_is_refused() -> None:
    state = members_of(stamp(RING.seal(draft({"n": 1})).body(4)))["state_snapshot"]
    for keys in (RING, Keyring()):
        with pytest.raises(InvalidCheckpoint, match="sealed for another checkpoint"):
            keys.seal(draft(state, checkpoint_id=OTHER_ID))
        with pytest.raises(InvalidCheckpoint, match="kept for what Holdfast has sealed"):
            keys.seal(draft({"$sealed": "mine"}))


def test_repetition_is_known_by_a_fingerprint_that_takes_the_key() -> None:
    plain = draft({"n": 1}).fingerprint
    first, again = (RING.seal(draft({"n": 1})) for _ in range(2))
    assert first.fingerprint == again.fingerprint
    assert first.texts != again.texts
    others = [ring(OLD), ring(jose.public_half(PAIR)), Keyring(ring(jose.public_half(PAIR)).keys, b"another")]
    fingerprints = {plain, first.fingerprint, *(keys.seal(draft({"n": 1})).fingerprint for keys in others)}
    assert len(fingerprints) == 5
    assert RING.seal(draft({"n": 2})).fingerprint not in fingerprints


def test_retention_still_sees_that_a_run_is_to_be_kept() -> None:
    stored = stamp(RING.seal(draft({}, context_fields={"retention": "keep"})).body(1))
    assert members_of(stored)["retention"] == "keep"
    opened = members_of(RING.open(stored, "path"))
    assert opened["context_fields"] == {"retention": "keep"}
    assert "retention" not in opened


def test_only_the_form_is_taken_for_sealed() -> None:
    assert is_sealed(b' { "$sealed" : 1}')
    assert not is_sealed(b'{"a": {"$sealed": 1}}')


def test_members_that_are_sealed_alone_cannot_be_swapped_left_out_added_or_taken_from_elsewhere() -> None:
    alike = Keyring(RING.keys, alike_from_bytes=1024)

    def sealed(run_id: str, letters: str) -> Envelope:
        state = {letter: letter * 2000 for letter in letters} | {"n": 1}
        return stamp(alike.seal(draft(state, run_id)).body(1))

    def members(envelope: Envelope) -> list[Any]:
        return list(members_of(envelope)["state_snapshot"]["$members"])

    envelope = sealed("r", "ab")
    state = members_of(envelope)["state_snapshot"]
    mine, foreign = members(envelope), members(sealed("s", "ab"))

    def altered(wrong: object) -> Envelope:
        return rewrite(envelope, state_snapshot={"$sealed": state["$sealed"], "$members": wrong})

    assert members_of(alike.open(envelope, "p"))["state_snapshot"]["b"] == "b" * 2000
    assert alike.open(altered(mine), "p").content == alike.open(envelope, "p").content
    whole = members_of(envelope)["context_fields"]
    others = members(sealed("r", "xy"))
    tampered: list[Any] = [mine[::-1], mine[:1], [*mine, mine[0]], [], {}, others, foreign, [whole] * 2]
    for wrong in tampered:
        with pytest.raises(IntegrityFailure):
            alike.open(altered(wrong), "p")
    with pytest.raises(IntegrityFailure):
        alike.open(rewrite(envelope, state_snapshot={"$sealed": state["$sealed"]}), "p")
    assert set(map(str, mine)).isdisjoint(map(str, foreign))
