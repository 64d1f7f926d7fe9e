"""What GitHub holds, as the calls of readers return it, and the names under which commits are made."""

from typing import Literal, NamedTuple


class File(NamedTuple):
    """One file as GitHub holds it."""

    content: bytes
    blob_sha: str


class ListingEntry(NamedTuple):
    """One line of a folder or tree: `path` is relative to what was listed."""

    path: str
    kind: Literal["file", "folder", "other"]
    sha: str
    size_bytes: int = 0


class Listing(NamedTuple):
    """What a folder or tree holds; `is_complete` is false when GitHub cut it off."""

    entries: tuple[ListingEntry, ...]
    is_complete: bool


class Signature(NamedTuple):
    """Who made a commit, and when, in ISO 8601."""

    name: str
    email: str
    date: str


class HeadReading(NamedTuple):
    """The branch's newest commit, or None if it is still the one that `etag` stood for."""

    sha: str | None
    etag: str


class Snapshot(NamedTuple):
    """Some files and folders of a branch, all read at one commit; a path that is no file has None.

    `folders` has the blobs of a folder's files, by name. `unread` are files that could not be had together
    with the others, as when one of them is very large: only whoever asks for it by itself may wait for it.
    """

    head_sha: str
    files: dict[str, File | None]
    folders: dict[str, dict[str, str]]
    unread: frozenset[str]


class Page(NamedTuple):
    """What one query gives of a snapshot; of `truncated` files, which it does not give whole, the blobs."""

    head_sha: str
    files: dict[str, File | None]
    truncated: dict[str, str]
    folders: dict[str, dict[str, str]]
