"""The door to joserfc."""

import json
import zlib

import pytest

from holdfast.security import jose
from holdfast.security.keys import Purpose, SecurityKey, parse_keys


def key_of(members: dict[str, str], purpose: Purpose = "encryption") -> SecurityKey:
    return parse_keys(json.dumps(members), purpose)[0]


SHARED, PAIR = key_of(jose.make_shared_key()), jose.make_recipient_key()
SIGNING = jose.make_signing_key()


@pytest.mark.parametrize("key", [SHARED, key_of(PAIR)])
@pytest.mark.parametrize("size", [0, 10, 3_000_000])
def test_what_is_encrypted_opens_again(key: SecurityKey, size: int) -> None:
    token = jose.encrypt(b"a" * size, key, {"run_id": "r"})
    assert jose.decrypt(token, key) == b"a" * size


def test_public_half_seals_and_the_pair_opens() -> None:
    token = jose.encrypt(b"state", key_of(jose.public_half(PAIR)), {})
    assert jose.decrypt(token, key_of(PAIR)) == b"state"
    with pytest.raises(jose.CannotOpen):
        jose.decrypt(token, key_of(jose.public_half(PAIR)))


def test_nothing_altered_opens() -> None:
    token = jose.encrypt(b"state", SHARED, {"run_id": "r"})
    header, *rest = token.split(".")
    for altered in (
        ".".join([header, *rest[:-1], rest[-1][::-1]]),
        ".".join([jose.encrypt(b"", SHARED, {"run_id": "s"}).split(".")[0], *rest]),
        token[:-10],
        "nothing",
        "",
    ):
        with pytest.raises(jose.CannotOpen):
            jose.decrypt(altered, SHARED)
    with pytest.raises(jose.CannotOpen):
        jose.decrypt(token, key_of(jose.make_shared_key()))


def test_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    token = jose.encrypt(bytes(2_000_000), SHARED, {})
    monkeypatch.setattr(jose, "MOST_BYTES", 1_000_000)
    with pytest.raises(jose.CannotOpen, match="unpacks to more"):
        jose.decrypt(token, SHARED)


def test_packed_as_the_standard_says() -> None:
    packed = jose._Deflate().compress(b"state")
    assert zlib.decompress(packed, wbits=-15) == b"state"


@pytest.mark.parametrize("key", [key_of(SIGNING, "signing"), key_of(jose.make_shared_key(), "signing")])
def test_signature_is_detached_and_always_the_same(key: SecurityKey) -> None:
    signature = jose.sign(b"content", key)
    assert signature == jose.sign(b"content", key)
    assert signature.split(".")[1] == ""
    jose.verify(signature, b"content", key)
    for forged, content in ((signature, b"other"), (signature[:-4] + "AAAA", b"content"), ("x", b"content")):
        with pytest.raises(jose.CannotOpen):
            jose.verify(forged, content, key)


def test_public_half_verifies() -> None:
    public = key_of(jose.public_half(SIGNING), "signing")
    jose.verify(jose.sign(b"content", key_of(SIGNING, "signing")), b"content", public)
