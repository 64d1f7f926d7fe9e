"""Checkpoints that are signed as they must be."""

import json
from typing import Any

import pytest

from holdfast.format.checkpoint import Envelope, stamp
from holdfast.security import jose
from holdfast.security.keys import encode_octets, parse_keys
from holdfast.security.signatures import Forged, Signatures, Unsigned
from tests.unit.security.test_sealing import draft

PAIR, OTHER = jose.make_signing_key(), jose.make_signing_key()
SHARED = jose.make_shared_key()


def signatures(*keys: dict[str, str], **options: Any) -> Signatures:
    return Signatures(parse_keys(json.dumps(list(keys)), "signing"), **options)


def signed(key: dict[str, str] | None = PAIR, state: Any = None) -> Envelope:
    return stamp(draft(state or {"n": 1}).body(3), signatures(key).sign if key else None)


def altered(envelope: Envelope, **changes: Any) -> Envelope:
    members = {**json.loads(envelope.content), **changes}
    integrity = members.pop("integrity")
    whole = json.loads(stamp(json.dumps(members, separators=(",", ":")).encode()).content)
    whole["integrity"]["signature"] = integrity.get("signature")
    return Envelope(envelope.header, json.dumps(whole, separators=(",", ":")).encode())


@pytest.mark.parametrize("key", [PAIR, SHARED])
def test_signed_checkpoint_is_trusted_and_always_the_same(key: dict[str, str]) -> None:
    assert signed(key).content == signed(key).content
    signatures(OTHER, key).check(signed(key), "path")


def test_public_half_verifies_and_does_not_sign() -> None:
    public = signatures(jose.public_half(PAIR))
    assert public.sign is None
    public.check(signed(), "path")


def test_spelling_does_not_count() -> None:
    envelope = signed(state={"b": 1, "a": "é"})
    spelled = json.dumps(json.loads(envelope.content), indent=1).encode()
    signatures(PAIR).check(Envelope(envelope.header, spelled), "path")


def test_unsigned_one_is_refused_unless_allowed() -> None:
    with pytest.raises(Unsigned, match="not signed; set HOLDFAST_ALLOW_UNSIGNED"):
        signatures(PAIR).check(signed(None), "path")
    signatures(PAIR, is_unsigned_allowed=True).check(signed(None), "path")
    Signatures().check(signed(None), "path")


@pytest.mark.parametrize(
    "forged",
    [
        signed(OTHER),
        signed(SHARED),
        altered(signed(), state_snapshot={"n": 2}),
        altered(signed(), sequence_number=9),
        altered(signed(), run_id="other"),
        altered(signed(), integrity={"signature": "x..y"}),
        altered(signed(), integrity={"signature": 7}),
        altered(signed(), integrity={"signature": "eyJhbGciOiJub25lIn0.."}),
    ],
)
def test_forged_one_is_refused_even_where_unsigned_ones_are_allowed(forged: Envelope) -> None:
    for allowed in (False, True):
        with pytest.raises(Forged):
            signatures(PAIR, is_unsigned_allowed=allowed).check(forged, "path")


def test_public_key_taken_for_a_shared_secret_signs_nothing() -> None:
    shared = {"kty": "oct", "k": encode_octets(PAIR["x"].encode()), "kid": PAIR["kid"]}
    with pytest.raises(Forged):
        signatures(jose.public_half(PAIR)).check(signed(shared), "path")


@pytest.mark.slow
def test_large_checkpoint_is_signed_as_a_whole() -> None:
    large = signed(state={"rows": ["x" * 1000] * 4000})
    signatures(PAIR).check(large, "path")
    with pytest.raises(Forged):
        signatures(PAIR).check(altered(large, phase="other"), "path")
