"""Git plumbing: the only module that knows how a repository is kept on disk.

Several processes may serve one repository. Objects are written first and shared freely; a ref moves last,
by compare-and-swap under a file lock that the operating system releases when its holder dies.
"""

import fcntl
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import ObjectType, SortMode

from holdfast.emulator.objects import LooseObjects
from holdfast.emulator.trees import TREE_MODE, TreeEntry, TreeListing

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
LOCK_NAME = "holdfast-emulator.lock"
KINDS = {ObjectType.BLOB: "blob", ObjectType.TREE: "tree", ObjectType.COMMIT: "commit", ObjectType.TAG: "tag"}
TREES_KEPT = 512
SIZES_KEPT = 200_000


class RepositoryUnusable(Exception):
    """The folder cannot be opened as a git repository, or made into one."""


class MissingPath(Exception):
    """A change removes a path that is not there."""


class BlockedPath(Exception):
    """A change puts a file below something that is a file itself."""


class RefMoved(Exception):
    """A ref is not where its mover expected it: `found` is where it is, None if there is no such ref."""

    def __init__(self, name: str, expected: str | None, found: str | None) -> None:
        super().__init__(f"{name} is at {found} but expected {expected}")
        self.name = name
        self.expected = expected
        self.found = found


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


class GitRepository:
    """One bare repository on disk, safe for many threads and processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self._git = pygit2.Repository(str(folder))
        except (pygit2.GitError, OSError) as error:
            raise RepositoryUnusable(f"{folder} is not a usable git repository: {error}") from error
        self._objects = LooseObjects(folder / "objects")
        self._trees: OrderedDict[str, TreeListing] = OrderedDict()
        self._sizes: dict[str, tuple[str, int]] = {}
        self._cache_lock = threading.Lock()
        self._thread_lock = threading.RLock()
        self._depth = 0
        self._lock_handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    @classmethod
    def create(cls, folder: Path, default_branch: str = "main") -> "GitRepository":
        """Open the repository in `folder`; make an empty one if there is none."""
        if not (folder / "HEAD").exists():
            try:
                folder.mkdir(parents=True, exist_ok=True)
                pygit2.init_repository(str(folder), bare=True, initial_head=default_branch)
            except (pygit2.GitError, OSError) as error:
                raise RepositoryUnusable(f"cannot make a git repository in {folder}: {error}") from error
        return cls(folder)

    def close(self) -> None:
        """Release the lock file and git's own handles."""
        with self._thread_lock:
            if self._lock_handle >= 0:
                os.close(self._lock_handle)
                self._lock_handle = -1
                self._git.free()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other writer out, in this process and in others; may be nested."""
        with self._thread_lock:
            if self._depth == 0:
                fcntl.flock(self._lock_handle, fcntl.LOCK_EX)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0:
                    fcntl.flock(self._lock_handle, fcntl.LOCK_UN)

    # Refs

    @property
    def default_branch(self) -> str:
        """The branch that HEAD names, whether it exists yet or not."""
        head = (self.folder / "HEAD").read_text().strip()
        return head.removeprefix("ref: ").removeprefix("refs/heads/")

    def is_empty(self) -> bool:
        """Tell whether no branch and no tag exists yet."""
        return next(iter(self._git.references), None) is None

    def read_ref(self, name: str) -> str | None:
        """Return the object that the full ref name (`refs/heads/x`) points at."""
        try:
            reference = self._git.lookup_reference(name)
            return str(reference.resolve().target)
        except (KeyError, ValueError, pygit2.GitError):
            return None

    def list_refs(self, prefix: str = "refs/") -> list[tuple[str, str]]:
        """Return every ref whose name begins with `prefix`, with its target, in order of name."""
        names = sorted(name for name in self._git.references if name.startswith(prefix))
        found = ((name, self.read_ref(name)) for name in names)
        return [(name, sha) for name, sha in found if sha is not None]

    def move_ref(self, name: str, target: str, expected: str | None) -> None:
        """Point `name` at `target` if it is still at `expected` (None: absent); else raise RefMoved."""
        with self.locked():
            found = self.read_ref(name)
            if found != expected:
                raise RefMoved(name, expected, found)
            try:
                if found is None:
                    self._git.create_reference_direct(name, pygit2.Oid(hex=target), False)
                else:
                    # Compares once more inside libgit2, so that a plain `git push` cannot be overrun.
                    self._git.lookup_reference(name).set_target(pygit2.Oid(hex=target))
            except (pygit2.GitError, ValueError, KeyError) as error:
                raise RefMoved(name, expected, self.read_ref(name)) from error

    def delete_ref(self, name: str, expected: str) -> None:
        """Remove `name` if it is still at `expected`; else raise RefMoved."""
        with self.locked():
            found = self.read_ref(name)
            if found != expected:
                raise RefMoved(name, expected, found)
            self._git.lookup_reference(name).delete()

    @staticmethod
    def is_valid_ref(name: str) -> bool:
        """Tell whether git allows this full ref name."""
        return name.startswith("refs/") and pygit2.reference_is_valid_name(name)

    def find_commit(self, revision: str) -> str | None:
        """Return the commit that a branch, tag, full ref name or (abbreviated) SHA names."""
        for name in (f"refs/heads/{revision}", f"refs/tags/{revision}", revision):
            if name.startswith("refs/") and (target := self.read_ref(name)):
                return self._peel(target)
        return self._peel(revision)

    def _peel(self, sha: str) -> str | None:
        found = self._lookup(sha)
        try:
            return None if found is None else str(found.peel(pygit2.Commit).id)
        except (pygit2.GitError, ValueError):
            return None

    def _lookup(self, sha: str) -> Any:
        if not 4 <= len(sha) <= 40 or not all(digit in "0123456789abcdef" for digit in sha):
            return None
        try:
            return self._git.get(sha)
        except (KeyError, ValueError, pygit2.GitError):
            return None

    # Objects

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
        return self._objects.write("blob", content)

    def read_commit(self, sha: str) -> CommitRecord:
        """Return a commit; KeyError if there is no such commit."""
        found = self._lookup(sha)
        if not isinstance(found, pygit2.Commit):
            raise KeyError(sha)
        return _record_of(found)

    def write_commit(
        self, *, tree: str, parents: Sequence[str], author: Person, committer: Person, message: str
    ) -> str:
        """Store a commit and return its SHA; no ref moves."""
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
        lines += [f"author {_format_person(author)}", f"committer {_format_person(committer)}", "", message]
        return self._objects.write("commit", "\n".join(lines).encode("utf-8", "surrogateescape"))

    # Trees

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
        sha = self._objects.write("tree", listing.encode())
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

    # History

    def history(self, start: str, path: str = "", beyond: str | None = None) -> Iterator[CommitRecord]:
        """Yield commits from `start` back, newest first.

        With a path, only those that changed it; with `beyond`, only those that it does not descend from.
        """
        walker = self._git.walk(pygit2.Oid(hex=start), SortMode.TIME)
        if beyond is not None:
            walker.hide(pygit2.Oid(hex=beyond))
        for commit in walker:
            record = _record_of(commit)
            if not path or self._changed(record, path):
                yield record

    def _changed(self, record: CommitRecord, path: str) -> bool:
        here = self.find_entry(record.tree, path)
        if not record.parents:
            return here is not None
        return all(here != self.find_entry(self.read_commit(parent).tree, path) for parent in record.parents)

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

    def ancestor(self, sha: str, generations: int) -> str | None:
        """Return the commit that many first parents before `sha`; None beyond the first commit."""
        current: str | None = sha
        for _ in range(generations):
            parents = self.read_commit(current).parents if current else ()
            current = parents[0] if parents else None
        return current

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Tell whether `newer` is `older` or descends from it."""
        if older == newer:
            return True
        return self._git.descendant_of(pygit2.Oid(hex=newer), pygit2.Oid(hex=older))

    def ahead_behind(self, head: str, base: str) -> tuple[int, int]:
        """Return how many commits `head` has that `base` lacks, and the reverse."""
        return self._git.ahead_behind(pygit2.Oid(hex=head), pygit2.Oid(hex=base))

    def merge_base(self, first: str, second: str) -> str | None:
        """Return the newest commit that both descend from, if any."""
        try:
            found = self._git.merge_base(pygit2.Oid(hex=first), pygit2.Oid(hex=second))
        except (KeyError, pygit2.GitError):
            return None
        return str(found) if found else None


def _record_of(commit: pygit2.Commit) -> CommitRecord:
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
