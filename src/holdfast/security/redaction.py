"""Takes credentials out of a checkpoint before its digest is made and before it reaches the disk.

One pass of RE2 over the text finds out whether there may be anything; as a rule there is
not, and that is all. Otherwise the strings of the text are looked at one by one, escapes undone. All other
bytes stay as they are. Beside a sealed state, what stays readable is searched in any case.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any, Literal

import orjson

from holdfast.errors import InvalidCheckpoint
from holdfast.format.checkpoint import Draft
from holdfast.format.redacted import MARK, REDACTED_MEMBER, Redacted, format_redacted, parse_redacted
from holdfast.jsontext.members import find_members
from holdfast.jsontext.parse import parse_value
from holdfast.jsontext.strings import Cursor, Text, unescape, walk_strings
from holdfast.security.names import ANCHOR, is_telling
from holdfast.security.patterns import Pattern
from holdfast.security.rules import RULES, Rule
from holdfast.security.sealing import PLAIN_MEMBERS, is_sealed

RedactMode = Literal["off", "known", "strict"]

HELD = "holdfast-secret"
"""The kind of a token or key that Holdfast itself holds."""
TELLING_NAME = "telling-name"
EARLIER = "earlier"
"""The kind of a place that had its mark already when it was handed in, and whose kind nobody knows."""

# A shorter token, as tests and emulators have, is a word that may stand anywhere, and keeps nothing safe.
_SHORTEST = 8
# Escapes that nobody needs, but behind which a credential would not be seen.
_HIDING = r"\\u00(?:[2-7]|0[9a-dA-D])|\\/"
# The same for a secret of other characters than those of ASCII.
_HIDING_ANY = r"\\u"
# Where a word begins in JSON text: also after an escape, whose last character is a letter or a digit. Without
# any edge, RE2 would have too many places to keep in mind, and be hundreds of times slower.
_EDGE = r"(?:\b|\\[bfnrt]|\\u[0-9a-fA-F]{4})"
_SPACE = r"(?:\s|\\[fnrt])"
_BLANKS = re.compile(r"\\s(?=[{+])")
# Where a word must end, unless another credential begins right there.
_LAST_EDGE = re.compile(r"\\b(?=$|\||\))")
# What goes on right behind a credential, and how far from there another one is looked for.
_GOES_ON = frozenset(bytes((byte,)) for byte in range(33, 127)) - frozenset((b'"', b"'", b"\\", b","))
_NEAR = 512
_NAMES = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\r\n]*+:', re.DOTALL)
_MARK = MARK.encode()
_READABLE = ("phase", "workflow")
# A copy of less is made in no time.
_MOST_AT_ONCE = 1024**2
_ABOVE_ALL = frozenset({"state_snapshot", "context_fields"})
_KINDS = frozenset({HELD, TELLING_NAME, EARLIER, *(rule.kind for rule in RULES)})


@dataclass(frozen=True, slots=True)
class Redactor:
    """Takes out what the mode asks for, and always the `secrets` that Holdfast holds, as they are now.

    `readable_mode` is for what stays readable where states are sealed; without it, one mode is for all.
    """

    mode: RedactMode
    secrets: Callable[[], Iterable[str]]
    readable_mode: RedactMode | None = None

    def redact(self, draft: Draft) -> Draft:
        """Return the checkpoint without credentials; the same one if there are none.

        Raises InvalidCheckpoint if its run is called like one, or if its member `redacted` is no such list.
        """
        content, readable = self._searches()
        given = dict(draft.texts)
        listed = _pop_listed(given)
        if not (listed or readable.is_needed or any(_MARK in bytes(text) for text in given.values())):
            return draft
        if not (listed or self.readable_mode) and _is_clean(draft, content):
            return draft
        readable.check_name("run_id", draft.run_id)
        kinds = {place.path: place.kind for place in listed if place.kind in _KINDS}
        rewriting = _Rewriting(content, readable, kinds, draft)
        header = {name: rewriting.text(getattr(draft.header, name), name) for name in _READABLE}
        texts = dict(rewriting.member(name, text) for name, text in given.items())
        if not (rewriting.places or listed):
            return draft
        changed = draft.header.model_copy(update=header)
        places = tuple(rewriting.places)
        if places and REDACTED_MEMBER not in texts:
            texts[REDACTED_MEMBER] = format_redacted(places)
        return replace(draft, header=changed, texts=texts, redacted=places)

    def redact_text(self, text: str) -> str:
        """Return a text by itself without credentials; the very same one if there are none."""
        content = text.encode(errors="surrogatepass")
        spans = _merge(self._searches()[0].find(content))
        for start, end, _ in reversed(spans):
            content = content[:start] + _MARK + content[end:]
        return content.decode(errors="surrogatepass") if spans else text

    def check_name(self, field: str, name: object) -> None:
        """Raise InvalidCheckpoint if what is to be stored as it is, such as a name, holds a credential."""
        self._searches()[1].check_name(field, str(name))

    def _searches(self) -> tuple["_Search", "_Search"]:
        """Return what is looked for in what may be sealed, and in what stays readable."""
        return _make_searches(self.mode, self.readable_mode or self.mode, tuple(self.secrets()))


def _pop_listed(given: dict[str, Text]) -> tuple[Redacted, ...]:
    """Take out and return what a checkpoint lists as redacted; a sealed list stays where it is."""
    if REDACTED_MEMBER not in given or is_sealed(given[REDACTED_MEMBER]):
        return ()
    return parse_redacted(given.pop(REDACTED_MEMBER))


def _is_clean(draft: Draft, search: "_Search") -> bool:
    """Whether nothing in a checkpoint is worth a look, found out in one pass; of a large one nobody knows."""
    if draft.size_bytes > _MOST_AT_ONCE:
        return False
    header = draft.header
    pieces: list[Text] = [f"{header.run_id}\n{header.phase}\n{header.workflow or ''}\n".encode()]
    for name, text in draft.texts.items():
        pieces += (_quoted(name), b":", text, b"\n")
    return not search.is_suspect(b"".join(pieces))


@dataclass
class _Rewriting:
    """One checkpoint on its way; `places` grow with all that is taken out, or was before.

    `kinds` are those of what was taken out before, by their places.
    """

    content: "_Search"
    readable: "_Search"
    kinds: dict[str, str]
    draft: Draft
    places: dict[Redacted, None] = field(default_factory=dict)
    _names: int = 1

    def text(self, text: str | None, name: str) -> str | None:
        """Return a text of the header without credentials."""
        if text is None or not self.readable.is_suspect(text.encode()):
            return text
        redacted: str = orjson.loads(self._rewrite(orjson.dumps(text), f"/{name}", self.readable))
        return redacted

    def member(self, name: str, text: Text) -> tuple[str, Text]:
        """Return a member of the checkpoint, by its name, without credentials in either of them."""
        if name in _ABOVE_ALL:
            return name, self._rewrite(text, f"/{name}", self.content)
        name, _ = self._named(name, b"0", self.readable)
        return self._named(name, text, self.readable if name in PLAIN_MEMBERS else self.content)

    def _named(self, name: str, text: Text, search: "_Search") -> tuple[str, Text]:
        given = b"{%b:%b}" % (_quoted(name), bytes(text))
        whole = self._rewrite(given, "", search)
        if whole is given:
            return name, text
        ((new_name, start, end),) = find_members(bytes(whole), lambda _, __: True)
        return new_name, bytes(whole[start:end])

    def _rewrite(self, text: Text, root: str, search: "_Search") -> Text:
        """Return a JSON text without credentials; where there are none, the very same object."""
        if not search.is_suspect(text):
            return text
        telling = search.telling_names(text)
        # Where only names have made it suspect, no string need be searched by itself.
        is_by_content = search.mode != "strict" or replace(search, mode="known").is_suspect(text)
        if not (telling or is_by_content):
            return text
        pieces: list[Text] = []
        rest = name_start = 0
        for cursor in walk_strings(text):
            if cursor.is_name:
                name_start = cursor.start
            is_below = bool(telling) and not cursor.is_name and not telling.isdisjoint(cursor.trail)
            # What gives a credential away may reach from a name into its value.
            first = name_start if cursor.name else cursor.start
            if not (is_below or (is_by_content and search.is_suspect(text, first, cursor.end))):
                continue
            changed = self._literal(cursor, root, search, is_below=is_below)
            if changed is not None:
                pieces += (text[rest : cursor.start], changed)
                rest = cursor.end
        return b"".join((*pieces, text[rest:])) if rest else text

    def _literal(self, cursor: Cursor, root: str, search: "_Search", *, is_below: bool) -> bytes | None:
        """Return what is to stand in place of a string or number; None if it may stay."""
        raw = cursor.raw
        if is_below and raw not in (b'""', _quoted(MARK)):
            self._note(root + cursor.pointer(), TELLING_NAME)
            return _quoted(MARK)
        if not raw.startswith(b'"'):
            return None
        plain = unescape(raw)
        before = unescape(cursor.name).content + b'":"' if cursor.name else b""
        spans = _merge(search.find(plain.content, before))
        if not spans:
            self._carry(root + cursor.pointer(), plain.content)
            return None
        mark = self._new_name() if cursor.is_name else _MARK
        redacted = bytearray()
        rest = 0
        for start, end, _ in spans:
            first, last = plain.span_in_text(start, end)
            redacted += raw[rest:first] + mark
            rest = last
        literal = bytes(redacted + raw[rest:])
        if cursor.is_name:
            cursor.rename(literal)
        for _, _, kind in spans:
            self._note(root + cursor.pointer(), kind)
        return literal

    def _new_name(self) -> bytes:
        """Return what stands for a name: two names of one object must not become the same."""
        while True:
            mark = _MARK if self._names == 1 else b"%b %d" % (_MARK, self._names)
            self._names += 1
            if not any(mark in bytes(text) for text in self.draft.texts.values()):
                return mark

    def _carry(self, path: str, content: bytes) -> None:
        if _MARK in content:
            self._note(path, self.kinds.get(path, EARLIER))

    def _note(self, path: str, kind: str) -> None:
        """Add a place; its path is readable beside a sealed state, and may lead over any names."""
        self.places[Redacted(path, kind)] = None
        self.kinds[path] = kind


@dataclass(frozen=True, slots=True)
class _Search:
    """What is looked for: by the rules of a mode, and by the secrets themselves."""

    mode: RedactMode
    secrets: tuple[str, ...]

    @property
    def is_needed(self) -> bool:
        return self.mode != "off" or bool(self.secrets)

    def is_suspect(self, text: Text, start: int = 0, end: int | None = None) -> bool:
        """Whether there may be anything in a JSON text, or in a plain one, between two places of it."""
        return _compile_anchors(self.mode, self.secrets).search(text, start, end) is not None

    def check_name(self, field: str, name: str) -> None:
        if any(self.find(name.encode())):
            raise InvalidCheckpoint(field, "it is, or holds, a credential; use another name")

    def telling_names(self, text: Text) -> frozenset[bytes]:
        """Return the names in a JSON text, as they stand there, under which a secret is likely."""
        if self.mode != "strict":
            return frozenset()
        return frozenset(name for name in set(_NAMES.findall(text)) if is_telling(parse_value(name)))

    def find(self, content: bytes, before: bytes = b"") -> Iterator[tuple[int, int, str]]:
        """Yield the credentials in a text: start, end, kind. `before` is what says under which name it is."""
        own = _compile_secrets(self.secrets)
        for match in own.finditer(content) if own else ():
            yield match.start(), match.end(), HELD
        whole, offset = before + content, len(before)
        if self.mode == "off" or not self.is_suspect(whole):
            return
        for start, end, kind in _find_by_rules(whole):
            if start >= offset:
                yield start - offset, end - offset, kind


@lru_cache(maxsize=8)
def _make_searches(
    mode: RedactMode, readable_mode: RedactMode, held: tuple[str, ...]
) -> tuple[_Search, _Search]:
    secrets = tuple(sorted({secret for secret in held if len(secret) >= _SHORTEST}))
    return _Search(mode, secrets), _Search(readable_mode, secrets)


def _find_by_rules(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield the credentials that the rules know, also those that stand right behind each other."""
    for rule in _compile_rules():
        for match in rule.pattern.finditer(text):
            yield *_secret_of(match, rule.pattern), rule.kind
            yield from _find_followers(text, match)
        if rule.open_pattern is None:
            continue
        for match in rule.open_pattern.finditer(text):
            followers = list(_find_followers(text, match))
            if followers:
                yield *_secret_of(match, rule.open_pattern), rule.kind
                yield from followers


def _find_followers(text: bytes, match: Any) -> Iterator[tuple[int, int, str]]:
    """Yield the credentials that follow a match at once, even if it took their beginning for its own."""
    while match is not None and text[match.end() : match.end() + 1] in _GOES_ON:
        first, last = max(match.start() + 1, match.end() - _NEAR), match.end()
        match = None
        for rule in _compile_rules():
            near = rule.bare_pattern.finditer(text, first, last + _NEAR)
            start = next((each.start() for each in near if each.start() <= last < each.end()), None)
            if start is not None:
                match = rule.bare_pattern.match(text, start)
                yield *_secret_of(match, rule.bare_pattern), rule.kind
                break


def _secret_of(match: Any, pattern: Pattern) -> tuple[int, int]:
    start, end = match.span(1) if pattern.groups else match.span()
    return start, end


def _merge(spans: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return the spans in order, those that overlap as one, of the kind that begins first."""
    merged: list[tuple[int, int, str]] = []
    for start, end, kind in sorted(spans, key=lambda span: (span[0], -span[1])):
        if merged and start < merged[-1][1]:
            first, last, known = merged[-1]
            merged[-1] = first, max(last, end), known
        else:
            merged.append((start, end, kind))
    return merged


def _quoted(text: str) -> bytes:
    return orjson.dumps(text)


@lru_cache(maxsize=8)
def _compile_anchors(mode: RedactMode, secrets: tuple[str, ...]) -> Pattern:
    """Return one pattern for all that is worth a look in JSON text.

    It is one alternative of all rules, and no set: where a set runs out of memory it finds nothing.
    """
    patterns = [_literal_pattern(_quoted(secret)[1:-1]) for secret in secrets]
    patterns += [_literal_pattern(_MARK), _HIDING]
    if not all(secret.isascii() for secret in secrets):
        patterns.append(_HIDING_ANY)
    if mode != "off":
        patterns += map(_anchor, RULES)
    if mode == "strict":
        patterns.append(ANCHOR)
    return Pattern("|".join(f"(?:{pattern})" for pattern in patterns))


def _anchor(rule: Rule) -> str:
    """Return what finds in JSON text where a credential may be, also where the next one follows at once."""
    bare = _LAST_EDGE.sub("", rule.anchor or rule.pattern)
    return _BLANKS.sub(lambda _: _SPACE, bare.replace(r"\b", _EDGE))


@lru_cache(maxsize=8)
def _compile_secrets(secrets: tuple[str, ...]) -> Pattern | None:
    if not secrets:
        return None
    return Pattern("|".join(_literal_pattern(secret.encode()) for secret in secrets))


@dataclass(frozen=True, slots=True)
class _CompiledRule:
    """A rule; without its last edge, if it has one; and without any."""

    kind: str
    pattern: Pattern
    open_pattern: Pattern | None
    bare_pattern: Pattern


@cache
def _compile_rules() -> tuple[_CompiledRule, ...]:
    def compiled(rule: Rule) -> _CompiledRule:
        is_open, bare = _LAST_EDGE.sub("", rule.pattern), rule.pattern.replace(r"\b", "")
        return _CompiledRule(
            rule.kind,
            Pattern(rule.pattern),
            Pattern(is_open) if is_open != rule.pattern else None,
            Pattern(bare),
        )

    return tuple(map(compiled, RULES))


def _literal_pattern(content: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in content)
