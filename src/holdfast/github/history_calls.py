"""The calls by which the history of a branch is read."""

from dataclasses import dataclass, field
from typing import ClassVar

from holdfast.github.calls import Call, Resource
from holdfast.github.results import Signature

HISTORY_PAGE = 100
"""How many commits one page of the history has."""


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
