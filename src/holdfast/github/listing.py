"""Reads that take several calls: a folder listed whole, however large, and many files at one commit."""

from collections.abc import Iterable, Iterator, Sequence

from holdfast.errors import Missing, Refused
from holdfast.github.calls import (
    PATHS_PER_QUERY,
    File,
    Gateway,
    ListFolder,
    ListingEntry,
    ReadBlob,
    ReadPage,
    ReadTree,
    Snapshot,
)


def list_folder(
    gateway: Gateway, folder: str, ref: str, *, is_fresh: bool = False
) -> tuple[ListingEntry, ...]:
    """Return what is in a folder at `ref`. Raises Missing; Refused if GitHub does not list all of it."""
    listing = gateway.perform(ListFolder(folder, ref, is_fresh=is_fresh))
    return listing.entries if listing.is_complete else walk_to(gateway, folder, ref)


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


def read_snapshot(gateway: Gateway, branch: str, paths: Iterable[str]) -> Snapshot:
    """Return these files of a branch, all as of its newest commit, and what each folder among them holds.

    The first files are read at the branch, the others at the commit that it then pointed to. Raises Missing
    when there is no such branch.
    """
    wanted = list(dict.fromkeys(paths))
    head_sha = ""
    files: dict[str, File | None] = {}
    folders: dict[str, dict[str, str]] = {}
    for some in _pages(wanted):
        page = gateway.perform(ReadPage(branch, tuple(some), head_sha))
        head_sha = page.head_sha
        files |= page.files
        folders |= page.folders
        for path, sha in page.truncated.items():
            files[path] = File(gateway.perform(ReadBlob(sha)), sha)
    return Snapshot(head_sha, {path: files[path] for path in wanted}, folders)


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
