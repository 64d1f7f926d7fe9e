"""Values of a graph as JSON: what is JSON stays as it is, the rest goes through LangGraph's serializer."""

from base64 import b64decode, b64encode
from math import isfinite
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

MARK = "$langgraph"
"""The one member of an object that stands for a value that is not JSON: `[type, base64]`."""

_MOST_DEPTH = 100


def encode_value(value: Any, serde: SerializerProtocol) -> Any:
    """Return a value that is JSON, from which `decode_value` makes what LangGraph's own savers return."""
    if is_plain_json(value):
        return value
    kind, content = serde.dumps_typed(value)
    return {MARK: [kind, b64encode(content).decode()]}


def decode_value(stored: Any, serde: SerializerProtocol) -> Any:
    """Return what `encode_value` was given. What the serializer does not know is refused by it."""
    if isinstance(stored, dict) and stored.keys() == {MARK}:
        kind, content = stored[MARK]
        return serde.loads_typed((kind, b64decode(content)))
    return stored


def encode_members(values: dict[str, Any], serde: SerializerProtocol) -> dict[str, Any]:
    """Return each member, encoded."""
    return {name: encode_value(value, serde) for name, value in values.items()}


def decode_members(stored: dict[str, Any], serde: SerializerProtocol) -> dict[str, Any]:
    """Return each member, decoded."""
    return {name: decode_value(value, serde) for name, value in stored.items()}


def is_plain_json(value: Any, depth: int = _MOST_DEPTH) -> bool:
    """Whether JSON gives back the same value: no subclass, no object, no number that it would change.

    A tuple comes back as a list, as it does from LangGraph's serializer.

    >>> is_plain_json({"a": [1, 2.5, None]}), is_plain_json({1, 2}), is_plain_json({1: "a"})
    (True, False, False)
    """
    kind = type(value)
    if kind is str:
        return value.isascii() or _is_unicode(value)
    if value is None or kind is bool:
        return True
    if kind is int:
        return bool(-(2**63) <= value < 2**63)
    if kind is float:
        return isfinite(value)
    if kind is list or kind is tuple:
        return depth > 0 and all(is_plain_json(each, depth - 1) for each in value)
    if kind is dict:
        return depth > 0 and all(
            _is_plain_name(name) and is_plain_json(each, depth - 1) for name, each in value.items()
        )
    return False


def _is_plain_name(name: Any) -> bool:
    # Names with a dollar sign are Holdfast's: nobody shall take a value for what stands for one.
    return type(name) is str and not name.startswith("$") and (name.isascii() or _is_unicode(name))


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
