"""Folders listed whole, however many files they hold."""

from holdfast.errors import Missing, Refused
from holdfast.github.calls import Gateway, ListFolder, ListingEntry, ReadTree


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


def read_whole_tree(gateway: Gateway, folder: str, sha: str) -> tuple[ListingEntry, ...]:
    """Return what is in the tree of a folder. Raises Refused if GitHub does not list all of it."""
    listing = gateway.perform(ReadTree(sha))
    if not listing.is_complete:
        advice = "Begin a new one with HOLDFAST_BASE_PATH or HOLDFAST_BRANCH."
        raise Refused(folder, "there is more than GitHub lists of one folder", "invalid", advice)
    return listing.entries
