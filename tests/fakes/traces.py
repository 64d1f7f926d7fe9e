"""Every byte that a data folder holds, unpacked, to look for what must not be there."""

import zlib
from collections.abc import Iterator
from pathlib import Path


def bytes_below(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield each file below a folder; git's objects as they are, and unpacked."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        content = path.read_bytes()
        yield path, content
        if "objects" in path.parts:
            yield path, _inflate(content)


def find_traces(folder: Path, *secrets: str) -> list[tuple[str, str]]:
    """Return which of the secrets are in which file, whole or without its ends, also as git packs them."""
    return [
        (secret, str(path.relative_to(folder)))
        for path, content in bytes_below(folder)
        for secret in secrets
        if secret[4:-4].encode() in content
    ]


def _inflate(content: bytes) -> bytes:
    """Return what every deflated stretch of a pack or a loose object says."""
    if content[:1] == b"\x78":
        return zlib.decompress(content)
    found, at = [], content.find(b"\x78")
    while at >= 0:
        unpacking = zlib.decompressobj()
        try:
            found.append(unpacking.decompress(content[at:]))
            at = len(content) - len(unpacking.unused_data) if unpacking.eof else at + 1
        except zlib.error:
            at += 1
        at = content.find(b"\x78", at)
    return b"\n".join(found)
