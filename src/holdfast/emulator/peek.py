"""A look at a repository as it lies on the disk, without a server: for who has no time to start one.

Only what is there as a plain file is seen. None says that it is not, and that somebody else must be asked.
"""

import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_SHA = re.compile(r"[0-9a-f]{40}")
_TREE_OF_COMMIT = re.compile(rb"commit \d+\0tree ([0-9a-f]{40})\n")
_FOLDER_MODE = b"40000 "


def peek_head(root: Path, full_name: str, branch: str) -> str | None:
    """Return the commit that a branch points to."""
    with suppress(OSError, ValueError):
        sha = (root / f"{full_name}.git" / "refs" / "heads" / branch).read_text("ascii").strip()
        if _SHA.fullmatch(sha):
            return sha
    return None


def peek_folder(root: Path, full_name: str, commit_sha: str, path: str) -> dict[str, str] | None:
    """Return the ids of what is in a folder of a commit, by name; nothing if there is no such folder."""
    objects = root / f"{full_name}.git" / "objects"
    found = _TREE_OF_COMMIT.match(_read(objects, commit_sha) or b"")
    tree = _read(objects, found[1].decode()) if found else None
    for name in path.split("/"):
        if tree is None:
            return None
        sha = next((sha for entry, sha in _entries(tree) if entry == _FOLDER_MODE + name.encode()), None)
        if sha is None:
            return {}
        tree = _read(objects, sha)
    if tree is None:
        return None
    return {entry.partition(b" ")[2].decode(errors="replace"): sha for entry, sha in _entries(tree)}


def _entries(tree: bytes) -> Iterator[tuple[bytes, str]]:
    """Yield what a tree has: mode and name as they stand there, and the id."""
    place = tree.index(b"\0") + 1
    while place < len(tree):
        end = tree.index(b"\0", place)
        yield tree[place:end], tree[end + 1 : end + 21].hex()
        place = end + 21


def _read(objects: Path, sha: str) -> bytes | None:
    with suppress(OSError, zlib.error):
        return zlib.decompress((objects / sha[:2] / sha[2:]).read_bytes())
    return None
