"""A JSON value as a tree for people: cut where it is large, with a way to the whole of each part."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from holdfast.jsontext.encode import encode_exact
from holdfast.jsontext.parse import parse_exact

MOST_NODES = 1500
MOST_CHILDREN = 100
LONGEST_TEXT = 240
DEEPEST = 12
# What is opened without a click.
OPEN_DEPTH = 2
MOST_FOUND = 100


@dataclass(slots=True)
class Node:
    """One value with its name and place; it has a text, or members as far as they are shown."""

    name: str
    pointer: str
    kind: str
    text: str = ""
    is_cut: bool = False
    is_open: bool = False
    size: int = 0
    children: list["Node"] = field(default_factory=list)


def build_tree(value: Any, *, most_nodes: int = MOST_NODES) -> Node:
    """Return the tree of a parsed value; breadth first, so that nothing near the top is left out."""
    root, pending = _node("", "", value, 0), []
    pending.append((root, value, 0))
    made = 1
    while pending:
        node, current, depth = pending.pop(0)
        for name, member in _members(current):
            if made >= most_nodes or len(node.children) >= MOST_CHILDREN or depth >= DEEPEST:
                node.is_cut = True
                break
            child = _node(name, f"{node.pointer}/{_escape(name)}", member, depth + 1)
            node.children.append(child)
            made += 1
            if child.size:
                pending.append((child, member, depth + 1))
    return root


def find(value: Any, words: str) -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each name or scalar that has `words` in it, in any case."""
    wanted = words.casefold()
    pending: list[tuple[str, str, Any]] = [("", "", value)]
    found = 0
    while pending and found < MOST_FOUND:
        name, pointer, current = pending.pop()
        text = "" if isinstance(current, dict | list) else _text(current)
        if wanted in name.casefold() or (text and wanted in text.casefold()):
            found += 1
            yield pointer, _cut(text or _kind(current))
        members = [(each, f"{pointer}/{_escape(each)}", member) for each, member in _members(current)]
        pending += reversed(members)


def read_pointer(value: Any, pointer: str) -> Any:
    """Return what lies at a JSON Pointer. Raises LookupError."""
    if pointer and not pointer.startswith("/"):
        raise LookupError(pointer)
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and name.isascii() and name.isdigit():
            value = value[int(name)]
        elif isinstance(value, dict):
            value = value[name]
        else:
            raise LookupError(pointer)
    return value


def parse(text: bytes) -> Any:
    """Return the value of a JSON text with every number as it is written."""
    return parse_exact(text)


def write(value: Any) -> bytes:
    """Return a value as JSON text again."""
    return encode_exact(value)


def _node(name: str, pointer: str, value: Any, depth: int) -> Node:
    kind = _kind(value)
    if isinstance(value, dict | list):
        return Node(name, pointer, kind, size=len(value), is_open=depth < OPEN_DEPTH and len(value) <= 20)
    text = _text(value)
    return Node(name, pointer, kind, _cut(text), is_cut=len(text) > LONGEST_TEXT)


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from ((str(number), member) for number, member in enumerate(value))


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "list"
    if value is None:
        return "null"
    return "yes-no" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else encode_exact(value).decode()


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def _escape(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
