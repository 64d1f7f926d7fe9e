"""What GitHub holds, as the calls return it: files, listings, commits, the repository's own record."""

from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Revision:
    """The commit that a write made, the blob it put at each path, and the commit it was made on, if known."""

    commit_sha: str
    blob_shas: dict[str, str] = field(default_factory=dict)
    parent_sha: str = field(default="", compare=False)


class Signature(NamedTuple):
    """Who made a commit, and when, in ISO 8601."""

    name: str
    email: str
    date: str


@dataclass(frozen=True)
class CommitRecord:
    """One commit: its tree, its parents, and who made it, if that is known."""

    sha: str
    tree_sha: str
    parent_shas: tuple[str, ...]
    message: str
    author: Signature | None = field(default=None, compare=False)
    committer: Signature | None = field(default=None, compare=False)


@dataclass(frozen=True)
class RepositoryRecord:
    """What the repository says of itself; `can_write` is false when GitHub says that the token may not.

    `size_bytes` is GitHub's own figure for the whole repository, which is rounded and some time behind.
    """

    full_name: str
    default_branch: str
    html_url: str
    can_write: bool
    node_id: str = field(default="", compare=False)
    size_bytes: int = field(default=0, compare=False)


class HeadReading(NamedTuple):
    """The branch's newest commit, or None if it is still the one that `etag` stood for."""

    sha: str | None
    etag: str


@dataclass(frozen=True)
class Snapshot:
    """Some files and folders of a branch, all read at one commit; a path that is no file has None.

    `folders` has the blobs of a folder's files, by name. `unread` are files that could not be had together
    with the others, as when one of them is very large: only whoever asks for it by itself may wait for it.
    """

    head_sha: str
    files: dict[str, File | None]
    folders: dict[str, dict[str, str]] = field(default_factory=dict)
    unread: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Page:
    """What one query gives of a snapshot; of `truncated` files, which it does not give whole, the blobs."""

    head_sha: str
    files: dict[str, File | None]
    truncated: dict[str, str] = field(default_factory=dict)
    folders: dict[str, dict[str, str]] = field(default_factory=dict)
