"""Git plumbing: the only module that knows how a repository is kept on disk.

Several processes may serve one repository. Objects are written first and shared freely; a ref moves last,
by compare-and-swap under a file lock that the operating system releases when its holder dies.
"""

import fcntl
import heapq
import itertools
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pygit2
from pygit2.enums import SortMode

from holdfast.emulator.objects import BlockedPath, CommitRecord, ObjectStore, record_of

LOCK_NAME = "holdfast-emulator.lock"
REF_NAME = "holdfast-emulator.ref"


class RepositoryUnusable(Exception):
    """The folder cannot be opened as a git repository, or made into one."""


class RefMoved(Exception):
    """A ref is not where its mover expected it: `found` is where it is, None if there is no such ref."""

    def __init__(self, name: str, expected: str | None, found: str | None) -> None:
        super().__init__(f"{name} is at {found} but expected {expected}")
        self.name = name
        self.expected = expected
        self.found = found


@dataclass(frozen=True)
class ForcedMove:
    """How a branch was moved to another history: from where to where, and when (epoch seconds)."""

    ref: str
    before: str
    after: str
    at: float


class GitRepository(ObjectStore):
    """One bare repository on disk, safe for many threads and processes."""

    def __init__(self, folder: Path) -> None:
        try:
            git = pygit2.Repository(str(folder))
        except (pygit2.GitError, OSError) as error:
            raise RepositoryUnusable(f"{folder} is not a usable git repository: {error}") from error
        super().__init__(folder, git)
        head = (folder / "HEAD").read_text().strip()
        #: The branch that HEAD names, whether it exists yet or not.
        self.default_branch = head.removeprefix("ref: ").removeprefix("refs/heads/")
        #: The newest first. GitHub lists every move of a branch; these are those that nobody else can tell.
        self.forced_moves: list[ForcedMove] = []
        self._thread_lock = threading.RLock()
        self._depth = 0
        self._lock_handle = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    @classmethod
    def create(cls, folder: Path, default_branch: str = "main") -> "GitRepository":
        """Open the repository in `folder`; make an empty one if there is none."""
        if not (folder / "HEAD").exists():
            try:
                folder.parent.mkdir(parents=True, exist_ok=True)
                # Made aside and put in place whole: another process may look at the same moment.
                with tempfile.TemporaryDirectory(dir=folder.parent) as aside:
                    pygit2.init_repository(f"{aside}/new", bare=True, initial_head=default_branch)
                    if not (folder / "HEAD").exists():
                        Path(aside, "new").rename(folder)
            except (pygit2.GitError, OSError) as error:
                if not (folder / "HEAD").exists():
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

    def is_empty(self) -> bool:
        """Whether no branch and no tag exists yet."""
        head = self.read_ref(f"refs/heads/{self.default_branch}")
        return head is None and next(iter(self._git.references), None) is None

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
            self._place_ref(name, target)

    def _place_ref(self, name: str, target: str) -> None:
        """Write a loose ref in one step.

        git's own `.lock` file would outlive a killed process and block the ref for ever; the file lock
        that is held here does not.
        """
        path, temporary = self.folder / name, self.folder / REF_NAME
        temporary.write_text(f"{target}\n")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.replace(path)
        except OSError as error:
            raise BlockedPath(f"{name} is in the way of another ref, or another of it") from error

    def delete_ref(self, name: str, expected: str) -> None:
        """Remove `name` if it is still at `expected`; else raise RefMoved."""
        with self.locked():
            found = self.read_ref(name)
            if found != expected:
                raise RefMoved(name, expected, found)
            self._git.lookup_reference(name).delete()

    @staticmethod
    def is_valid_ref(name: str) -> bool:
        """Whether git allows this full ref name."""
        return name.startswith("refs/") and pygit2.reference_is_valid_name(name)

    def find_commit(self, revision: str) -> str | None:
        """Return the commit that a branch, tag, full ref name or (abbreviated) SHA names."""
        for name in (f"refs/heads/{revision}", f"refs/tags/{revision}", revision):
            if name.startswith("refs/") and (target := self.read_ref(name)):
                return self._peel(target)
        return self._peel(revision)

    def _peel(self, sha: str) -> str | None:
        found = self.lookup(sha)
        try:
            return None if found is None else str(found.peel(pygit2.Commit).id)
        except (pygit2.GitError, ValueError):
            return None

    # History

    def history(self, start: str, path: str = "") -> Iterator[CommitRecord]:
        """Yield commits from `start` back, newest first; with a path, only those that changed it.

        Reads no further than it is asked to, unlike libgit2's walk in order of time.
        """
        order = itertools.count()
        waiting = [(0, next(order), start)]
        seen = {start}
        while waiting:
            record = self.read_commit(heapq.heappop(waiting)[2])
            for parent in record.parents:
                if parent not in seen:
                    seen.add(parent)
                    time = self.read_commit(parent).committer.time
                    heapq.heappush(waiting, (-time, next(order), parent))
            if not path or self._changed(record, path):
                yield record

    def history_beyond(self, start: str, base: str) -> Iterator[CommitRecord]:
        """Yield the commits from `start` back that `base` does not descend from, newest first."""
        # Times alone would misplace commits of one second.
        walker = self._git.walk(pygit2.Oid(hex=start), SortMode.TOPOLOGICAL | SortMode.TIME)
        walker.hide(pygit2.Oid(hex=base))
        return map(record_of, walker)

    def _changed(self, record: CommitRecord, path: str) -> bool:
        here = self.find_entry(record.tree, path)
        if not record.parents:
            return here is not None
        return all(here != self.find_entry(self.read_commit(parent).tree, path) for parent in record.parents)

    def ancestor(self, sha: str, generations: int) -> str | None:
        """Return the commit that many first parents before `sha`; None beyond the first commit."""
        current: str | None = sha
        for _ in range(generations):
            parents = self.read_commit(current).parents if current else ()
            current = parents[0] if parents else None
        return current

    def is_ancestor(self, older: str, newer: str) -> bool:
        """Whether `newer` is `older` or descends from it."""
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
