"""JSON values whose numbers are the text that was written, so that they can be moved, compared and written
again without a digit being changed.
"""

from typing import Any

import orjson

from holdfast.jsontext.scan import scan_value


class Number:
    """A number as it is written. Two spellings of one amount are two numbers.

    >>> Number("1.10") == Number("1.1"), Number("7") == Number("7")
    (False, True)
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text


def parse_exact(text: bytes, place: str = "") -> Any:
    """Return the value that `text` holds. Raises InvalidCheckpoint with the place and the byte."""
    return scan_value(text, place, integer=Number, real=Number)


def encode_exact(value: object, *, is_indented: bool = False) -> bytes:
    """Return a value, which may be made of exact numbers, as JSON.

    >>> encode_exact({"b": Number("1.10"), "a": [True, 2]})
    b'{"b":1.10,"a":[true,2]}'
    """
    return orjson.dumps(value, default=_as_written, option=orjson.OPT_INDENT_2 if is_indented else None)


def _as_written(value: object) -> object:
    if isinstance(value, Number):
        return orjson.Fragment(value.text)
    raise TypeError(type(value).__name__)
