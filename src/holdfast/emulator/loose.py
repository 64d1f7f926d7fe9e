"""Writing git's loose objects.

libgit2 compresses every object at zlib's default level and re-reads the tree of each new commit, which
costs milliseconds for a folder of thousands; plain loose files written here are read by git and libgit2
alike.
"""

import hashlib
import itertools
import os
import threading
import zlib
from pathlib import Path

# A tree is mostly digests, which do not compress: beyond this size it is stored as it is.
COMPRESSED_TREE_LIMIT_BYTES = 64 * 1024
# A file takes a whole block of the disk in any case.
STORED_LIMIT_BYTES = 4000


class LooseObjects:
    """The folder of loose objects of one repository; complete files appear at once or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._numbers = itertools.count()

    def write(self, kind: str, content: bytes) -> str:
        """Store an object and return its SHA; storing it again changes nothing."""
        store = b"%b %d\0" % (kind.encode(), len(content)) + content
        sha = hashlib.sha1(store, usedforsecurity=False).hexdigest()
        folder = f"{self._folder}/{sha[:2]}"
        path = f"{folder}/{sha[2:]}"
        # The os functions take half the time of pathlib's here, and this is the innermost loop.
        if os.path.exists(path):  # noqa: PTH110
            return sha
        self._place(folder, path, _pack(kind, store))
        return sha

    def _place(self, folder: str, path: str, packed: bytes) -> None:
        # git itself sweeps up files of this name that a killed process left behind.
        temporary = f"{folder}/tmp_obj_{os.getpid()}_{threading.get_ident()}_{next(self._numbers)}"  # noqa: S108
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            handle = os.open(temporary, flags, 0o444)
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103
            handle = os.open(temporary, flags, 0o444)
        try:
            with os.fdopen(handle, "wb", buffering=0) as file:
                _write_all(file.fileno(), packed)
            os.rename(temporary, path)  # noqa: PTH104
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


def _pack(kind: str, store: bytes) -> bytes:
    if len(store) <= STORED_LIMIT_BYTES:
        # A zlib stream of one stored block, without the cost of setting up a compressor.
        sizes = len(store).to_bytes(2, "little") + (0xFFFF - len(store)).to_bytes(2, "little")
        return b"\x78\x01\x01" + sizes + store + zlib.adler32(store).to_bytes(4, "big")
    is_large_tree = kind == "tree" and len(store) > COMPRESSED_TREE_LIMIT_BYTES
    return zlib.compress(store, 0 if is_large_tree else 1)


def _write_all(handle: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]
