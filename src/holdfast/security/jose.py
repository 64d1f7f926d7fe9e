"""The one door to joserfc: JWE compact (RFC 7516) and detached JWS (RFC 7515), and the keys for them.

It is loaded only where a key is in use: it brings `cryptography`, which takes longer to load than Holdfast.
"""

import hmac
import secrets
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson
from joserfc import jwe, jws
from joserfc.errors import JoseError
from joserfc.jwe import JWERegistry
from joserfc.jwk import ECKey, OctKey, OKPKey
from joserfc.jws import JWSRegistry

from holdfast.security.keys import SecurityKey, encode_octets, name_key

# More than any state has: what would unpack to more is not unpacked.
MOST_BYTES = 64 * 1024 * 1024
_ALGORITHMS = ["dir", "ECDH-ES+A256KW", "A256GCM", "DEF"]
_VECTOR_BYTES = 12
_PARTS = ("kty", "crv", "x", "y", "k", "d")
_KEY_TYPES: dict[str, Any] = {"oct": OctKey, "EC": ECKey, "OKP": OKPKey}


class CannotOpen(Exception):
    """What is sealed or signed is not what it was, or this is not the key for it."""


class _Deflate:
    """DEFLATE as RFC 7516 has it, for texts of any size that we store; joserfc's own stops at 250 KB."""

    name = "DEF"

    def compress(self, plaintext: bytes) -> bytes:
        # The quickest level: states are JSON, of which it saves most of what there is to save.
        packing = zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
        return packing.compress(plaintext) + packing.flush()

    def decompress(self, packed: bytes) -> bytes:
        unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
        plaintext = unpacking.decompress(packed, MOST_BYTES)
        if not unpacking.eof:
            raise CannotOpen("it is cut short, or unpacks to more than any state has")
        return plaintext


class _Registry(JWERegistry):
    """What is allowed: two ways to manage keys, one to encrypt, and sizes that states have."""

    max_ciphertext_length = 2 * MOST_BYTES
    _deflate = _Deflate()

    def get_zip(self, name: str) -> Any:
        super().get_zip(name)
        return self._deflate


class _SignatureRegistry(JWSRegistry):
    """Two ways to sign that always give the same: a retry must send the same bytes."""

    max_payload_length = 2 * MOST_BYTES

    def get_alg(self, name: str) -> Any:
        # joserfc would warn of the name EdDSA, for which RFC 9864 has a new one that few know yet.
        if name not in ("EdDSA", "HS256"):
            raise CannotOpen(f"the signature is made in a way that is not used here: {name!r}")
        return self.algorithms[name]


_REGISTRY = _Registry(algorithms=_ALGORITHMS, strict_check_header=False)
_SIGNATURES = _SignatureRegistry(algorithms=["EdDSA", "HS256"])


def encrypt(plaintext: bytes, key: SecurityKey, protected: Mapping[str, Any]) -> str:
    """Return a JWE for the holder of `key`; `protected` is readable, but cannot be altered."""
    return jwe.encrypt_compact(_header(key, protected), plaintext, _load(key), registry=_REGISTRY)


def encrypt_alike(plaintext: bytes, key: SecurityKey, protected: Mapping[str, Any], secret: bytes) -> str:
    """Return a JWE by a shared key that is the same for the same plaintext and header.

    Its initialization vector is a keyed digest of all that is encrypted: no two texts have the same one, as
    if it were made by chance.
    """
    header = encode_octets(orjson.dumps(_header(key, protected))).encode()
    packed = _REGISTRY.get_zip("DEF").compress(plaintext)
    vector = hmac.digest(secret, header + b"." + packed, "sha256")[:_VECTOR_BYTES]
    cipher = _REGISTRY.get_enc("A256GCM")
    sealed, tag = cipher.encrypt(packed, _load(key).raw_value, vector, header)
    return f"{header.decode()}..{encode_octets(vector)}.{encode_octets(sealed)}.{encode_octets(tag)}"


def _header(key: SecurityKey, protected: Mapping[str, Any]) -> dict[str, Any]:
    algorithm = "dir" if key.is_shared else "ECDH-ES+A256KW"
    return {"alg": algorithm, "enc": "A256GCM", "zip": "DEF", "kid": key.kid, **protected}


def decrypt(token: str, key: SecurityKey) -> bytes:
    """Return the plaintext of a JWE. Raises CannotOpen."""
    try:
        opened = jwe.decrypt_compact(token, _load(key), registry=_REGISTRY)
    except (JoseError, ValueError, TypeError, KeyError, AssertionError, zlib.error) as error:
        raise CannotOpen(f"it cannot be opened ({type(error).__name__})") from error
    return opened.plaintext or b""


def sign(payload: bytes, key: SecurityKey) -> str:
    """Return a detached JWS over `payload`. The same payload and key always give the same."""
    protected = {"alg": _signature_algorithm(key), "kid": key.kid}
    whole = jws.serialize_compact(protected, payload, _load(key), registry=_SIGNATURES)
    header, _, signature = whole.split(".")
    return f"{header}..{signature}"


def verify(signature: str, payload: bytes, key: SecurityKey) -> None:
    """Raise CannotOpen unless `signature` is one of this key over `payload`."""
    try:
        header, empty, mac = signature.split(".")
        whole = f"{header}.{encode_octets(payload)}.{mac}"
        found = jws.deserialize_compact(whole, _load(key), registry=_SIGNATURES)
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise CannotOpen(f"the signature does not match ({type(error).__name__})") from error
    if empty or found.headers().get("alg") != _signature_algorithm(key):
        raise CannotOpen("the signature is not of the form that is used here")


def _signature_algorithm(key: SecurityKey) -> str:
    return "HS256" if key.is_shared else "EdDSA"


def check_key(key: SecurityKey) -> None:
    """Raise CannotOpen unless the bytes of a key are those of one, and its two halves belong together."""
    try:
        loaded = _load(key)
        if key.kind == "OKP" and key.is_private:
            public = encode_octets(loaded.private_key.public_key().public_bytes_raw())
            if public != key.members["x"].rstrip("="):
                raise CannotOpen("its two halves do not belong together")
    except (JoseError, ValueError, TypeError, KeyError) as error:
        raise CannotOpen("its bytes are not those of such a key") from error


def make_shared_key() -> dict[str, str]:
    """Return a new key that seals and opens."""
    return name_key({"kty": "oct", "k": encode_octets(secrets.token_bytes(32))}, "enc")


def make_recipient_key() -> dict[str, str]:
    """Return a new pair of keys: the public half seals, the whole of it opens."""
    return name_key(_plain(ECKey.generate_key("P-256", private=True)), "enc")


def make_signing_key() -> dict[str, str]:
    """Return a new pair of keys: the whole of it signs, the public half verifies."""
    return name_key(_plain(OKPKey.generate_key("Ed25519", private=True)), "sig")


def public_half(members: Mapping[str, str]) -> dict[str, str]:
    """Return the half of a pair of keys that others may have."""
    return {name: value for name, value in members.items() if name != "d"}


def _plain(key: Any) -> dict[str, str]:
    members: dict[str, str] = key.as_dict(private=True)
    return {name: members[name] for name in ("kty", "crv", "x", "y", "d") if name in members}


def _load(key: SecurityKey) -> Any:
    return _import(key.kind, tuple((name, key.members[name]) for name in _PARTS if name in key.members))


@lru_cache(maxsize=16)
def _import(kind: str, members: tuple[tuple[str, str], ...]) -> Any:
    return _KEY_TYPES[kind].import_key(dict(members))
