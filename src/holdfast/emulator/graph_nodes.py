"""What a GraphQL query can reach: repositories, refs and git objects, each read only when it is asked for.

A field `committedDate` is the attribute or method `committed_date` of the class that is named for its type.
"""

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice

from holdfast.emulator.objects import CommitRecord, Person
from holdfast.emulator.shapes import format_time, node_id
from holdfast.emulator.trees import TreeEntry
from holdfast.emulator.visit import Visit

# GitHub truncates the text of large blobs and fails to look up files beyond 10 MB; the first figure is
# not published.
TEXT_LIMIT_BYTES = 512 * 1024
FILE_LIMIT_BYTES = 10 * 1024 * 1024
PAGE_LIMIT = 100


class GraphFailure(Exception):
    """A field that cannot be answered; `kind` is the type that GitHub gives the error."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class RepositoryNode:
    """One repository."""

    graph_type = "Repository"

    def __init__(self, visit: Visit) -> None:
        served = visit.repository
        self.visit = visit
        self.git = served.git
        self.id = served.node_id
        self.database_id = served.number & 0x7FFFFFFF
        self.name = served.name
        self.name_with_owner = served.full_name
        self.is_private = True
        self.url = visit.links.html

    def is_empty(self) -> bool:
        """Whether there is no commit yet."""
        return self.git.is_empty()

    def default_branch_ref(self) -> "RefNode | None":
        """Return the default branch, if it exists."""
        return self.ref(f"refs/heads/{self.git.default_branch}")

    def ref(self, qualified_name: str) -> "RefNode | None":
        """Return a ref by its full name, or a branch or tag by its short one."""
        for name in (qualified_name, f"refs/{qualified_name}", f"refs/heads/{qualified_name}"):
            if name.startswith("refs/") and self.visit.read_branch(self.git, name):
                return RefNode(self, name)
        return None

    def object(self, expression: str | None = None, oid: str | None = None) -> "ObjectNode | None":
        """Return the object that an id, or an expression such as `main:folder/file`, names."""
        text = oid or expression
        if not text:
            raise GraphFailure("INVALID", "Either `oid` or `expression` is required.")
        kind = self.git.describe(text)
        if kind is not None and kind[0] != "commit":
            return object_node(self, text, "")
        revision, colon, path = text.partition(":")
        revision = self.git.default_branch if revision == "HEAD" else revision
        commit = self.visit.find_commit(self.git, revision)
        if commit is None:
            return None
        node = CommitNode(self, self.git.read_commit(commit))
        if not colon:
            return node
        entry = self.git.find_entry(node.record.tree, path.strip("/"))
        return object_node(self, entry.sha, path.strip("/")) if entry else None


class RefNode:
    """One branch or tag."""

    graph_type = "Ref"

    def __init__(self, repository: RepositoryNode, full_name: str) -> None:
        self.repository = repository
        self._full_name = full_name
        self.id = repository.visit.repository.ref_id(full_name)
        self.prefix = "/".join(full_name.split("/")[:2]) + "/"
        self.name = full_name.removeprefix(self.prefix)

    def target(self) -> "ObjectNode | None":
        """Return what the ref points at."""
        sha = self.repository.visit.read_branch(self.repository.git, self._full_name)
        return object_node(self.repository, sha, "") if sha else None


class ActorNode:
    """Who made a commit."""

    graph_type = "GitActor"

    def __init__(self, person: Person) -> None:
        self.name = person.name
        self.email = person.email
        self.date = format_time(person.time)


class CommitNode:
    """One commit."""

    graph_type = "Commit"

    def __init__(self, repository: RepositoryNode, record: CommitRecord) -> None:
        self.repository = repository
        self.record = record
        self.oid = record.sha
        self.abbreviated_oid = record.sha[:7]
        self.id = node_id("C", record.sha)
        self.author = ActorNode(record.author)
        self.committer = ActorNode(record.committer)
        self.authored_date = format_time(record.author.time)
        self.committed_date = format_time(record.committer.time)
        self.message = record.message
        self.message_headline, _, body = record.message.partition("\n")
        self.message_body = body.strip("\n")
        self.url = f"{repository.url}/commit/{record.sha}"

    def tree(self) -> "TreeNode":
        """Return the root folder."""
        return TreeNode(self.repository, self.record.tree, "")

    def file(self, path: str) -> "EntryNode | None":
        """Return what is at a path; fails for a file beyond 10 MB, as GitHub does."""
        entry = self.repository.git.find_entry(self.record.tree, path.strip("/"))
        if entry is None:
            return None
        node = EntryNode(self.repository, entry, path.strip("/"))
        if node.size() > FILE_LIMIT_BYTES:
            raise GraphFailure("SERVICE_UNAVAILABLE", "Something went wrong while executing your query.")
        return node

    def changed_files_if_available(self) -> int:
        """Return how many files differ from the first parent."""
        git = self.repository.git
        parents = self.record.parents
        before = git.read_commit(parents[0]).tree if parents else git.edit_tree(None, {})
        return sum(1 for _ in git.changed_files(before, self.record.tree))

    def parents(self, first: int | None = None, **page: object) -> "ConnectionNode":
        """Return the commits that this one follows."""
        git = self.repository.git
        size = _page_size("parents", first, page)
        return ConnectionNode(
            self.repository,
            self.oid,
            lambda: map(git.read_commit, self.record.parents),
            size,
            page.get("after"),
        )

    def history(self, first: int | None = None, path: str | None = None, **page: object) -> "ConnectionNode":
        """Return this commit and those before it, newest first."""
        size = _page_size("history", first, page)
        git, place = self.repository.git, (path or "").strip("/")
        return ConnectionNode(
            self.repository, self.oid, lambda: git.history(self.oid, place), size, page.get("after")
        )


class ConnectionNode:
    """One page of a list of commits; `walk` begins the list anew."""

    def __init__(
        self,
        repository: RepositoryNode,
        anchor: str,
        walk: Callable[[], Iterator[CommitRecord]],
        size: int,
        after: object,
    ) -> None:
        start = _position_after(after)
        found = list(islice(walk(), start, start + size + 1))
        shown = found[:size]
        self._walk = walk
        self.nodes = [CommitNode(repository, record) for record in shown]
        self.page_info = {
            "start_cursor": f"{anchor} {start}" if shown else None,
            "end_cursor": f"{anchor} {start + len(shown) - 1}" if shown else None,
            "has_next_page": len(found) > size,
            "has_previous_page": start > 0,
        }

    def total_count(self) -> int:
        """Return how many commits there are on all pages."""
        return sum(1 for _ in self._walk())


class TreeNode:
    """One folder."""

    graph_type = "Tree"

    def __init__(self, repository: RepositoryNode, sha: str, path: str) -> None:
        self.repository = repository
        self.oid = sha
        self.abbreviated_oid = sha[:7]
        self.id = node_id("T", sha)
        self._path = path

    def entries(self) -> "list[EntryNode]":
        """Return what the folder holds."""
        prefix = f"{self._path}/" if self._path else ""
        listing = self.repository.git.read_tree(self.oid)
        return [EntryNode(self.repository, entry, prefix + entry.name) for entry in listing]


class EntryNode:
    """One member of a folder."""

    graph_type = "TreeEntry"

    def __init__(self, repository: RepositoryNode, entry: TreeEntry, path: str) -> None:
        self.repository = repository
        self.name = path.rpartition("/")[2]
        self.path = path
        self.mode = entry.mode
        self.type = entry.kind
        self.oid = entry.sha

    def size(self) -> int:
        """Return the file's bytes; 0 for a folder."""
        found = self.repository.git.describe(self.oid) if self.type == "blob" else None
        return found[1] if found else 0

    def object(self) -> "ObjectNode | None":
        """Return what the entry points at."""
        return object_node(self.repository, self.oid, self.path)


class BlobNode:
    """One file's content."""

    graph_type = "Blob"

    def __init__(self, repository: RepositoryNode, sha: str, size: int) -> None:
        self.repository = repository
        self.oid = sha
        self.abbreviated_oid = sha[:7]
        self.id = node_id("B", sha)
        self.byte_size = size
        self.is_truncated = size > TEXT_LIMIT_BYTES

    def is_binary(self) -> bool:
        """Whether the content is not text."""
        return self.text is None

    @cached_property
    def text(self) -> str | None:
        """Return the content as text, cut if it is large; None if it is no text."""
        content = self.repository.git.read_blob(self.oid)
        if b"\0" in content[:8000]:
            return None
        try:
            if self.is_truncated:
                return content[:TEXT_LIMIT_BYTES].decode(errors="ignore")
            return content.decode()
        except UnicodeDecodeError:
            return None


ObjectNode = CommitNode | TreeNode | BlobNode


def object_node(repository: RepositoryNode, sha: str, path: str) -> ObjectNode | None:
    """Return the node for a git object, if the repository has it."""
    found = repository.git.describe(sha)
    match found:
        case ("commit", _):
            return CommitNode(repository, repository.git.read_commit(sha))
        case ("tree", _):
            return TreeNode(repository, sha, path)
        case ("blob", size):
            return BlobNode(repository, sha, size)
        case _:
            return None


def _page_size(field: str, first: int | None, page: dict[str, object]) -> int:
    if page.get("last") is not None or page.get("before") is not None:
        raise GraphFailure("UNSUPPORTED", f"The emulator pages `{field}` forward only: use `first`.")
    if first is None:
        raise GraphFailure(
            "MISSING_PAGINATION_BOUNDARIES",
            f"You must provide a `first` or `last` value to properly paginate the `{field}` connection.",
        )
    if not 1 <= first <= PAGE_LIMIT:
        raise GraphFailure(
            "EXCESSIVE_PAGINATION",
            f"Requesting {first} records on the `{field}` connection exceeds the `first` limit of 100.",
        )
    return first


def _position_after(cursor: object) -> int:
    if cursor is None:
        return 0
    _, _, position = str(cursor).partition(" ")
    if not position.isascii() or not position.isdigit():
        raise GraphFailure("INVALID_CURSOR_ARGUMENTS", f"`{cursor}` does not appear to be a valid cursor.")
    return int(position) + 1
