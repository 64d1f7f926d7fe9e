"""Short answers: what is large is cut, and says how to ask for the rest."""

from typing import Any

from holdfast.jsontext.encode import encode_exact
from holdfast.jsontext.parse import parse_exact

MOST_CHARACTERS = 6_000
"""About how long an answer becomes at most."""

_LEAST_CHARACTERS = 120
_MOST_ITEMS = 40


def answer(value: Any, *, path: str = "") -> str:
    """Return a value as JSON text, cut where it is large; `path` is where in its document it lies."""
    return encode_exact(cut(value, path)).decode()


def cut(value: Any, path: str = "", most: int = MOST_CHARACTERS) -> Any:
    """Return a value of about `most` characters at most; what is cut out is told, with its path.

    >>> cut({"a": "x" * 500}, most=200)
    {'a': {'$cut': '500 characters', 'path': '/a', 'begins': 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'}}
    """
    if len(encode_exact(value)) <= most:
        return value
    if isinstance(value, dict) and most > _LEAST_CHARACTERS:
        shown = list(value.items())[: _room(most)]
        share = max(_LEAST_CHARACTERS, most // len(shown))
        whole = {name: cut(each, f"{path}/{_escape(name)}", share) for name, each in shown}
        rest = len(value) - len(shown)
        return {**whole, "$cut": f"{rest} more members", "path": path} if rest else whole
    if isinstance(value, list) and most > _LEAST_CHARACTERS:
        items = value[: _room(most)]
        share = max(_LEAST_CHARACTERS, most // len(items))
        every = [cut(each, f"{path}/{number}", share) for number, each in enumerate(items)]
        rest = len(value) - len(items)
        return [*every, {"$cut": f"{rest} more items", "path": f"{path}/{len(items)}"}] if rest else every
    return _tell_cut(value, path)


def follow(document: Any, path: str) -> Any:
    """Return what lies at a JSON Pointer. Raises ValueError with what is there instead.

    >>> follow({"a": [{"b": 1}]}, "/a/0/b")
    1
    """
    value = document
    for step in path.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            there = ", ".join(list(value)[:_MOST_ITEMS]) if isinstance(value, dict) else type(value).__name__
            raise ValueError(f"there is nothing at {path!r}: {name!r} is not in: {there}")
    return value


def read_document(text: bytes, path: str | None) -> tuple[Any, str]:
    """Return what lies at `path` of a JSON text, all of it without one, and that path."""
    place = f"/{(path or '').strip('/')}".rstrip("/")
    return follow(parse_exact(text), place), place


def _room(most: int) -> int:
    """Return for how many members or items there is room in so many characters."""
    return min(_MOST_ITEMS, max(1, most // _LEAST_CHARACTERS))


def _tell_cut(value: Any, path: str) -> dict[str, Any]:
    if isinstance(value, str):
        return {"$cut": f"{len(value):,} characters", "path": path, "begins": value[:40]}
    size = f"{len(encode_exact(value)):,} characters of JSON"
    return {"$cut": size, "path": path}


def _escape(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")
