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
_FILE_MODE = b"100"  # and three digits: who may execute it


def peek_head(root: Path, full_name: str, branch: str) -> str | None:
    """Return the commit that a branch points to."""
    with suppress(OSError, ValueError):
        sha = (root / f"{full_name}.git" / "refs" / "heads" / branch).read_text("ascii").strip()
        if _SHA.fullmatch(sha):
            return sha
    return None


def peek_folder(root: Path, full_name: str, commit_sha: str, path: str) -> dict[str, str] | None:
    """Return the ids of the files in a folder of a commit, by name; nothing if there is no such folder."""
    with suppress(ValueError):
        return _find_files(root / f"{full_name}.git" / "objects", commit_sha, path)
    return None


def _find_files(objects: Path, commit_sha: str, path: str) -> dict[str, str] | None:
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
    files = ((entry, sha) for entry, sha in _entries(tree) if entry.startswith(_FILE_MODE))
    return {entry.partition(b" ")[2].decode(errors="replace"): sha for entry, sha in files}


def _entries(tree: bytes) -> Iterator[tuple[bytes, str]]:
    """Yield what is in a tree: mode and name as they stand there, and id. Raises ValueError if it is none."""
    if not tree.startswith(b"tree "):
        raise ValueError("it is no tree")
    place = tree.index(b"\0") + 1
    while place < len(tree):
        end = tree.index(b"\0", place)
        following = end + 21
        if following > len(tree):
            raise ValueError("it is cut off")
        yield tree[place:end], tree[end + 1 : following].hex()
        place = following


def _read(objects: Path, sha: str) -> bytes | None:
    with suppress(OSError, zlib.error):
        return zlib.decompress((objects / sha[:2] / sha[2:]).read_bytes())
    return None
