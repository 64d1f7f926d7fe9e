"""Reads that take several calls: a folder listed whole, however large, and many files at one commit."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.errors import GatewayError, Missing, Refused, Silent, Unavailable
from holdfast.github.calls import (
    PATHS_PER_QUERY,
    Gateway,
    ListFolder,
    ReadBlob,
    ReadPage,
    ReadTree,
)
from holdfast.github.results import File, ListingEntry, Snapshot

MOST_LISTED_FILES = 1000
"""How much of a folder GitHub lists by its contents."""

_COMMIT_SHA = re.compile("[0-9a-f]{40}")


def list_folder(
    gateway: Gateway, folder: str, ref: str, *, is_fresh: bool = False, is_long: bool = False
) -> tuple[ListingEntry, ...]:
    """Return what is in a folder at `ref`. Raises Missing; Refused if GitHub does not list all of it.

    It `is_long` if it is known to hold more than GitHub lists at once. The sizes of the files of a long one
    are not told.
    """
    if not is_long:
        listing = gateway.perform(ListFolder(folder, ref, is_fresh=is_fresh))
        if listing.is_complete:
            return listing.entries
    try:
        return _query_folder(gateway, folder, ref)
    except (Missing, Unavailable):
        return walk_to(gateway, folder, ref)  # without GraphQL, or where that gives up on so much


def _query_folder(gateway: Gateway, folder: str, ref: str) -> tuple[ListingEntry, ...]:
    """Return the files of a folder by one query, which lists as many as there are. Raises GatewayError."""
    at_commit = is_commit(ref)
    page = gateway.perform(ReadPage("" if at_commit else ref, (folder,), ref if at_commit else ""))
    if folder not in page.folders:
        raise Missing(folder, "there is no such folder")
    return tuple(ListingEntry(name, "file", sha) for name, sha in page.folders[folder].items())


def is_commit(ref: str) -> bool:
    """Whether a ref is a commit, and not the name of a branch."""
    return _COMMIT_SHA.fullmatch(ref) is not None


def walk_to(gateway: Gateway, folder: str, ref: str) -> tuple[ListingEntry, ...]:
    """Return what is in a folder, by the trees from the top down: unlike contents, they are not cut at 1,000.

    Raises like `list_folder`.
    """
    return read_whole_tree(gateway, folder, find_tree(gateway, folder, ref))


def find_tree(gateway: Gateway, folder: str, ref: str) -> str:
    """Return the tree of a folder. Raises like `list_folder`."""
    sha = ref
    for name in folder.split("/"):
        entries = read_whole_tree(gateway, folder, sha)
        sha = next((entry.sha for entry in entries if entry.path == name and entry.kind == "folder"), "")
        if not sha:
            raise Missing(folder, "there is no such folder")
    return sha


def read_snapshot(
    gateway: Gateway, branch: str, paths: Iterable[str], head_sha: str = "", *, is_brief: bool = False
) -> Snapshot:
    """Return these files of a branch, all as of its newest commit, and what each folder among them holds.

    The first files are read at the branch, the others at the commit that it then pointed to; all of them at
    `head_sha` if that is given. If it `is_brief`, of what is in a folder only the names are told. What makes
    a query fail that holds without it is left `unread`. Raises Missing when there is no such branch.
    """
    wanted = list(dict.fromkeys(paths))
    reading = _SnapshotReading(gateway, branch, head_sha, is_brief)
    for some in _pages(wanted):
        reading.read(some)
    files = {path: reading.files.get(path) for path in wanted}
    return Snapshot(reading.head_sha, files, reading.folders, frozenset(reading.unread))


@dataclass
class _SnapshotReading:
    """A snapshot that grows page by page."""

    gateway: Gateway
    branch: str
    head_sha: str = ""
    is_brief: bool = False
    files: dict[str, File | None] = field(default_factory=dict)
    folders: dict[str, dict[str, str]] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)

    def read(self, paths: Sequence[str]) -> None:
        """Read one page; where that fails, but GitHub is there, look for the path that is at fault."""
        try:
            self._read_page(paths)
        except (Unavailable, Refused) as error:
            if not paths or not _may_be_about_one(error):
                raise
            self._read_page(())  # raises if GitHub does not answer this either
            if len(paths) == 1:
                self.unread.update(paths)
                return
            middle = len(paths) // 2
            self.read(paths[:middle])
            self.read(paths[middle:])

    def _read_page(self, paths: Sequence[str]) -> None:
        page = self.gateway.perform(ReadPage(self.branch, tuple(paths), self.head_sha, self.is_brief))
        self.head_sha = page.head_sha
        self.files |= page.files
        self.folders |= page.folders
        for path, sha in page.truncated.items():
            try:
                self.files[path] = File(self.gateway.perform(ReadBlob(sha)), sha)
            except Unavailable:
                self.unread.add(path)


def _may_be_about_one(error: GatewayError) -> bool:
    if isinstance(error, Refused):
        return error.kind == "invalid"
    return isinstance(error, Unavailable) and not isinstance(error, Silent)


def _pages(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield at least one page: the head is asked for even if no file is."""
    for start in range(0, max(1, len(paths)), PATHS_PER_QUERY):
        yield paths[start : start + PATHS_PER_QUERY]


def read_whole_tree(gateway: Gateway, folder: str, sha: str) -> tuple[ListingEntry, ...]:
    """Return what is in the tree of a folder. Raises Refused if GitHub does not list all of it."""
    listing = gateway.perform(ReadTree(sha))
    if not listing.is_complete:
        advice = "Begin a new one with HOLDFAST_BASE_PATH or HOLDFAST_BRANCH."
        raise Refused(folder, "there is more than GitHub lists of one folder", "invalid", advice)
    return listing.entries
