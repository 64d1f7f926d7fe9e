"""The calls by which a set-up and a history are looked at: repository, commits, what guards a branch."""

from dataclasses import dataclass, field
from typing import ClassVar

from holdfast.github.calls import Call, Resource
from holdfast.github.results import Signature

HISTORY_PAGE = 100
"""How many commits one page of the history has."""


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


@dataclass(frozen=True)
class ReadRepository(Call[RepositoryRecord]):
    """Read the repository's own record."""


@dataclass(frozen=True, slots=True)
class ReadViewer(Call[str]):
    """Read whose token it is, by login. Raises Refused for a token that stands for no person."""


@dataclass(frozen=True, slots=True)
class ReadProtection(Call[bool]):
    """Read whether the branch is protected in the classic way. Raises Missing."""

    branch: str


@dataclass(frozen=True, slots=True)
class ReadRules(Call[tuple[str, ...]]):
    """Read the types of the rules for a branch, whether it is there or not. Raises Missing on old servers."""

    branch: str


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
class ReadCommit(Call[CommitRecord]):
    """Read one commit by its SHA. Raises Missing."""

    sha: str


@dataclass(frozen=True)
class ReadHistory(Call[tuple[CommitRecord, ...]]):
    """Read one page of the history of the commit `sha`, newest first; only the last has under HISTORY_PAGE.

    With `until`, only commits that GitHub dates before that moment. Raises Missing.
    """

    sha: str
    page: int = 1
    until: str = ""


@dataclass(frozen=True)
class ReadReplacedHead(Call[str]):
    """Read where the branch was just before it was moved by force to `sha`.

    Raises Missing where the server keeps no such list, or the move is not in it yet.
    """

    branch: str
    sha: str


@dataclass(frozen=True)
class CountCommits(Call[int]):
    """Count the commits of the branch, through GraphQL. Raises Missing, with NO_GRAPHQL without GraphQL."""

    resource: ClassVar[Resource] = "graphql"

    branch: str
