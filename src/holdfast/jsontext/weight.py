"""How much memory a JSON text takes once it is parsed: up to twenty-four times its size.

A file that is small enough to be read can still be made to use up all memory, with millions of empty lists.
"""

import re

MOST_BYTES = 180 * 1024**2
"""What the values of one stored file may take. A writer makes no heavier one, so a reader takes none."""

_MOST_FOR_A_BYTE = 200
_LIST_BYTES = 72
_OBJECT_BYTES = 200
_TEXT_BYTES = 56
_OTHER_BYTES = 24
_SHORT = 16

_TEXTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def is_heavier(text: bytes, limit_bytes: int = MOST_BYTES) -> bool:
    """Whether the values of a JSON text take more memory than `limit_bytes`, about.

    >>> is_heavier(b"[[],[],[]]", 400), is_heavier(b'["[],[],[],[],[],[]"]', 400)
    (False, False)
    >>> is_heavier(b"[[],[],[],[],[]]", 400)
    True
    """
    if len(text) * _MOST_FOR_A_BYTE <= limit_bytes or (weight := _weigh(text)) <= limit_bytes:
        return False
    # What stands inside of a text is part of the text; to leave it out is slower, and seldom needed.
    texts = (match.group() for match in _TEXTS.finditer(text))
    return weight - sum(_weigh(each[1:-1]) for each in texts if len(each) > _SHORT) > limit_bytes


def _weigh(text: bytes) -> int:
    """Return what the values take. The names of members are kept once, so they count for nothing."""
    return (
        _LIST_BYTES * text.count(b"[")
        + _OBJECT_BYTES * text.count(b"{")
        + _TEXT_BYTES * max(0, text.count(b'"') // 2 - text.count(b":"))
        + _OTHER_BYTES * text.count(b",")
    )
