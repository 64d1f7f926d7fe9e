"""Takes credentials out of a checkpoint before its digest is made and before it reaches the disk.

One pass of RE2 over the text finds out whether there may be anything; as a rule there is
not, and that is all. Otherwise the strings of the text are looked at one by one, escapes undone. All other
bytes stay as they are. Beside a sealed state, what stays readable is searched in any case.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import orjson

from holdfast.format.checkpoint import Draft
from holdfast.format.redacted import MARK, REDACTED_MEMBER, Redacted, format_redacted, parse_redacted
from holdfast.jsontext.members import find_members
from holdfast.jsontext.strings import Cursor, Text, unescape, walk_strings
from holdfast.security.credential_shapes import RULES
from holdfast.security.sealing import PLAIN_MEMBERS, is_sealed
from holdfast.security.search import HELD, TELLING_NAME, RedactMode, Search, make_searches, merge, quoted

EARLIER = "earlier"
"""The kind of a place that had its mark already when it was handed in, and whose kind nobody knows."""

_MARK = MARK.encode()
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
        header = draft.header
        phase = rewriting.text(header.phase, "phase")
        workflow = header.workflow and rewriting.text(header.workflow, "workflow")
        texts = dict(rewriting.member(name, text) for name, text in given.items())
        if not (rewriting.places or listed):
            return draft
        places = tuple(rewriting.places)
        if places and REDACTED_MEMBER not in texts:
            texts[REDACTED_MEMBER] = format_redacted(places)
        changed = replace(header, phase=phase, workflow=workflow)
        return replace(draft, header=changed, texts=texts, redacted=places)

    def redact_text(self, text: str) -> str:
        """Return a text by itself without credentials; the very same one if there are none."""
        return _take_out(text, self._searches()[0])

    def redact_name(self, name: str) -> str:
        """Return what may be logged of a name that was not taken."""
        return _take_out(name, self._searches()[1])

    def check_name(self, field: str, name: object) -> None:
        """Raise InvalidCheckpoint if what is to be stored as it is, such as a name, holds a credential."""
        self._searches()[1].check_name(field, str(name))

    def _searches(self) -> tuple[Search, Search]:
        """Return what is looked for in what may be sealed, and in what stays readable."""
        return make_searches(self.mode, self.readable_mode or self.mode, tuple(self.secrets()))


def _take_out(text: str, search: Search) -> str:
    content = text.encode(errors="surrogatepass")
    spans = merge(search.find(content))
    for start, end, _ in reversed(spans):
        content = content[:start] + _MARK + content[end:]
    return content.decode(errors="surrogatepass") if spans else text


def _pop_listed(given: dict[str, Text]) -> tuple[Redacted, ...]:
    """Take out and return what a checkpoint lists as redacted; a sealed list stays where it is."""
    if REDACTED_MEMBER not in given or is_sealed(given[REDACTED_MEMBER]):
        return ()
    return parse_redacted(given.pop(REDACTED_MEMBER))


def _is_clean(draft: Draft, search: Search) -> bool:
    """Whether nothing in a checkpoint is worth a look, found out in one pass; of a large one nobody knows."""
    if draft.size_bytes > _MOST_AT_ONCE:
        return False
    header = draft.header
    pieces: list[Text] = [f"{header.run_id}\n{header.phase}\n{header.workflow or ''}\n".encode()]
    for name, text in draft.texts.items():
        pieces += (quoted(name), b":", text, b"\n")
    return not search.is_suspect(b"".join(pieces))


@dataclass
class _Rewriting:
    """One checkpoint on its way; `places` grow with all that is taken out, or was before.

    `kinds` are those of what was taken out before, by their places.
    """

    content: Search
    readable: Search
    kinds: dict[str, str]
    draft: Draft
    places: dict[Redacted, None] = field(default_factory=dict)
    _names: int = 1

    def text(self, text: str, name: str) -> str:
        """Return a text of the header without credentials."""
        if not self.readable.is_suspect(text.encode()):
            return text
        redacted: str = orjson.loads(self._rewrite(orjson.dumps(text), f"/{name}", self.readable))
        return redacted

    def member(self, name: str, text: Text) -> tuple[str, Text]:
        """Return a member of the checkpoint, by its name, without credentials in either of them."""
        if name in _ABOVE_ALL:
            return name, self._rewrite(text, f"/{name}", self.content)
        name, _ = self._named(name, b"0", self.readable)
        return self._named(name, text, self.readable if name in PLAIN_MEMBERS else self.content)

    def _named(self, name: str, text: Text, search: Search) -> tuple[str, Text]:
        given = b"{%b:%b}" % (quoted(name), bytes(text))
        whole = self._rewrite(given, "", search)
        if whole is given:
            return name, text
        ((new_name, start, end),) = find_members(bytes(whole), lambda _, __: True)
        return new_name, bytes(whole[start:end])

    def _rewrite(self, text: Text, root: str, search: Search) -> Text:
        """Return a JSON text without credentials; where there are none, the very same object."""
        if not search.is_suspect(text):
            return text
        telling = search.telling_names(text)
        # Where only names have made it suspect, no string need be searched by itself.
        is_by_content = search.is_suspect_in_itself(text)
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
            if not (is_below or (is_by_content and search.is_suspect_in_itself(text, first, cursor.end))):
                continue
            changed = self._literal(cursor, root, search, is_below=is_below)
            if changed is not None:
                pieces += (text[rest : cursor.start], changed)
                rest = cursor.end
        return b"".join((*pieces, text[rest:])) if rest else text

    def _literal(self, cursor: Cursor, root: str, search: Search, *, is_below: bool) -> bytes | None:
        """Return what is to stand in place of a string or number; None if it may stay."""
        raw = cursor.raw
        if is_below and raw not in (b'""', quoted(MARK)):
            self._note(root + cursor.pointer(), TELLING_NAME)
            return quoted(MARK)
        if not raw.startswith(b'"'):
            return None
        plain = unescape(raw)
        before = unescape(cursor.name).content + b'":"' if cursor.name else b""
        spans = merge(search.find(plain.content, before))
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
