"""Git objects: reading them through libgit2, writing them, and changing trees."""

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import ObjectType

from holdfast.emulator.loose import LooseObjects
from holdfast.emulator.trees import TREE_MODE, TreeEntry, TreeListing

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
KINDS = {ObjectType.BLOB: "blob", ObjectType.TREE: "tree", ObjectType.COMMIT: "commit", ObjectType.TAG: "tag"}
SHA = re.compile(r"[0-9a-f]{4,40}")
TREES_KEPT = 512
SIZES_KEPT = 200_000


class MissingPath(Exception):
    """A change removes a path that is not there."""


class BlockedPath(Exception):
    """A change puts something below what is no folder, or a file where a folder is."""


@dataclass(frozen=True)
class Person:
    """Who made a commit, and when (epoch seconds)."""

    name: str
    email: str
    time: int
    offset_minutes: int = 0


@dataclass(frozen=True)
class CommitRecord:
    """One commit as git keeps it."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Person
    committer: Person
    message: str


class ObjectStore:
    """The objects of one repository; they never change, so that no lock is needed to write them."""

    def __init__(self, folder: Path, git: pygit2.Repository) -> None:
        self.folder = folder
        self._git = git
        self._loose = LooseObjects(folder / "objects")
        self._trees: OrderedDict[str, TreeListing] = OrderedDict()
        self._sizes: dict[str, tuple[str, int]] = {}
        self._cache_lock = threading.Lock()

    def lookup(self, sha: str) -> Any:
        """Return git's own object for a SHA, which may be abbreviated; None if there is none."""
        if not SHA.fullmatch(sha):
            return None
        try:
            return self._git.get(sha)
        except (KeyError, ValueError, pygit2.GitError):
            return None

    def describe(self, sha: str) -> tuple[str, int] | None:
        """Return kind and size of an object, or None if the repository has no such object."""
        known = self._sizes.get(sha)
        if known is not None:
            return known
        try:
            kind, size = self._git.odb.read_header(pygit2.Oid(hex=sha))
        except (KeyError, ValueError, pygit2.GitError):
            return None
        if len(self._sizes) >= SIZES_KEPT:
            self._sizes.clear()
        self._sizes[sha] = (KINDS[ObjectType(kind)], size)
        return self._sizes[sha]

    def read_blob(self, sha: str) -> bytes:
        """Return a blob's bytes; KeyError if there is no such blob."""
        found = self.describe(sha)
        if found is None or found[0] != "blob":
            raise KeyError(sha)
        return self._git.odb.read(pygit2.Oid(hex=sha))[1]

    def write_blob(self, content: bytes) -> str:
        """Store bytes as a blob and return its SHA."""
        return self._loose.write("blob", content)

    def read_commit(self, sha: str) -> CommitRecord:
        """Return a commit; KeyError if there is no such commit."""
        found = self.lookup(sha)
        if not isinstance(found, pygit2.Commit):
            raise KeyError(sha)
        return record_of(found)

    def write_commit(
        self, *, tree: str, parents: Sequence[str], author: Person, committer: Person, message: str
    ) -> str:
        """Store a commit and return its SHA; no ref moves."""
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        lines += [f"author {_format_person(author)}", f"committer {_format_person(committer)}", "", message]
        return self._loose.write("commit", "\n".join(lines).encode("utf-8", "surrogateescape"))

    def read_tree(self, sha: str) -> TreeListing:
        """Return a tree; KeyError if there is no such tree."""
        with self._cache_lock:
            known = self._trees.get(sha)
            if known is not None:
                self._trees.move_to_end(sha)
                return known
        found = self.describe(sha)
        if sha == EMPTY_TREE:
            return TreeListing.empty()
        if found is None or found[0] != "tree":
            raise KeyError(sha)
        listing = TreeListing.parse(self._git.odb.read(pygit2.Oid(hex=sha))[1])
        self._keep_tree(sha, listing)
        return listing

    def write_tree(self, listing: TreeListing) -> str:
        """Store a tree and return its SHA."""
        sha = self._loose.write("tree", listing.encode())
        self._keep_tree(sha, listing)
        return sha

    def _keep_tree(self, sha: str, listing: TreeListing) -> None:
        with self._cache_lock:
            self._trees[sha] = listing
            while len(self._trees) > TREES_KEPT:
                self._trees.popitem(last=False)

    def find_entry(self, tree: str, path: str) -> TreeEntry | None:
        """Return what is at `path` in a tree; the tree itself for the empty path."""
        entry = TreeEntry("", TREE_MODE, tree)
        for name in path.split("/") if path else ():
            found = self.read_tree(entry.sha).get(name) if entry.kind == "tree" else None
            if found is None:
                return None
            entry = found
        return entry

    def walk_tree(self, tree: str, prefix: str = "") -> Iterator[tuple[str, TreeEntry]]:
        """Yield every entry below a tree with its path, folders before what they hold."""
        for entry in self.read_tree(tree):
            yield prefix + entry.name, entry
            if entry.kind == "tree":
                yield from self.walk_tree(entry.sha, f"{prefix}{entry.name}/")

    def edit_tree(self, tree: str | None, changes: Mapping[str, TreeEntry | None]) -> str:
        """Return a tree in which each path holds the given entry (its name is ignored), or nothing for None.

        Folders appear and disappear with what they hold. Raises MissingPath or BlockedPath.
        """
        listing = self._edit(self.read_tree(tree or EMPTY_TREE), "", changes)
        return self.write_tree(listing)

    def _edit(
        self, listing: TreeListing, prefix: str, changes: Mapping[str, TreeEntry | None]
    ) -> TreeListing:
        below: dict[str, dict[str, TreeEntry | None]] = {}
        for path, entry in changes.items():
            name, _, rest = path.partition("/")
            if rest:
                below.setdefault(name, {})[rest] = entry
            elif entry is not None:
                listing = listing.with_entry(TreeEntry(name, entry.mode, entry.sha))
            elif listing.get(name) is None:
                raise MissingPath(prefix + name)
            else:
                listing = listing.without(name)
        for name, inner in below.items():
            listing = self._edit_folder(listing, prefix, name, inner)
        return listing

    def _edit_folder(
        self, listing: TreeListing, prefix: str, name: str, changes: Mapping[str, TreeEntry | None]
    ) -> TreeListing:
        found = listing.get(name)
        if found is not None and found.kind != "tree":
            raise BlockedPath(prefix + name)
        folder = TreeListing.empty() if found is None else self.read_tree(found.sha)
        edited = self._edit(folder, f"{prefix}{name}/", changes)
        if len(edited) == 0:
            return listing.without(name)
        return listing.with_entry(TreeEntry(name, TREE_MODE, self.write_tree(edited)))

    def changed_files(
        self, old: str, new: str, prefix: str = ""
    ) -> Iterator[tuple[str, TreeEntry | None, TreeEntry | None]]:
        """Yield each file that differs between two trees, with what it was and what it is."""
        before = {entry.name: entry for entry in self.read_tree(old)}
        after = {entry.name: entry for entry in self.read_tree(new)}
        for name in sorted(before.keys() | after.keys()):
            was, now = before.get(name), after.get(name)
            if was == now:
                continue
            old_folder, new_folder = (e.sha if e and e.kind == "tree" else EMPTY_TREE for e in (was, now))
            if old_folder != new_folder:
                yield from self.changed_files(old_folder, new_folder, f"{prefix}{name}/")
            old_file, new_file = (e if e and e.kind != "tree" else None for e in (was, now))
            if old_file != new_file:
                yield prefix + name, old_file, new_file


def record_of(commit: pygit2.Commit) -> CommitRecord:
    """Return a commit as plain values."""
    return CommitRecord(
        sha=str(commit.id),
        tree=str(commit.tree_id),
        parents=tuple(str(parent) for parent in commit.parent_ids),
        author=_person_of(commit.author),
        committer=_person_of(commit.committer),
        message=commit.message,
    )


def _person_of(signature: pygit2.Signature) -> Person:
    return Person(signature.name, signature.email, signature.time, signature.offset)


def _format_person(person: Person) -> str:
    name, email = (_clean(text) for text in (person.name, person.email))
    sign = "-" if person.offset_minutes < 0 else "+"
    hours, minutes = divmod(abs(person.offset_minutes), 60)
    return f"{name} <{email}> {person.time} {sign}{hours:02d}{minutes:02d}"


def _clean(text: str) -> str:
    # git forbids these in names; GitHub drops them too.
    return "".join(character for character in text if character not in "<>\n\0").strip() or "unknown"
