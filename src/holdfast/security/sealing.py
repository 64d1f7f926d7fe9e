"""Sealed checkpoints: the state and whatever else a caller says, encrypted for the holders of a key.

Ids, trigger, phase, status, times and digests stay readable, so that a run can be listed, checked, merged and
cleaned up by who has no key. Each sealed member names its run, checkpoint and member in its protected header:
moved anywhere else, it does not open.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from holdfast.errors import IntegrityFailure, InvalidCheckpoint, KeyMissing
from holdfast.format.checkpoint import PARTS_MEMBER, Draft, Envelope, Header, stamp
from holdfast.format.completion import KEEP, RETENTION
from holdfast.format.redacted import REDACTED_MEMBER
from holdfast.jsontext.members import join_members, parse_document
from holdfast.jsontext.parse import parse_value
from holdfast.jsontext.strings import Text
from holdfast.security.keys import SecurityKey

SEALED = "$sealed"
PLAIN_MEMBERS = frozenset({REDACTED_MEMBER, PARTS_MEMBER, RETENTION, "forked_from", "fence"})
"""Members that are Holdfast's own and stay readable; all others are the caller's, and are sealed."""

_FINGERPRINT = b"holdfast fingerprint of a checkpoint"
_SEALED_TEXT = re.compile(rb'\s*\{\s*"\$sealed"\s*:')
_NAME = b'"$sealed"'


@dataclass(frozen=True)
class Keyring:
    """The keys in force: the first one seals, all of them open. None at all leaves everything as it is.

    `local_secret` is for writers that only have a public key: it serves to know repetitions, no more.
    """

    keys: Sequence[SecurityKey] = ()
    local_secret: bytes = b""

    def seal(self, draft: Draft) -> Draft:
        """Return the checkpoint with all that its caller says sealed. What is sealed already stays.

        Raises InvalidCheckpoint for what is sealed, but for another place.
        """
        sealed = {name for name, text in draft.texts.items() if is_sealed(text)}
        for name in sealed:
            _check_given(draft, name)
        if not self.keys:
            return draft
        texts = {
            name: text
            if name in sealed or name in PLAIN_MEMBERS
            else self._seal(text, draft.run_id, draft.checkpoint_id, name)
            for name, text in draft.texts.items()
        }
        if RETENTION not in texts and _is_kept(draft.texts.get("context_fields", b"")):
            texts[RETENTION] = orjson.dumps(KEEP)  # retention has no key
        said = None if sealed else draft.fingerprint
        kept = self._key_fingerprint(said) if said else None
        return replace(draft, texts=texts, kept_fingerprint=kept)

    def _seal(self, text: Text, run_id: str, checkpoint_id: str, name: str) -> bytes:
        from holdfast.security import jose

        token = jose.encrypt(bytes(text), self.keys[0], _bind(run_id, checkpoint_id, name))
        return b'{"%b":"%b"}' % (SEALED.encode(), token.encode())

    def _key_fingerprint(self, fingerprint: str) -> str:
        """Return a fingerprint that tells nothing of the content to who does not have the key."""
        import hmac

        secret = self.keys[0].derive(_FINGERPRINT) or self.local_secret
        return hmac.digest(secret, fingerprint.encode(), "sha256").hex()

    def open(self, envelope: Envelope, path: str) -> Envelope:
        """Return the checkpoint, put together from its parts, with everything readable.

        Raises KeyMissing with the id of the key that it takes, IntegrityFailure for what was altered.
        """
        if _NAME not in envelope.content:
            return envelope
        members = parse_document(envelope.content).members
        texts = {name: members[name] for name in members if name != "integrity"}
        sealed = [name for name, text in texts.items() if is_sealed(text)]
        if not sealed:
            return envelope
        for name in sealed:
            texts[name] = self._open(texts[name], envelope, name, path)
        if is_sealed(members.get("context_fields", b"")):
            texts.pop(RETENTION, None)  # its copy for those without a key
        try:
            return stamp(join_members(texts))
        except (InvalidCheckpoint, ValueError) as error:
            raise IntegrityFailure(path, f"what is sealed in it is not JSON: {error}") from error

    def reseal(self, envelope: Envelope, path: str) -> bytes | None:
        """Return the body of a stored checkpoint, sealed with the first key; None if it is already.

        It must be put together from its parts. Raises KeyMissing, IntegrityFailure.
        """
        members = parse_document(envelope.content).members
        texts = {name: members[name] for name in members if name != "integrity"}
        callers = [name for name in texts if name not in PLAIN_MEMBERS and name not in Header.model_fields]
        sealed = {name: texts[name] for name in callers if is_sealed(texts[name])}
        if len(sealed) == len(callers) and sealed_key_ids(sealed, path) == {self.keys[0].kid}:
            return None
        opened = parse_document(self.open(envelope, path).content).members
        header = envelope.header
        for name in callers:
            texts[name] = self._seal(opened[name], header.run_id, header.checkpoint_id, name)
        if RETENTION not in texts and _is_kept(opened.get("context_fields", b"")):
            texts[RETENTION] = orjson.dumps(KEEP)
        return join_members(texts)

    def _open(self, text: bytes, envelope: Envelope, name: str, path: str) -> bytes:
        token, header = read_sealed(text, path)
        key = self._find(header.get("kid"), path)
        expected = _bind(envelope.header.run_id, envelope.checkpoint_id, name)
        if any(header.get(each) != value for each, value in expected.items()):
            raise IntegrityFailure(path, f"its {name} was sealed for another checkpoint, run or member")
        from holdfast.security import jose

        try:
            return jose.decrypt(token, key)
        except jose.CannotOpen as error:
            reason = f"its {name} is not what was sealed with key {key.kid}: {error}"
            raise IntegrityFailure(path, reason) from error

    def _find(self, kid: object, path: str) -> SecurityKey:
        key = next((each for each in self.keys if each.kid == kid), None)
        if key is None:
            raise KeyMissing(path, str(kid), is_public_here=False)
        if not key.is_private:
            raise KeyMissing(path, key.kid, is_public_here=True)
        return key


def is_sealed(text: Text) -> bool:
    """Whether the text of a member says that it is sealed.

    >>> is_sealed(b'{"$sealed": "eyJ..."}'), is_sealed(b'{"sealed": 1}')
    (True, False)
    """
    return _SEALED_TEXT.match(text) is not None


def sealed_key_ids(members: Mapping[str, bytes], path: str) -> set[str]:
    """Return the ids of the keys that the members of a stored checkpoint take. Raises IntegrityFailure."""
    texts = [text for text in members.values() if is_sealed(text)]
    return {str(read_sealed(text, path)[1].get("kid")) for text in texts}


def read_sealed(text: Text, path: str) -> tuple[str, dict[str, Any]]:
    """Return what is sealed, and its protected header, which is not yet proved. Raises IntegrityFailure."""
    try:
        value = parse_value(bytes(text))
        ((_, token),) = value.items()
        encoded, _, _, _, _ = token.split(".")
        header = orjson.loads(
            base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        )
        return token, dict(header)
    except (InvalidCheckpoint, AttributeError, TypeError, ValueError, KeyError, binascii.Error) as error:
        raise IntegrityFailure(path, "it has a sealed member that is not what was written") from error


def _bind(run_id: str, checkpoint_id: str, member: str) -> dict[str, str]:
    return {"run_id": run_id, "checkpoint_id": checkpoint_id, "member": member}


def _check_given(draft: Draft, name: str) -> None:
    """Refuse what a caller hands in sealed unless it was sealed for just this place."""
    try:
        header = read_sealed(draft.texts[name], name)[1]
    except IntegrityFailure as error:
        reason = f"the form {{{SEALED!r}: …}} is kept for what Holdfast has sealed; name the member otherwise"
        raise InvalidCheckpoint(name, reason) from error
    expected = _bind(draft.run_id, draft.checkpoint_id, name)
    if any(header.get(each) != value for each, value in expected.items()):
        raise InvalidCheckpoint(
            name, "it was sealed for another checkpoint, run or member, and would not open"
        )


def _is_kept(context: Text) -> bool:
    if RETENTION.encode() not in bytes(context):
        return False
    value = parse_value(bytes(context))
    return isinstance(value, dict) and value.get(RETENTION) == KEEP
