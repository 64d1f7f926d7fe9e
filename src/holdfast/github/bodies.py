"""Request bodies: JSON with whole files in it, in base64, which is made only while it is sent."""

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import orjson

# As bytes a small body is quicker to send; a large one would be in memory several times.
_LARGE_BYTES = 1024**2
# A multiple of three, so that the pieces can be encoded one by one.
_PIECE_BYTES = 3 * 64 * 1024
# Where a file is to stand: in JSON that orjson has written, this byte never stands as it is.
_MARK = b"\0"


class Base64:
    """The content of a file, in a place of a body where it is to stand in base64."""

    __slots__ = ("content",)

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __iter__(self) -> Iterator[bytes]:
        yield b'"'
        view = memoryview(self.content)
        for start in range(0, len(view), _PIECE_BYTES):
            yield b64encode(view[start : start + _PIECE_BYTES])
        yield b'"'

    def __len__(self) -> int:
        return 2 + -(-len(self.content) // 3) * 4


class LargeBody:
    """A body that is made anew, piece by piece, each time it is sent. Its length is known before."""

    def __init__(self, pieces: list[bytes | Base64]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, Base64):
                yield from piece
            else:
                yield piece

    def __len__(self) -> int:
        return sum(map(len, self._pieces))


def encode_body(body: dict[str, Any]) -> bytes | LargeBody:
    """Return a body as JSON. Raises TypeError for what cannot be written as such.

    >>> encode_body({"content": Base64(b"abcd")})
    b'{"content":"YWJjZA=="}'
    """
    files: list[Base64] = []

    def leave_out(value: object) -> orjson.Fragment:
        if not isinstance(value, Base64):
            raise TypeError(f"{type(value).__name__} is not JSON")
        files.append(value)
        return orjson.Fragment(_MARK)

    first, *others = orjson.dumps(body, default=leave_out).split(_MARK)
    pieces: list[bytes | Base64] = [first]
    for file, text in zip(files, others, strict=True):
        pieces += (file, text)
    large = LargeBody(pieces)
    return large if len(large) > _LARGE_BYTES else b"".join(large)
