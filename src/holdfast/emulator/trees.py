"""Git tree objects as sorted lists, cheap to change even with thousands of entries."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

TREE_MODE = 0o040000
SUBMODULE_MODE = 0o160000
SYMLINK_MODE = 0o120000
FILE_MODE = 0o100644


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One named member of a tree."""

    name: str
    mode: int
    sha: str

    @property
    def kind(self) -> str:
        """The type of object that the entry points at: tree, commit or blob."""
        if self.mode == TREE_MODE:
            return "tree"
        return "commit" if self.mode == SUBMODULE_MODE else "blob"


class TreeListing:
    """The entries of one tree in git's order; never changed once made.

    Changing a copy shares the bytes of every other entry, so that a file added to a folder of
    thousands costs two list copies and one join.
    """

    __slots__ = ("_keys", "_raws")

    def __init__(self, keys: list[bytes], raws: list[bytes]) -> None:
        self._keys = keys
        self._raws = raws

    @classmethod
    def empty(cls) -> "TreeListing":
        """Return a tree without entries."""
        return cls([], [])

    @classmethod
    def parse(cls, content: bytes) -> "TreeListing":
        """Read a tree object's content."""
        keys: list[bytes] = []
        raws: list[bytes] = []
        start, size = 0, len(content)
        while start < size:
            zero = content.index(b"\0", start)
            raw = content[start : zero + 21]
            mode, _, name = content[start:zero].partition(b" ")
            keys.append(name + b"/" if mode == b"40000" else name)
            raws.append(raw)
            start = zero + 21
        return cls(keys, raws)

    def __len__(self) -> int:
        return len(self._raws)

    def __iter__(self) -> Iterator[TreeEntry]:
        return map(_decode_entry, self._raws)

    def get(self, name: str) -> TreeEntry | None:
        """Return the entry called `name`, whatever it is."""
        position = self._position(_encode_name(name))
        return None if position is None else _decode_entry(self._raws[position])

    def with_entry(self, entry: TreeEntry) -> "TreeListing":
        """Return a copy that has `entry`, in place of any of the same name."""
        name = _encode_name(entry.name)
        key = name + b"/" if entry.mode == TREE_MODE else name
        keys, raws = self._keys.copy(), self._raws.copy()
        replaced = self._position(name)
        if replaced is not None:
            del keys[replaced], raws[replaced]
        position = bisect_left(keys, key)
        keys.insert(position, key)
        raws.insert(position, b"%o %b\0%b" % (entry.mode, name, bytes.fromhex(entry.sha)))
        return TreeListing(keys, raws)

    def without(self, name: str) -> "TreeListing":
        """Return a copy that has nothing called `name`."""
        position = self._position(_encode_name(name))
        if position is None:
            return self
        keys, raws = self._keys.copy(), self._raws.copy()
        del keys[position], raws[position]
        return TreeListing(keys, raws)

    def encode(self) -> bytes:
        """Return the tree object's content."""
        return b"".join(self._raws)

    def _position(self, name: bytes) -> int | None:
        for key in (name, name + b"/"):
            position = bisect_left(self._keys, key)
            if position < len(self._keys) and self._keys[position] == key:
                return position
        return None


def _encode_name(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _decode_entry(raw: bytes) -> TreeEntry:
    head, sha = raw[:-21], raw[-20:]
    mode, _, name = head.partition(b" ")
    return TreeEntry(name.decode("utf-8", "surrogateescape"), int(mode, 8), sha.hex())
