"""Sealed checkpoints: the state and whatever else a caller says, encrypted for the holders of a key.

Ids, trigger, phase, status, times and digests stay readable, so that a run can be listed, checked, merged and
cleaned up by who has no key. Each sealed member names its run, checkpoint and member in its protected header:
moved anywhere else, it does not open.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from holdfast.errors import IntegrityFailure, InvalidCheckpoint, KeyMissing
from holdfast.format.checkpoint import PARTS_MEMBER, Draft, Envelope, stamp
from holdfast.format.completion import KEEP, RETENTION
from holdfast.format.header import HEADER_MEMBERS
from holdfast.format.parts import join_parts, replace_spans
from holdfast.jsontext.members import find_items, find_members, join_members, parse_document
from holdfast.jsontext.parse import parse_value
from holdfast.jsontext.strings import Text
from holdfast.security.keys import SecurityKey, decode_header

SEALED = "$sealed"
MEMBERS = "$members"
"""The members of a sealed state that are sealed one by one; what is sealed beside them says where they go."""
STATE = "state_snapshot"
PLAIN_MEMBERS = frozenset({PARTS_MEMBER, RETENTION, "forked_from"})
"""Members that are Holdfast's own and stay readable; all others are the caller's, and are sealed."""

_COUNT = "members"
_ALIKE = b"holdfast members of a state"
_FINGERPRINT = b"holdfast fingerprint of a checkpoint"
_SEALED_TEXT = re.compile(rb'\s*\{\s*"\$sealed"\s*:')
_NAME = b'"$sealed"'
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True)
class Keyring:
    """The keys in force: the first one seals, all of them open. None at all leaves everything as it is.

    `local_secret` is for writers that only have a public key: it serves to know repetitions, no more. Members
    of a state from `alike_from_bytes` on are sealed one by one, so that the same member of a run gives the
    same text, and is stored once; None seals states as a whole, as does a key that is not shared.
    """

    keys: Sequence[SecurityKey] = ()
    local_secret: bytes = b""
    alike_from_bytes: int | None = None

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
            if name in sealed or _stays_plain(name, text)
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

        bound = _bind(run_id, checkpoint_id, name)
        members: list[bytes] = []
        if name == STATE and self.alike_from_bytes is not None and self.keys[0].is_shared:
            text, members = self._seal_members(bytes(text), run_id, self.alike_from_bytes)
        if not members:
            return _format_sealed(jose.encrypt(bytes(text), self.keys[0], bound))
        token = jose.encrypt(bytes(text), self.keys[0], {**bound, _COUNT: len(members)})
        return b'{"%b":"%b","%b":[%b]}' % (
            SEALED.encode(),
            token.encode(),
            MEMBERS.encode(),
            b",".join(members),
        )

    def _seal_members(self, state: bytes, run_id: str, least_bytes: int) -> tuple[bytes, list[bytes]]:
        """Return the state with references to those of its members that are sealed alone, and these."""
        from holdfast.format.incremental import find_leaves
        from holdfast.security import jose

        body = b'{"%b":%b}' % (STATE.encode(), state)
        leaves = find_leaves(body, least_bytes)
        if not leaves:
            return state, []
        secret = self.keys[0].derive(_ALIKE) or b""
        sealed, references = [], {}
        for number, leaf in enumerate(leaves):
            text = body[leaf.start : leaf.end]
            token = jose.encrypt_alike(text, self.keys[0], _bind_part(run_id), secret)
            sealed.append(_format_sealed(token))
            reference = {"$part": str(number), "sha256": leaf.digest, "bytes": len(text)}
            references[leaf.start, leaf.end] = orjson.dumps(reference)
        places = b',"%b":%b' % (PARTS_MEMBER.encode(), orjson.dumps([leaf.place for leaf in leaves]))
        references[len(body) - 1, len(body) - 1] = places
        return replace_spans(body, references), sealed

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
        callers = [
            name
            for name, text in texts.items()
            if not _stays_plain(name, text) and name not in HEADER_MEMBERS
        ]
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
        expected = _bind(envelope.header.run_id, envelope.checkpoint_id, name)
        header, opened = self._decrypt(text, expected, name, path)
        members = _members_of(text)
        # How many there are is sealed as well: none can be left out or added.
        if header.get(_COUNT, 0) != len(members):
            raise IntegrityFailure(
                path, f"its {name} is not what was sealed: members are missing, or too many"
            )
        if not members:
            return opened
        bound = _bind_part(envelope.header.run_id)
        texts = [self._decrypt(member, bound, name, path)[1] for member in members]
        try:
            return parse_document(join_parts(opened, lambda number: texts[int(number)], path)).members[name]
        except (InvalidCheckpoint, ValueError, LookupError) as error:
            raise IntegrityFailure(path, f"its {name} is not what was sealed: {error}") from error

    def _decrypt(
        self, text: bytes, expected: Mapping[str, Any], name: str, path: str
    ) -> tuple[Mapping[str, Any], bytes]:
        """Return the header and the content of what is sealed, for the place that it was sealed for."""
        token, header = read_sealed(text, path)
        key = self._find(header.get("kid"), path)
        if any(header.get(each) != value for each, value in expected.items()):
            raise IntegrityFailure(path, f"its {name} was sealed for another checkpoint, run or member")
        from holdfast.security import jose

        try:
            return header, jose.decrypt(token, key)
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
        token = value[SEALED] if value.keys() <= {SEALED, MEMBERS} else ""
        encoded, _, _, _, _ = token.split(".")
        return token, decode_header(encoded)
    except (InvalidCheckpoint, AttributeError, TypeError, ValueError, KeyError) as error:
        raise IntegrityFailure(path, "it has a sealed member that is not what was written") from error


def _bind(run_id: str, checkpoint_id: str, member: str) -> dict[str, str]:
    return {"run_id": run_id, "checkpoint_id": checkpoint_id, "member": member}


def _bind_part(run_id: str) -> dict[str, str]:
    """Return what a member that several checkpoints of a run may have is sealed for."""
    return {"run_id": run_id, "member": f"{STATE}/part"}


def _format_sealed(token: str) -> bytes:
    return b'{"%b":"%b"}' % (SEALED.encode(), token.encode())


def _members_of(text: Text) -> list[bytes]:
    """Return the members that were sealed one by one, as they stand."""
    content = bytes(text)
    for _, start, end in find_members(content, lambda name, _: name == MEMBERS):
        return [content[begins:ends] for _, begins, ends in find_items(content, 0, start, end)]
    return []


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


def _stays_plain(name: str, text: Text) -> bool:
    """Whether a member is one of Holdfast's own, and says no more than such a one does."""
    if name == PARTS_MEMBER or name not in PLAIN_MEMBERS:
        return name in PLAIN_MEMBERS
    value = parse_value(bytes(text))
    if name == RETENTION:
        return bool(value == KEEP)
    texts = value.values() if isinstance(value, dict) and value.keys() <= {"run_id", "checkpoint_id"} else [0]
    return all(isinstance(each, str) and _ID.fullmatch(each) for each in texts)


def _is_kept(context: Text) -> bool:
    if RETENTION.encode() not in bytes(context):
        return False
    value = parse_value(bytes(context))
    return isinstance(value, dict) and value.get(RETENTION) == KEEP
