"""The calls we make to GitHub, as values; `records` has the values they return.

A call says everything about one request; a gateway performs it. Wrapping a gateway (to spend
budget, to repeat) is then one method, and a test double is a function. What takes several requests is a
function over a gateway (`listing`), so that every wrapper sees each of them.

Here is what every reader asks. The calls of writers are in `write_calls`, those about the past in
`history_calls`, those about a set-up in `inspection`: `holdfast exec` has no time to load them. With slots,
each of these classes would take a third longer to load.

An empty repository has no branch and no commit, so every read of one raises Missing. What tells it from a
missing branch is the first WriteTree: in an empty repository, and only there, it raises Conflict with kind
`exists`. A WriteFile with an empty `branch` then makes the first commit, on the default branch.
"""

from dataclasses import dataclass
from typing import ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

from holdfast.errors import GatewayError
from holdfast.github.results import File, HeadReading, Listing, Page

ResultT = TypeVar("ResultT")
ResultT_co = TypeVar("ResultT_co", covariant=True)

Resource = Literal["core", "graphql"]

NO_GRAPHQL = "graphql"
"""The `path` of the Missing that says: this server has no GraphQL endpoint."""

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
