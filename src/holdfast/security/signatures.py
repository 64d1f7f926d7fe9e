"""Signed checkpoints: who can write to the repository cannot make a run go on from a state of their own.

A signature is a detached JWS over the same canonical JSON as the digest, so it covers every member, sealed
ones and references to parts included. The one who drains signs, since only then is the number final.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.errors import IntegrityFailure
from holdfast.format.checkpoint import Envelope
from holdfast.jsontext.members import parse_document
from holdfast.security.keys import SecurityKey, decode_header

Sign = Callable[[bytes], str]

_ADVICE = "set HOLDFAST_ALLOW_UNSIGNED to true to take it all the same"


class Unsigned(IntegrityFailure):
    """The checkpoint at `path` has no signature, although a key says that it must."""


class Forged(IntegrityFailure):
    """The signature of the checkpoint at `path` is not one of the keys that are here."""


@dataclass(frozen=True)
class Signatures:
    """The keys that sign and verify: the first one signs, all of them verify. Without any, all is trusted."""

    keys: Sequence[SecurityKey] = ()
    is_unsigned_allowed: bool = False

    @property
    def sign(self) -> Sign | None:
        """Return what signs the canonical form of a checkpoint; None if no private key is here."""
        if not self.keys or not self.keys[0].is_private:
            return None
        key = self.keys[0]

        def sign(payload: bytes) -> str:
            from holdfast.security import jose

            return jose.sign(payload, key)

        return sign

    def check(self, envelope: Envelope, path: str) -> None:
        """Raise Unsigned or Forged unless a checkpoint, as it is stored, is to be trusted."""
        if not self.keys:
            return
        document = parse_document(envelope.content)
        integrity: Any = document.value.get("integrity")
        signature = integrity.get("signature") if isinstance(integrity, dict) else None
        if signature is None:
            if self.is_unsigned_allowed:
                return
            raise Unsigned(path, f"it is not signed; {_ADVICE}")
        kid = _key_id(signature)
        key = next((each for each in self.keys if each.kid == kid), None)
        if key is None:
            raise Forged(path, f"it is signed with key {kid!r}, which HOLDFAST_SIGNING_KEY does not have")
        from holdfast.security import jose

        try:
            jose.verify(signature, document.canonical_without("integrity"), key)
        except jose.CannotOpen as error:
            raise Forged(path, f"its signature is not one of key {key.kid} over this content") from error


def _key_id(signature: object) -> str:
    """Return the id of the key that a signature names, which is not yet proved; nothing if it names none."""
    try:
        return str(decode_header(str(signature).partition(".")[0])["kid"])
    except (ValueError, TypeError, KeyError):
        return ""
