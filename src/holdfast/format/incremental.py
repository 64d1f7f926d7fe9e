"""Which members of a state are stored once: those that an earlier checkpoint of the run had already.

A member that is seen a second time, unchanged, becomes a part, and from then on it is referred to for as long
as it stays as it is. Where a part costs nothing, what comes in its place then is a part as well. What the
newest stored checkpoint holds is all that one has to know for this, so that any machine can go on where
another left off.

States that are sealed cannot be looked into here. Whoever seals them splits them before (`find_leaves`), and
seals each member so that the same one always gives the same text, which is then known again here.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from holdfast.errors import IntegrityFailure, InvalidCheckpoint
from holdfast.format.checkpoint import PARTS_MEMBER, Envelope
from holdfast.format.header import read_header
from holdfast.format.part_files import MAX_FILE_BYTES, PartFiles, PartStyle, make_parts, part_name
from holdfast.format.parts import Place, part_paths
from holdfast.format.splitting import Moved, stamp_in_parts
from holdfast.jsontext.members import find_items, find_members, parse_document, sha256_hex

# Each reference is a file in the repository, and takes some 250 bytes in its checkpoint.
_MOST_REFERENCES = 64
_DEEPEST = 8
_STATE = "state_snapshot"
# What is looked at in a stored checkpoint without its parts: these stay where they are.
_KEPT = frozenset({"gate_history", "circuit_breaker_state", "$sealed"})
_KEPT_BUT_FOR_MEMBERS = frozenset({"progress", "$members"})


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a state that may become a part: where it is, and the digest of its text."""

    place: Place
    start: int
    end: int
    digest: str


@dataclass(frozen=True, slots=True)
class Memory:
    """What the newest stored checkpoint of a run holds: digests of its members, and names of its parts."""

    digests: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    places: frozenset[Place] = frozenset()
    """Where it refers to parts."""

    def only(self, there: Container[str]) -> "Memory":
        """Return the same with those of the parts that are there."""
        return replace(self, parts=frozenset(name for name in self.parts if name in there))


def find_members_of_state(body: bytes, least_bytes: int) -> list[Member]:
    """Return the members of the state that are worth a part of their own, at any depth."""
    ((_, start, end),) = find_members(body, lambda name, _: name == _STATE)
    return list(_walk(body, start, end, (_STATE,), least_bytes))


def find_leaves(body: bytes, least_bytes: int) -> list[Member]:
    """Return members of the state to seal one by one: the innermost that are worth it, but not too many."""
    members = find_members_of_state(body, least_bytes)
    for deepest in range(_DEEPEST, 1, -1):
        near = [member for member in members if len(member.place) <= deepest]
        leaves = [
            member
            for member, following in zip_longest(near, near[1:])
            if following is None or following.start >= member.end
        ]
        if len(leaves) <= _MOST_REFERENCES:
            return leaves
    return sorted(leaves, key=lambda member: member.start - member.end)[:_MOST_REFERENCES]


def _walk(body: bytes, start: int, end: int, place: Place, least_bytes: int) -> Iterator[Member]:
    """Yield a value's members, each before what is within it."""
    if len(place) > _DEEPEST:
        return
    found: list[tuple[str | int, int, int]] = []
    if body.startswith(b"{", start):
        found += find_members(body, lambda _, size_bytes: size_bytes >= least_bytes, start, end)
    elif body.startswith(b"[", start):
        found += find_items(body, least_bytes, start, end)
    for name, begins, ends in found:
        if place == (_STATE,) and name in _KEPT:
            continue
        if place != (_STATE,) or name not in _KEPT_BUT_FOR_MEMBERS:
            yield Member((*place, name), begins, ends, sha256_hex(memoryview(body)[begins:ends]))
        yield from _walk(body, begins, ends, (*place, name), least_bytes)


def remember(content: bytes, path: str, run_folder: str, least_bytes: int) -> Memory:
    """Return what a stored checkpoint holds; nothing if it cannot be read."""
    try:
        document = parse_document(content).value
        paths = part_paths(document, path)
        places = frozenset(tuple(place) for place in document.get(PARTS_MEMBER, ()))
        digests = frozenset(member.digest for member in find_members_of_state(content, least_bytes))
    except (IntegrityFailure, InvalidCheckpoint, ValueError):
        return Memory()
    return Memory(digests, frozenset(each.removeprefix(f"{run_folder}/") for each in paths), places)


@dataclass
class PartChooser:
    """Stamps the checkpoints of one run, one after the other, and moves what is known already to parts.

    `least_bytes` is the size from which on a member is worth a part of its own. What one checkpoint sends,
    the next ones need not: a checkpoint that is stamped again, under another number, is stamped as it was.
    """

    memory: Memory
    style: PartStyle
    limit_bytes: int
    least_bytes: int
    keep: Callable[[str, Memory], None] = lambda _, __: None
    """Is told what each stamped checkpoint holds, by its blob."""
    sign: Callable[[bytes], str] | None = None
    replaces_parts: bool = False
    """Whether what comes in the place of a part is one at first sight: it is sent once, and not in
    `latest.json` again. That is worth it where a part costs no request."""
    _chosen_for: dict[str, frozenset[str]] = field(default_factory=dict)
    _seen_by: dict[str, str] = field(default_factory=dict)
    _sent_by: dict[str, str] = field(default_factory=dict)

    def stamp(self, body: bytes) -> Envelope:
        """Return a checkpoint as the repository will hold it, with the parts that are not there yet."""
        checkpoint_id = read_header(body).checkpoint_id
        members = find_members_of_state(body, self.least_bytes)
        chosen = self._choose(body, members, checkpoint_id)
        envelope = stamp_in_parts(
            body, limit_bytes=self.limit_bytes, style=self.style, moved=chosen, sign=self.sign
        )
        for member in members:
            self._seen_by.setdefault(member.digest, checkpoint_id)
        if envelope.parts.keys() == {name for each in chosen for name in each.parts.files}:
            self._remember(envelope, members, chosen)
        return self._without_known(envelope, checkpoint_id)

    def _remember(self, envelope: Envelope, members: list[Member], chosen: list[Moved]) -> None:
        """Keep in mind what could be read from the stored checkpoint as well."""
        spans = [(each.start, each.end) for each in chosen]
        inline = (
            member.digest
            for member in members
            if not any(start < member.end and member.start < end for start, end in spans)
        )
        places = frozenset(each.place for each in chosen)
        self.keep(envelope.blob_sha, Memory(frozenset(inline), frozenset(envelope.parts), places))

    def _choose(self, body: bytes, members: list[Member], checkpoint_id: str) -> list[Moved]:
        """Return what was seen before, the outermost only, and the largest if there is too much of it."""
        before = self._chosen_for.get(checkpoint_id)
        known: list[tuple[Member, PartFiles]] = []
        taken_until = 0
        replaced = self._find_replaced(members)
        for member in members:
            if member.start < taken_until or (before is not None and member.digest not in before):
                continue
            files = self._parts_of_known(body, member, checkpoint_id)
            if files is None and member.place in replaced:
                files = make_parts(memoryview(body)[member.start : member.end], self.style)
            if files:
                known.append((member, files))
                taken_until = member.end
        known.sort(key=lambda pair: pair[0].start - pair[0].end)
        del known[_MOST_REFERENCES:]
        self._chosen_for[checkpoint_id] = frozenset(member.digest for member, _ in known)
        return [Moved(each.place, each.start, each.end, files) for each, files in known]

    def _find_replaced(self, members: list[Member]) -> set[Place]:
        """Return the innermost places that the newest checkpoint had parts at; of others, more may stay."""
        if not self.replaces_parts:
            return set()
        return {
            member.place
            for member, following in zip_longest(members, members[1:])
            if member.place in self.memory.places and (following is None or following.start >= member.end)
        }

    def _parts_of_known(self, body: bytes, member: Member, checkpoint_id: str) -> PartFiles | None:
        is_seen = member.digest in self.memory.digests or _is_other(
            self._seen_by, member.digest, checkpoint_id
        )
        may_be_packed = (
            self.style.compress_from_bytes is not None or member.end - member.start > MAX_FILE_BYTES
        )
        is_seen = is_seen or checkpoint_id in self._chosen_for
        if not is_seen and not may_be_packed and not self._is_there(part_name(member.digest), checkpoint_id):
            return None
        files = make_parts(memoryview(body)[member.start : member.end], self.style)
        return files if is_seen or all(self._is_there(name, checkpoint_id) for name in files.files) else None

    def _is_there(self, name: str, checkpoint_id: str) -> bool:
        return name in self.memory.parts or _is_other(self._sent_by, name, checkpoint_id)

    def _without_known(self, envelope: Envelope, checkpoint_id: str) -> Envelope:
        sent = {
            name: content
            for name, content in envelope.parts.items()
            if not self._is_there(name, checkpoint_id)
        }
        for name in sent:
            self._sent_by.setdefault(name, checkpoint_id)
        return Envelope(envelope.header, envelope.content, sent)


def _is_other(owners: Mapping[str, str], key: str, checkpoint_id: str) -> bool:
    return owners.get(key, checkpoint_id) != checkpoint_id
