"""The calls we make to GitHub, as values; `records` has the values they return.

A call says everything about one request; a gateway performs it. Wrapping a gateway (to spend
budget, to repeat) is then one method, and a test double is a function. What takes several requests is a
function over a gateway (`listing`), so that every wrapper sees each of them. Slots would make each of these
classes a third slower to load, and a command that reads loads them all.

An empty repository has no branch and no commit, so every read of one raises Missing. What tells it from a
missing branch is the first WriteTree: in an empty repository, and only there, it raises Conflict with kind
`exists`. A WriteFile with an empty `branch` then makes the first commit, on the default branch.
"""

from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

from holdfast.errors import GatewayError
from holdfast.github.records import (
    CommitRecord,
    File,
    HeadReading,
    Listing,
    Page,
    RepositoryRecord,
    Revision,
    Signature,
)

ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)

Resource = Literal["core", "graphql"]

NO_GRAPHQL = "graphql"
"""The `path` of the Missing that says: this server has no GraphQL endpoint."""

HISTORY_PAGE = 100
"""How many commits one page of the history has."""

BLOBS_PER_QUERY = 100
"""How many blobs may be asked for at once."""

PATHS_PER_QUERY = 100
"""How many files one query asks for."""


@dataclass(frozen=True)
class Call(Generic[ResultT_co]):
    """One request to GitHub. The class says what it costs, the fields say what is asked."""

    resource: ClassVar[Resource] = "core"
    is_mutation: ClassVar[bool] = False
    creates_content: ClassVar[bool] = False

    @property
    def subject(self) -> str:
        """What the call is about, for errors and logs."""
        return next((getattr(self, name) for name in ("path", "branch", "sha") if hasattr(self, name)), "")


@dataclass(frozen=True)
class ReadRepository(Call[RepositoryRecord]):
    """Read the repository's own record."""


@dataclass(frozen=True)
class ReadFile(Call[File]):
    """Read the file at `path` as of `ref`, a branch or a commit, whatever its size, in one request.

    Raises Missing, also for a folder. `is_fresh` says that it was written a moment ago, so that Missing
    may only mean not visible yet, and is worth repeating.
    """

    path: str
    ref: str
    is_fresh: bool = False


@dataclass(frozen=True)
class ListFolder(Call[Listing]):
    """List the folder at `path` (the root if empty) as of `ref`; GitHub cuts it off at 1,000 entries.

    Raises Missing, also for a file; `is_fresh` as in ReadFile.
    """

    path: str
    ref: str
    is_fresh: bool = False


@dataclass(frozen=True)
class ReadTree(Call[Listing]):
    """List a tree by its SHA, a commit's or a branch's name, with everything below it if `is_recursive`.

    Raises Missing; `is_fresh` as in ReadFile.
    """

    sha: str
    is_recursive: bool = False
    is_fresh: bool = False


@dataclass(frozen=True)
class ReadBlob(Call[bytes]):
    """Read a blob by its SHA. Raises Missing."""

    sha: str


@dataclass(frozen=True)
class ReadHead(Call[str]):
    """Read the SHA of the branch's newest commit. Raises Missing."""

    branch: str


@dataclass(frozen=True)
class ReadHeadIfChanged(Call[HeadReading]):
    """Read the SHA of the branch's newest commit, unless the branch still answers to `etag`.

    An unchanged branch costs nothing of GitHub's hourly limit. GitHub binds an `etag` to the token, so
    that after a change of token the SHA is read again. Raises Missing.
    """

    branch: str
    etag: str = ""


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


@dataclass(frozen=True)
class ReadBlobs(Call[dict[str, bytes]]):
    """Read up to BLOBS_PER_QUERY blobs by their SHAs in one request, through GraphQL.

    Those that GraphQL does not give whole (large or binary ones) are left out: they take a ReadBlob each.
    Raises Missing for one that is not there, and with the path NO_GRAPHQL when there is no GraphQL.
    """

    resource: ClassVar[Resource] = "graphql"

    shas: tuple[str, ...]

    @property
    def subject(self) -> str:
        """The first blob stands for all."""
        return self.shas[0] if self.shas else ""


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


@dataclass(frozen=True)
class ReadPage(Call[Page]):
    """Read up to PATHS_PER_QUERY files and folders by GraphQL, at `commit_sha` or else at the branch's head.

    `read_snapshot` reads any number of them. If it `is_brief`, only the names of what is in a folder are
    asked for, also those of folders: their blobs are empty texts. Raises Missing when there is no such
    branch, or with the path NO_GRAPHQL, and Unavailable if the commit is not visible yet.
    """

    resource: ClassVar[Resource] = "graphql"

    branch: str
    paths: tuple[str, ...]
    commit_sha: str = ""
    is_brief: bool = False


class Gateway(Protocol):
    """Something that performs calls to one repository."""

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers to `call`, or raise a GatewayError."""
        ...


class Answer(NamedTuple):
    """What every answer of GitHub says beside its content: seen by whoever keeps the budget.

    `headers` have lower-case names; `received_at` is in local epoch seconds.
    """

    call: Call[object]
    status: int
    headers: dict[str, str]
    received_at: float

    @property
    def resource(self) -> str:
        """Return the resource whose limit the call counts against."""
        return self.call.resource


class Meter(Protocol):
    """Whoever counts what is asked of GitHub. `endpoint` is the name of the call's type."""

    def request_answered(self, endpoint: str, status: int) -> None:
        """Count one answer of GitHub."""
        ...

    def call_performed(self, seconds: float, *, is_mutation: bool, error: GatewayError | None) -> None:
        """Count one attempt, and how it ended."""
        ...

    def call_repeated(self) -> None:
        """Count an attempt that follows one that failed."""
        ...
