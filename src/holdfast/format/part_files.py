"""The files that hold what a checkpoint refers to: made of a member's text, and opened again.

A part is named by the digest of its bytes, so that the same text is stored once. A text that is too large for
one file lies in several, one after the other.
"""

import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from holdfast.errors import IntegrityFailure
from holdfast.format.paths import PARTS
from holdfast.jsontext.members import sha256_hex

MAX_FILE_BYTES = 10 * 1024 * 1024
"""No part is larger."""

MAX_PARTS_BYTES = 100 * 1024 * 1024
"""What the parts of one checkpoint may have together, unpacked: no checkpoint has so much."""

_GZIP = "gzip"
# What is hardly smaller is not worth the time to unpack it.
_WORTH_SHARE = 0.9
_LEVEL = 6

Reference = Mapping[str, Any]


class PartStyle(NamedTuple):
    """Where parts lie, and from which size on they are compressed; None: never."""

    run_folder: str
    compress_from_bytes: int | None = None


class PartFiles(NamedTuple):
    """The files that a text becomes, by name within the run, and what refers to them in its place."""

    files: Mapping[str, bytes]
    reference: Reference


def part_name(digest: str) -> str:
    """Return the name of a part within its run, by the digest of its bytes.

    >>> part_name("0a")
    'parts/0a.json'
    """
    return f"{PARTS}/{digest}.json"


def make_parts(text: bytes | memoryview, style: PartStyle) -> PartFiles:
    """Return the files of a member's text. The same text always gives the same.

    A large text is given as a view of what it is a part of, so that it is not in memory a third time.
    """
    files: dict[str, bytes] = {}
    references = [_make_part(piece, style, files) for piece in _cut(memoryview(text))]
    return PartFiles(files, references[0] if len(references) == 1 else {"$parts": references})


def _make_part(piece: memoryview, style: PartStyle, files: dict[str, bytes]) -> Reference:
    limit = style.compress_from_bytes
    is_large = limit is not None and len(piece) >= limit
    packed = gzip.compress(piece, _LEVEL, mtime=0) if is_large else None
    is_packed = packed is not None and len(packed) < _WORTH_SHARE * len(piece)
    content = packed if packed is not None and is_packed else bytes(piece)
    digest = sha256_hex(content)
    name = part_name(digest) + (".gz" if is_packed else "")
    files[name] = content
    reference = {"$part": f"{style.run_folder}/{name}", "sha256": digest, "bytes": len(piece)}
    return {**reference, "encoding": _GZIP} if is_packed else reference


def _cut(text: memoryview) -> Iterator[memoryview]:
    """Yield the text in pieces of at most MAX_FILE_BYTES, none of which ends within a character."""
    start = 0
    while len(text) - start > MAX_FILE_BYTES:
        end = start + MAX_FILE_BYTES
        while text[end] & 0xC0 == 0x80:
            end -= 1
        yield text[start:end]
        start = end
    yield text[start:]


def list_files(reference: Any) -> list[Reference]:
    """Return the references to single files that a reference is made of.

    Raises LookupError, TypeError, AttributeError for what is no reference.
    """
    pieces = reference.get("$parts", [reference])
    if not pieces:
        raise LookupError("it refers to nothing")
    return [{**piece, "$part": str(piece["$part"]), "bytes": int(piece["bytes"])} for piece in pieces]


def read_text(reference: Any, read: Callable[[str], bytes], path: str) -> list[bytes]:
    """Return the text that a reference stands for, in pieces.

    Nothing is unpacked that the reference does not announce. Raises IntegrityFailure, LookupError, TypeError.
    """
    return [_open(piece, read(piece["$part"]), path) for piece in list_files(reference)]


def _open(reference: Reference, content: bytes, path: str) -> bytes:
    part_path, size_bytes = reference["$part"], reference["bytes"]
    if sha256_hex(content) != reference["sha256"]:
        raise IntegrityFailure(part_path, f"it is not the part that {path} refers to")
    encoding = reference.get("encoding")
    if encoding == _GZIP:
        content = _unpack(content, size_bytes, part_path)
    elif encoding is not None:
        raise IntegrityFailure(part_path, f"it is encoded as {encoding!r}, which this Holdfast does not know")
    if len(content) != size_bytes:
        raise IntegrityFailure(part_path, f"it is not the part that {path} refers to")
    return content


def _unpack(content: bytes, size_bytes: int, part_path: str) -> bytes:
    """Return what was compressed, and never more than was announced."""
    unpacking = zlib.decompressobj(wbits=31)
    try:
        text = unpacking.decompress(content, size_bytes + 1)
    except zlib.error as error:
        raise IntegrityFailure(part_path, f"it cannot be unpacked: {error}") from error
    if len(text) > size_bytes or not unpacking.eof:
        raise IntegrityFailure(
            part_path, f"unpacked, it is not of the {size_bytes:,} bytes that were announced"
        )
    return text
