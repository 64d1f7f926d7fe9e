"""Values of a graph as JSON: what is JSON stays as it is, the rest goes through LangGraph's serializer."""

from base64 import b64decode, b64encode
from itertools import chain
from math import isfinite
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

MARK = "$langgraph"
"""The one member of an object that stands for a value that is not JSON: `[type, base64]`."""

_PLAIN = frozenset({str, int, bool, type(None), float, dict, list, tuple})
_MOST_DEPTH = 100
# A list that holds itself twice has twice as much in it with each level.
_MOST_VALUES = 2_000_000


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


def is_plain_json(value: Any) -> bool:
    """Whether JSON gives back the same value: no subclass, no object, no number that it would change.

    A tuple comes back as a list, as it does from LangGraph's serializer. All values of the same depth are
    looked at together: this is done with each save.

    >>> is_plain_json({"a": [1, 2.5, None]}), is_plain_json({1, 2}), is_plain_json({1: "a"})
    (True, False, False)
    """
    level: list[Any] = [value]
    visited = 0
    for _ in range(_MOST_DEPTH):
        kinds = set(map(type, level))
        if not kinds <= _PLAIN or not _are_leaves_plain(level, kinds):
            return False
        objects = [each for each in level if type(each) is dict] if dict in kinds else []
        if not _are_names_plain(list(chain.from_iterable(objects))):
            return False
        arrays = [each for each in level if type(each) is list or type(each) is tuple]
        visited += len(level)
        if visited + sum(map(len, objects)) + sum(map(len, arrays)) > _MOST_VALUES:
            return False
        level = [*chain.from_iterable(map(dict.values, objects)), *chain.from_iterable(arrays)]
        if not level:
            return True
    return False


def _are_leaves_plain(level: list[Any], kinds: set[type]) -> bool:
    if float in kinds and not all(isfinite(each) for each in level if type(each) is float):
        return False
    if int in kinds and not all(-(2**63) <= each < 2**63 for each in level if type(each) is int):
        return False
    return str not in kinds or _is_unicode("".join([each for each in level if type(each) is str]))


def _are_names_plain(names: list[Any]) -> bool:
    if not set(map(type, names)) <= {str}:
        return False
    joined = "".join(names)
    # Names with a dollar sign are Holdfast's: nobody shall take a value for what stands for one.
    return _is_unicode(joined) and not ("$" in joined and any(name.startswith("$") for name in names))


def _is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
