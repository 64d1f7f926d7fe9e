"""What goes into a progress: copies of the caller's values, and errors as text."""

from typing import Any

from holdfast.errors import InvalidCheckpoint
from holdfast.jsontext.encode import encode
from holdfast.jsontext.parse import parse_value

Document = dict[str, Any]

_MAX_ERROR_CHARACTERS = 4000


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


def format_error(error: BaseException) -> str:
    """Return the error as text that can be stored, whatever it says.

    >>> format_error(KeyError("lint")), format_error(ValueError())
    ("KeyError: 'lint'", 'ValueError')
    """
    name = type(error).__name__
    try:
        reason = str(error)
    except Exception:  # whatever an error's own text raises must not hide that it happened
        reason = ""
    text = f"{name}: {reason}" if reason else name
    return text[:_MAX_ERROR_CHARACTERS].encode(errors="backslashreplace").decode()


def add_error(errors: object, *, timestamp: str, place: str, error: str) -> list[Any]:
    """Return the errors of a run with one more."""
    return [*as_list(errors), {"timestamp": timestamp, "place": place, "error": error}]


def as_dict(value: object) -> dict[str, Any]:
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
