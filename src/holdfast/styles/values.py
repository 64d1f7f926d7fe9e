"""JSON values in a state: read as far as they make sense, or refused, and copied before they are kept."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.errors import InvalidCheckpoint
from holdfast.jsontext.encode import encode
from holdfast.jsontext.parse import Number, parse_value

Document = dict[str, Any]
Place = str | int

_SHOWN = 20
_LINE_BREAKERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def as_index(value: object) -> int | None:
    """Return `value` if it counts something from 0 on; also one that is kept as it is written."""
    if isinstance(value, Number) and value.text.isdecimal():
        return int(value.text)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def number_of(place: str, prefix: str) -> int | None:
    """Return the number in the name of a place; None if it is called otherwise.

    >>> number_of("layer_2", "layer_"), number_of("build", "layer_")
    (2, None)
    """
    digits = place.removeprefix(prefix)
    is_number = place.startswith(prefix) and digits.isascii() and digits.isdigit()
    return int(digits) if is_number else None


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return `value` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_sequence(value: object) -> Sequence[Any]:
    """Return `value` if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def as_dict(value: object) -> Document:
    """Return a member that should be an object, or an empty one where there is none.

    >>> as_dict(None), as_dict({"a": 1})
    ({}, {'a': 1})

    Raises InvalidCheckpoint if it is something else: then it is not ours to change.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidCheckpoint("state", f"an object is expected where there is {type(value).__name__}")
    return value


def as_list(value: object) -> list[Any]:
    """Return a member that should be an array, or an empty one where there is none.

    Raises InvalidCheckpoint if it is something else: then it is not ours to change.
    """
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidCheckpoint("state", f"an array is expected where there is {type(value).__name__}")
    return value


def freeze(value: object) -> Any:
    """Return a copy of `value` that later changes of it do not reach.

    >>> names = ["a"]
    >>> kept = freeze(names)
    >>> names.append("b")
    >>> kept
    ['a']

    What is not JSON is returned as it is, so that saving it says where it is and what to store instead.
    """
    try:
        return parse_value(encode(value))
    except (InvalidCheckpoint, RuntimeError):  # the latter when another thread alters it meanwhile
        return value


def name_all(names: Iterable[Place]) -> str:
    """Return names for a sentence, the first twenty of many.

    >>> name_all(["lint", "test"])
    'lint, test'
    """
    every = [str(name) for name in names]
    more = len(every) - _SHOWN
    return ", ".join(every[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def one_line(text: str) -> str:
    """Return `text` with every control character and separator of lines spelled out.

    >>> print(one_line("phase_1\\n::error::"))
    phase_1\\n::error::
    """
    return _LINE_BREAKERS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
