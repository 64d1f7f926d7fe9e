"""Keys as users hold them: JSON Web Keys (RFC 7517), one in a line, or a set.

For a shared key, no cryptography is loaded.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import orjson

Purpose = Literal["encryption", "signing"]

# What a key of each type must have, in the order of RFC 7638, and how it is called there.
_PUBLIC_MEMBERS = {"oct": ("k", "kty"), "EC": ("crv", "kty", "x", "y"), "OKP": ("crv", "kty", "x")}
_CURVES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "encryption": {"EC": ("P-256",), "OKP": ("X25519",)},
    "signing": {"EC": (), "OKP": ("Ed25519",)},
}
_SHARED_SECRET_BYTES = 32
_ID_LENGTH = 16
_ADVICE = "use what holdfast keys new prints"


@dataclass(frozen=True)
class SecurityKey:
    """One key. `members` are those of the JWK; its repr shows none of them."""

    kid: str
    kind: str
    members: Mapping[str, str] = field(repr=False, hash=False, compare=False)

    @property
    def is_shared(self) -> bool:
        """Whether the one who seals or signs with it can also open or forge with it."""
        return self.kind == "oct"

    @property
    def is_private(self) -> bool:
        """Whether it is more than the public half of a pair."""
        return self.is_shared or "d" in self.members

    @property
    def secrets(self) -> list[str]:
        """Return what of it must never be shown."""
        return [self.members[name] for name in ("k", "d") if name in self.members]

    def derive(self, purpose: bytes) -> bytes | None:
        """Return a secret of its own for another purpose; None for a public key, which has none."""
        return hmac.digest(_decode(self.secrets[0]), purpose, "sha256") if self.secrets else None


@lru_cache(maxsize=16)
def parse_keys(text: str, purpose: Purpose) -> tuple[SecurityKey, ...]:
    """Return the keys that a text holds, in their order.

    Raises ValueError with a sentence that says nothing of the key.
    """
    keys = [_parse_key(members, purpose) for members in _split(text)]
    if not keys:
        raise ValueError(f"there is no key in it; {_ADVICE}")
    by_id: dict[str, SecurityKey] = {}
    for key in keys:
        # The public half of a pair may stand beside the whole of it.
        if key.kid in by_id and thumbprint(key.members) != thumbprint(by_id[key.kid].members):
            raise ValueError(f"two different keys have the id {key.kid}; give one of them another kid")
        if key.kid not in by_id or key.is_private:
            by_id[key.kid] = key
    return tuple(by_id.values())


def thumbprint(members: Mapping[str, str]) -> str:
    """Return the thumbprint of a key (RFC 7638), in base64url."""
    required = {name: members[name] for name in sorted(_PUBLIC_MEMBERS[members["kty"]])}
    return encode_octets(hashlib.sha256(orjson.dumps(required)).digest())


def name_key(members: Mapping[str, str], use: str) -> dict[str, str]:
    """Return a key with its id: the beginning of its thumbprint."""
    return {**members, "use": use, "kid": thumbprint(members)[:_ID_LENGTH]}


def encode_octets(content: bytes) -> str:
    """Return bytes as JOSE writes them: in base64url."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def decode_octets(text: str) -> bytes:
    """Return the bytes that a text in base64url stands for. Raises ValueError."""
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def decode_header(text: str) -> dict[str, Any]:
    """Return the protected header of a JWE or JWS, which is not yet proved. Raises ValueError, TypeError."""
    return dict(orjson.loads(decode_octets(text)))


def _split(text: str) -> Sequence[object]:
    try:
        whole = orjson.loads(text)
    except orjson.JSONDecodeError:
        try:
            return [orjson.loads(line) for line in text.splitlines() if line.strip()]
        except orjson.JSONDecodeError:
            raise ValueError(f"it is not a JSON Web Key; {_ADVICE}") from None
    if isinstance(whole, dict) and isinstance(whole.get("keys"), list):
        return list(whole["keys"])
    return whole if isinstance(whole, list) else [whole]


def _parse_key(members: Any, purpose: Purpose) -> SecurityKey:
    if not isinstance(members, dict) or members.get("kty") not in _PUBLIC_MEMBERS:
        raise ValueError(f"it is not a JSON Web Key of a kind that is used here; {_ADVICE}")
    texts = {name: value for name, value in members.items() if isinstance(value, str)}
    kind = texts["kty"]
    if any(name not in texts for name in _PUBLIC_MEMBERS[kind]):
        raise ValueError(f"a key of type {kind} lacks a part; {_ADVICE}")
    if any(_decode(texts[name]) == b"" for name in ("k", "x", "y", "d") if name in texts):
        raise ValueError(f"a part of a key is not base64url; {_ADVICE}")
    if kind == "oct" and len(_decode(texts["k"])) < _SHARED_SECRET_BYTES:
        raise ValueError(f"a shared key needs {_SHARED_SECRET_BYTES} bytes; {_ADVICE}")
    if kind == "oct" and purpose == "encryption" and len(_decode(texts["k"])) != _SHARED_SECRET_BYTES:
        raise ValueError(f"a shared key for encryption has just {_SHARED_SECRET_BYTES} bytes; {_ADVICE}")
    if kind != "oct" and texts["crv"] not in _CURVES[purpose][kind]:
        raise ValueError(f"a key on the curve {texts['crv']} is not for {purpose}; {_ADVICE}")
    key = SecurityKey(texts.get("kid") or thumbprint(texts)[:_ID_LENGTH], kind, texts)
    if kind != "oct":
        _check_bytes(key)
    return key


def _check_bytes(key: SecurityKey) -> None:
    """Raise ValueError unless it is a point on its curve: else it would be noticed at the first save."""
    from holdfast.security import jose

    try:
        jose.check_key(key)
    except jose.CannotOpen as error:
        raise ValueError(f"the key {key.kid} cannot be used: {error}; {_ADVICE}") from None


def _decode(text: str) -> bytes:
    """Return the bytes that a member of a key stands for; nothing if it is not base64url."""
    try:
        return decode_octets(text)
    except ValueError:
        return b""
