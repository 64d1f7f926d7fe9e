"""Keys as users hold them."""

import base64
import json
from collections.abc import Callable

import pytest

from holdfast.security.jose import make_recipient_key, make_shared_key, make_signing_key, public_half
from holdfast.security.keys import Purpose, parse_keys, thumbprint

SHARED, OTHER = make_shared_key(), make_shared_key()


def octets(length: int) -> str:
    return base64.urlsafe_b64encode(bytes(length)).decode().rstrip("=")


def test_one_key_several_in_lines_or_a_set() -> None:
    for text in (
        f"{json.dumps(SHARED)}\n\n{json.dumps(OTHER)}\n",
        json.dumps({"keys": [SHARED, OTHER]}),
        json.dumps([SHARED, OTHER]),
    ):
        assert [key.kid for key in parse_keys(text, "encryption")] == [SHARED["kid"], OTHER["kid"]]
    assert len(parse_keys(json.dumps(SHARED, indent=2), "encryption")) == 1


def test_key_without_an_id_is_called_by_its_thumbprint() -> None:
    bare = {name: SHARED[name] for name in ("kty", "k")}
    (key,) = parse_keys(json.dumps(bare), "encryption")
    assert key.kid == SHARED["kid"] == thumbprint(bare)[:16]


def test_thumbprint_is_that_of_the_standard() -> None:
    # The example of RFC 8037, appendix A.3.
    key = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    assert thumbprint(key) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


def test_public_half_beside_the_pair_changes_nothing() -> None:
    pair = make_recipient_key()
    for keys in ([pair, public_half(pair)], [public_half(pair), pair]):
        (key,) = parse_keys(json.dumps(keys), "encryption")
        assert key.is_private
    (public,) = parse_keys(json.dumps(public_half(pair)), "encryption")
    assert not public.is_private
    assert public.secrets == []
    assert public.derive(b"x") is None


def test_key_shows_nothing_of_itself() -> None:
    (key,) = parse_keys(json.dumps(SHARED), "encryption")
    assert SHARED["k"] not in repr(key)
    assert key.secrets == [SHARED["k"]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("hunter2", "not a JSON Web Key"),
        ("{}", "not a JSON Web Key of a kind"),
        ("7", "not a JSON Web Key of a kind"),
        ('{"keys": []}', "there is no key in it"),
        ('{"kty": "oct"}', "lacks a part"),
        ('{"kty": "oct", "k": "&&&"}', "not base64url"),
        (json.dumps({"kty": "oct", "k": octets(16)}), "needs 32 bytes"),
        (json.dumps({"kty": "oct", "k": octets(48)}), "just 32 bytes"),
        (json.dumps(make_signing_key()), "Ed25519 is not for encryption"),
        (json.dumps([SHARED, {**OTHER, "kid": SHARED["kid"]}]), "two different keys have the id"),
    ],
)
def test_what_is_no_key_is_refused_with_the_reason_alone(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refusal:
        parse_keys(text, "encryption")
    assert "hunter2" not in str(refusal.value)
    assert SHARED["k"] not in str(refusal.value)


def test_recipient_key_does_not_sign() -> None:
    with pytest.raises(ValueError, match="P-256 is not for signing"):
        parse_keys(json.dumps(make_recipient_key()), "signing")
    assert parse_keys(json.dumps(make_signing_key()), "signing")[0].is_private


@pytest.mark.parametrize(
    ("purpose", "make", "changes"),
    [
        ("encryption", make_recipient_key, {"x": octets(32)}),
        ("encryption", make_recipient_key, {"y": octets(31)}),
        ("encryption", make_recipient_key, {"d": octets(32)}),
        ("signing", make_signing_key, {"x": make_signing_key()["x"]}),
        ("signing", make_signing_key, {"d": octets(16)}),
    ],
)
def test_key_of_the_right_type_with_wrong_bytes_is_refused(
    purpose: Purpose, make: Callable[[], dict[str, str]], changes: dict[str, str]
) -> None:
    pair = {**make(), **changes}
    with pytest.raises(ValueError, match=f"the key {pair['kid']} cannot be used") as refusal:
        parse_keys(json.dumps(pair), purpose)
    assert pair["d"] not in str(refusal.value)
