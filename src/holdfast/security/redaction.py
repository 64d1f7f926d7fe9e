"""Takes credentials out of a checkpoint before its digest is made and before it reaches the disk.

One pass of RE2 over the text finds out whether there may be anything; as a rule there is
not, and that is all. Otherwise the strings of the text are looked at one by one, escapes undone. All other
bytes stay as they are.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Literal

import orjson

from holdfast.errors import InvalidCheckpoint
from holdfast.format.checkpoint import Draft
from holdfast.format.redacted import MARK, REDACTED_MEMBER, Redacted, format_redacted, parse_redacted
from holdfast.jsontext.parse import parse_value
from holdfast.jsontext.strings import Cursor, Text, unescape, walk_strings
from holdfast.security.names import ANCHOR, is_telling
from holdfast.security.rules import RULES, Rule

RedactMode = Literal["off", "known", "strict"]

HELD = "holdfast-secret"
"""The kind of a token or key that Holdfast itself holds."""
TELLING_NAME = "telling-name"
EARLIER = "earlier"
"""The kind of a place that had its mark already when it was handed in, and whose kind nobody knows."""

# A shorter token, as tests and emulators have, is a word that may stand anywhere, and keeps nothing safe.
_SHORTEST = 8
# Escapes that nobody needs, but behind which a credential would not be seen.
_HIDING = r"\\u00[2-7]|\\/"
# Where a word begins in JSON text: also after an escape, whose last character is a letter or a digit.
_EDGE = r"(?:\b|\\[bfnrt]|\\u[0-9a-fA-F]{4})"
_NAMES = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")[ \t\r\n]*+:', re.DOTALL)
_MARK = MARK.encode()
_READABLE = ("phase", "workflow")


@dataclass(frozen=True, slots=True)
class Redactor:
    """Takes out what the mode asks for, and always the `secrets` that Holdfast holds, as they are now."""

    mode: RedactMode
    secrets: Callable[[], Iterable[str]]

    def redact(self, draft: Draft) -> Draft:
        """Return the checkpoint without credentials; the same one if there are none.

        Raises InvalidCheckpoint if its run is called like one, or if its member `redacted` is no such list.
        """
        secrets = {secret for secret in self.secrets() if len(secret) >= _SHORTEST}
        search = _Search(self.mode, tuple(sorted(secrets)))
        given = dict(draft.texts)
        listed = parse_redacted(given.pop(REDACTED_MEMBER, b"[]"))
        if not (listed or search.is_needed or any(_MARK in bytes(text) for text in given.values())):
            return draft
        if search.is_suspect(draft.run_id.encode()) and list(search.find(draft.run_id.encode())):
            raise InvalidCheckpoint("run_id", "it is, or holds, a credential; call the run otherwise")
        rewriting = _Rewriting(search, {place.path: place.kind for place in listed})
        header = {name: rewriting.text(getattr(draft.header, name), name) for name in _READABLE}
        texts = {name: rewriting.member(text, name) for name, text in given.items()}
        if not (rewriting.places or listed):
            return draft
        changed = draft.header.model_copy(update=header)
        places = tuple(rewriting.places)
        if places:
            texts[REDACTED_MEMBER] = format_redacted(places)
        return replace(draft, header=changed, texts=texts, redacted=places)


class _Rewriting:
    """One checkpoint on its way; `places` grow with all that is taken out, or was before."""

    def __init__(self, search: "_Search", kinds: Mapping[str, str]) -> None:
        self._search = search
        self._kinds = kinds
        self._names = 0
        self.places: list[Redacted] = []

    def text(self, text: str | None, name: str) -> str | None:
        """Return a text of the header without credentials."""
        if text is None or not self._search.is_suspect(text.encode()):
            return text
        literal = self.member(orjson.dumps(text), name)
        redacted: str = orjson.loads(literal)
        return redacted

    def member(self, text: Text, name: str) -> Text:
        """Return the JSON text of a member without credentials; where there are none, the very same bytes."""
        if not self._search.is_suspect(text):
            return text
        hits, telling = self._search.hits(text), self._search.telling_names(text)
        if not (hits or telling):
            return text
        pieces: list[Text] = []
        rest = 0
        for cursor in walk_strings(text):
            is_below = bool(telling) and not cursor.is_name and not telling.isdisjoint(cursor.trail)
            if not (is_below or hits.touch(cursor.start, cursor.end)):
                continue
            changed = self._literal(cursor, f"/{name}", is_below=is_below)
            if changed is not None:
                pieces += (text[rest : cursor.start], changed)
                rest = cursor.end
        return b"".join((*pieces, text[rest:])) if rest else text

    def _literal(self, cursor: Cursor, root: str, *, is_below: bool) -> bytes | None:
        """Return what is to stand in place of a string or number; None if it may stay."""
        raw = cursor.raw
        if is_below and raw not in (b'""', _quoted(MARK)):
            self.places.append(Redacted(root + cursor.pointer(), TELLING_NAME))
            return _quoted(MARK)
        if not raw.startswith(b'"'):
            return None
        plain = unescape(raw)
        before = unescape(cursor.name).content + b'":"' if cursor.name else b""
        spans = _merge(self._search.find(plain.content, before))
        if not spans:
            self._carry(root + cursor.pointer(), plain.content)
            return None
        mark = _MARK
        if cursor.is_name:
            self._names += 1
            # Two names of one object must not become the same.
            mark = _MARK if self._names == 1 else b"%b %d" % (_MARK, self._names)
        redacted = bytearray()
        rest = 0
        for start, end, _ in spans:
            first, last = plain.span_in_text(start, end)
            redacted += raw[rest:first] + mark
            rest = last
        literal = bytes(redacted + raw[rest:])
        if cursor.is_name:
            cursor.rename(literal)
        for kind in dict.fromkeys(kind for _, _, kind in spans):
            self.places.append(Redacted(root + cursor.pointer(), kind))
        return literal

    def _carry(self, path: str, content: bytes) -> None:
        if _MARK in content:
            self.places.append(Redacted(path, self._kinds.get(path, EARLIER)))


class _Hits:
    """Places in a text that are worth a look."""

    def __init__(self, places: Iterable[int]) -> None:
        self._places = sorted(places)

    def __bool__(self) -> bool:
        return bool(self._places)

    def touch(self, start: int, end: int) -> bool:
        at = bisect_left(self._places, start)
        return at < len(self._places) and self._places[at] < end


@dataclass(frozen=True, slots=True)
class _Search:
    """What is looked for: by the rules of a mode, and by the secrets themselves."""

    mode: RedactMode
    secrets: tuple[str, ...]

    @property
    def is_needed(self) -> bool:
        return self.mode != "off" or bool(self.secrets)

    def is_suspect(self, text: Text) -> bool:
        """Whether there may be anything in a JSON text, or in a plain one."""
        return _compile_anchors(self.mode, self.secrets).search(text) is not None

    def hits(self, text: Text) -> _Hits:
        """Return the places of a JSON text to look at. A match may reach from a name into its value."""
        mode: RedactMode = "off" if self.mode == "off" else "known"
        found = _compile_anchors(mode, self.secrets).finditer(text)
        return _Hits(place for match in found for place in (match.start(), match.end() - 1))

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
        for kind, pattern in _compile_rules() if self.mode != "off" else ():
            for match in pattern.finditer(whole):
                start, end = match.span(1) if pattern.groups else match.span()
                if start >= offset:
                    yield start - offset, end - offset, kind


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
def _compile_anchors(mode: RedactMode, secrets: tuple[str, ...]) -> Any:
    """Return one pattern for all that is worth a look in JSON text.

    It is one alternative of all rules, and no set: where a set runs out of memory it finds nothing.
    """
    patterns = [_literal_pattern(_quoted(secret)[1:-1]) for secret in secrets]
    patterns += [_literal_pattern(_MARK), _HIDING]
    if mode != "off":
        patterns += [(rule.anchor or rule.pattern).replace(r"\b", _EDGE) for rule in RULES]
    if mode == "strict":
        patterns.append(ANCHOR)
    return _compile("|".join(f"(?:{pattern})" for pattern in patterns))


@lru_cache(maxsize=8)
def _compile_secrets(secrets: tuple[str, ...]) -> Any:
    if not secrets:
        return None
    return _compile("|".join(_literal_pattern(secret.encode()) for secret in secrets))


@cache
def _compile_rules() -> tuple[tuple[str, Any], ...]:
    def compiled(rule: Rule) -> tuple[str, Any]:
        return rule.kind, _compile(rule.pattern)

    return tuple(map(compiled, RULES))


def _literal_pattern(content: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in content)


def _compile(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    return re2.compile(pattern.encode(), options)
