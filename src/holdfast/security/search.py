"""What is looked for in the texts of a checkpoint: shapes of credentials, telling names, our own secrets."""

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

import orjson

from holdfast.errors import InvalidCheckpoint
from holdfast.format.redacted import MARK
from holdfast.jsontext.parse import parse_value
from holdfast.jsontext.strings import Text, unescape, walk_strings
from holdfast.security.credential_shapes import RULES, Rule
from holdfast.security.patterns import Pattern
from holdfast.security.secret_names import ANCHOR, ASSIGNED, ASSIGNED_ANCHORS, NESTED_ANCHOR, is_telling

RedactMode = Literal["off", "known", "strict"]
Span = tuple[int, int, str]
"""Where something in a text begins and ends, and of which kind it is."""

HELD = "holdfast-secret"
"""The kind of a token or key that Holdfast itself holds."""
TELLING_NAME = "telling-name"

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
_MARK = MARK.encode()
# Every string is taken, so that none is mistaken for what stands between two others.
_STRINGS = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")([ \t\r\n]*+:)?', re.DOTALL)


class Search(NamedTuple):
    """What is looked for: by the rules of a mode, and by the secrets themselves."""

    mode: RedactMode
    secrets: tuple[str, ...]

    @property
    def is_needed(self) -> bool:
        return self.mode != "off" or bool(self.secrets)

    def is_suspect(self, text: Text, start: int = 0, end: int | None = None) -> bool:
        """Whether there may be anything in a JSON text, or in a plain one, between two places of it."""
        return _compile_anchors(self.mode, self.secrets, with_names=True).search(text, start, end) is not None

    def is_suspect_in_itself(self, text: Text, start: int = 0, end: int | None = None) -> bool:
        """Whether there may be anything in it but values under telling names."""
        return (
            _compile_anchors(self.mode, self.secrets, with_names=False).search(text, start, end) is not None
        )

    def check_name(self, field: str, name: str) -> None:
        if any(self.find(name.encode(errors="surrogatepass"))):
            raise InvalidCheckpoint(field, "it is, or holds, a credential; use another name")

    def telling_names(self, text: Text) -> frozenset[bytes]:
        """Return the names in a JSON text, as they stand there, under which a secret is likely."""
        if self.mode != "strict":
            return frozenset()
        names = {string for string, colon in _STRINGS.findall(text) if colon}
        return frozenset(name for name in names if is_telling(parse_value(name)))

    def find(self, content: bytes, before: bytes = b"") -> Iterator[Span]:
        """Yield the credentials in a text. `before` is what says under which name it is."""
        own = _compile_secrets(self.secrets)
        for match in own.finditer(content) if own else ():
            yield match.start(), match.end(), HELD
        whole, offset = before + content, len(before)
        if self.mode == "off" or not self.is_suspect(whole):
            return
        for start, end, kind in _find_by_rules(whole):
            if start >= offset:
                yield start - offset, end - offset, kind
        if self.mode == "strict":
            for start, end in (*_find_assigned(content), *self._find_nested(content)):
                is_marked = content.startswith(_MARK, start) and end <= start + len(_MARK)
                if not is_marked:
                    yield start, end, TELLING_NAME

    def _find_nested(self, content: bytes) -> Iterator[tuple[int, int]]:
        """Yield what stands under telling names in a text that is JSON itself, and in texts within it."""
        if not _is_document(content):
            return
        telling = self.telling_names(content)
        for cursor in walk_strings(content):
            if cursor.is_name or not cursor.raw.startswith(b'"'):
                continue
            if not telling.isdisjoint(cursor.trail):
                if cursor.raw != b'""':
                    yield cursor.start + 1, cursor.end - 1
                continue
            inner = unescape(cursor.raw)
            for span in self._find_nested(inner.content):
                first, last = inner.span_in_text(*span)
                yield cursor.start + first, cursor.start + last


@lru_cache(maxsize=8)
def make_searches(
    mode: RedactMode, readable_mode: RedactMode, held: tuple[str, ...]
) -> tuple[Search, Search]:
    """Return what is looked for in what may be sealed, and in what stays readable."""
    secrets = tuple(sorted({secret for secret in held if len(secret) >= _SHORTEST}))
    return Search(mode, secrets), Search(readable_mode, secrets)


def _find_by_rules(text: bytes) -> Iterator[Span]:
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


def _find_assigned(text: bytes) -> Iterator[tuple[int, int]]:
    """Yield what a text assigns to telling names."""
    for pattern in _compile_assigned():
        for match in pattern.finditer(text):
            yield _secret_of(match, pattern)


def _is_document(content: bytes) -> bool:
    """Whether a text is JSON with members or items."""
    if content.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        orjson.loads(content)
    except orjson.JSONDecodeError:
        return False
    return True


def _find_followers(text: bytes, match: Any) -> Iterator[Span]:
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


def merge(spans: Iterable[Span]) -> list[Span]:
    """Return the spans in order, those that overlap as one, of the kind that begins first."""
    merged: list[Span] = []
    for start, end, kind in sorted(spans, key=lambda span: (span[0], -span[1])):
        if merged and start < merged[-1][1]:
            first, last, known = merged[-1]
            merged[-1] = first, max(last, end), known
        else:
            merged.append((start, end, kind))
    return merged


def quoted(text: str) -> bytes:
    """Return a text as a JSON string."""
    return orjson.dumps(text)


@lru_cache(maxsize=16)
def _compile_anchors(mode: RedactMode, secrets: tuple[str, ...], *, with_names: bool) -> Pattern:
    """Return one pattern for all that is worth a look in JSON text.

    It is one alternative of all rules, and no set: where a set runs out of memory it finds nothing.
    """
    patterns = [_literal_pattern(quoted(secret)[1:-1]) for secret in secrets]
    patterns += [_literal_pattern(_MARK), _HIDING]
    if not all(secret.isascii() for secret in secrets):
        patterns.append(_HIDING_ANY)
    if mode != "off":
        patterns += map(_anchor, RULES)
    if mode == "strict":
        patterns += (NESTED_ANCHOR, *(anchor.replace(r"\b", _EDGE) for anchor in ASSIGNED_ANCHORS))
        patterns += [ANCHOR] if with_names else []
    return Pattern("|".join(f"(?:{pattern})" for pattern in patterns))


@cache
def _compile_assigned() -> tuple[Pattern, ...]:
    return tuple(map(Pattern, ASSIGNED))


def _anchor(rule: Rule) -> str:
    """Return what finds in JSON text where a credential may be, also where the next one follows at once."""
    bare = _LAST_EDGE.sub("", rule.anchor or rule.pattern)
    return _BLANKS.sub(lambda _: _SPACE, bare.replace(r"\b", _EDGE))


@lru_cache(maxsize=8)
def _compile_secrets(secrets: tuple[str, ...]) -> Pattern | None:
    if not secrets:
        return None
    return Pattern("|".join(_literal_pattern(secret.encode()) for secret in secrets))


class _CompiledRule(NamedTuple):
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
