"""Values of a graph as JSON: what is JSON stays as it is, the rest goes through LangGraph's serializer."""

import re
from base64 import b64decode, b64encode
from typing import Any

import orjson
from langgraph.checkpoint.serde.base import SerializerProtocol

from holdfast.jsontext.encode import dump_plain

MARK = "$langgraph"
"""The one member of an object that stands for a value that is not JSON: `[type, base64]`."""

# Such names are Holdfast's: nobody shall take a value for what stands for one.
_NAME_WITH_DOLLAR = re.compile(rb'"\$(?:[^"\\]|\\.)*":')


# Of these alone JSON is made, and of what they hold if that is one of these, too.
_PLAIN = {dict, list, tuple, str, int, float, bool, type(None)}


def encode_value(value: Any, serde: SerializerProtocol) -> Any:
    """Return what is to be stored, from which `decode_value` makes what LangGraph's own savers return.

    JSON is encoded here, once. A tuple comes back as a list, as it does from LangGraph's serializer.
    """
    plain = _encode_plain(value)
    if plain is not None:
        return plain
    kind, content = serde.dumps_typed(value)
    return {MARK: [kind, b64encode(content).decode()]}


def _encode_plain(value: Any) -> orjson.Fragment | None:
    """Return a value as JSON; None if it is none, or might be taken for what stands for one."""
    if not _may_be_plain(value):
        return None
    text = dump_plain(value)
    # One byte is looked for in no time, two take half as long as encoding.
    if text is None or (b"$" in text and _NAME_WITH_DOLLAR.search(text)):
        return None
    return orjson.Fragment(text)


def _may_be_plain(value: Any) -> bool:
    """Whether a value is JSON as far as a glance tells: most that are none hold objects, such as messages."""
    kind = type(value)
    if kind is list or kind is tuple:
        return _PLAIN.issuperset(map(type, value))
    return kind in _PLAIN


def decode_value(stored: Any, serde: SerializerProtocol) -> Any:
    """Return what `encode_value` was given. What the serializer does not know is refused by it."""
    if isinstance(stored, dict) and stored.keys() == {MARK}:
        kind, content = stored[MARK]
        return serde.loads_typed((kind, b64decode(content)))
    return stored


def encode_members(values: dict[str, Any], serde: SerializerProtocol) -> Any:
    """Return each member, encoded; where all are JSON, all of them together, which is quicker."""
    together = _encode_plain(values) if all(map(_may_be_plain, values.values())) else None
    return together or {name: encode_value(value, serde) for name, value in values.items()}


def decode_members(stored: dict[str, Any], serde: SerializerProtocol) -> dict[str, Any]:
    """Return each member, decoded."""
    return {name: decode_value(value, serde) for name, value in stored.items()}
