"""The calls by which writers change a repository, and the commit that they make."""

from dataclasses import dataclass, field
from typing import ClassVar

from holdfast.github.calls import Call, Resource
from holdfast.github.results import Signature


@dataclass(frozen=True)
class Revision:
    """The commit that a write made, the blob it put at each path, and the commit it was made on, if known."""

    commit_sha: str
    blob_shas: dict[str, str] = field(default_factory=dict)
    parent_sha: str = field(default="", compare=False)


@dataclass(frozen=True)
class WriteFile(Call[Revision]):
    """Put `content` at `path`. Without `expected_sha` the file must be new; with it, it must be that blob.

    An empty `branch` means the repository's default branch, and makes it in an empty repository. A file that
    was deleted meanwhile is made again whatever `expected_sha` says. The blob is checked against `content`.
    Raises Conflict, Refused, Missing (no such branch), Unavailable (it may have been written).
    """

    is_mutation: ClassVar[bool] = True
    creates_content: ClassVar[bool] = True

    path: str
    content: bytes
    message: str
    branch: str
    expected_sha: str | None = None


@dataclass(frozen=True)
class DeleteFile(Call[Revision]):
    """Delete the file at `path`, which must be the blob `expected_sha`. Raises Conflict, Missing."""

    is_mutation: ClassVar[bool] = True
    creates_content: ClassVar[bool] = True

    path: str
    message: str
    branch: str
    expected_sha: str


@dataclass(frozen=True)
class WriteTree(Call[str]):
    """Make a tree of text files and return its SHA; on top of `base_tree_sha` if given. None deletes a path.

    Raises Conflict with kind `exists` in an empty repository, which must be written to by WriteFile first.
    """

    is_mutation: ClassVar[bool] = True
    creates_content: ClassVar[bool] = True

    files: dict[str, str | None]
    base_tree_sha: str | None = None


@dataclass(frozen=True)
class WriteCommit(Call[str]):
    """Make a commit of a tree and return its SHA; without parents it begins a new history."""

    is_mutation: ClassVar[bool] = True
    creates_content: ClassVar[bool] = True

    tree_sha: str
    message: str
    parent_shas: tuple[str, ...] = ()
    author: Signature | None = None
    committer: Signature | None = None


@dataclass(frozen=True)
class CreateBranch(Call[None]):
    """Make `branch` point to a commit.

    Raises Conflict with kind `exists` if there is such a branch, Missing if there is no such commit.
    """

    is_mutation: ClassVar[bool] = True
    creates_content: ClassVar[bool] = True

    branch: str
    commit_sha: str


@dataclass(frozen=True)
class MoveBranch(Call[None]):
    """Make `branch` point to another commit: one that has the present one among its ancestors.

    With `is_forced` any commit will do, and whatever was written meanwhile is off the branch.
    Raises Conflict with kind `head_moved` if it is no descendant, Missing if branch or commit is not there.
    """

    is_mutation: ClassVar[bool] = True
    creates_content: ClassVar[bool] = True

    branch: str
    commit_sha: str
    is_forced: bool = False


@dataclass(frozen=True)
class ReplaceBranch(Call[None]):
    """Make `branch` point to any commit if it still points to `expected_head_sha`, through GraphQL.

    `repository_id` is the repository's `node_id`. Raises Conflict with kind `head_moved`; Missing, with the
    path NO_GRAPHQL when there is no GraphQL; Unavailable when the branch may have been moved.
    """

    resource: ClassVar[Resource] = "graphql"
    is_mutation: ClassVar[bool] = True
    creates_content: ClassVar[bool] = True

    branch: str
    repository_id: str
    expected_head_sha: str
    commit_sha: str


@dataclass(frozen=True)
class CommitFiles(Call[Revision]):
    """Write and delete many files in one commit on top of `expected_head_sha`, through GraphQL.

    The revision's `blob_shas` are what GitHub itself reports for every written path, checked against
    `additions`; a file over 10 MB has none, because GitHub fails when it is asked back.
    Raises Conflict with kind `head_moved`; Missing when there is no such branch, or with the path NO_GRAPHQL
    when there is no GraphQL; Unavailable when the commit may have been made.
    """

    resource: ClassVar[Resource] = "graphql"
    is_mutation: ClassVar[bool] = True
    creates_content: ClassVar[bool] = True

    branch: str
    expected_head_sha: str
    headline: str
    body: str
    additions: dict[str, bytes]
    deletions: tuple[str, ...] = ()
