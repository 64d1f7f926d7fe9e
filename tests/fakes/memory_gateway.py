"""A repository in memory that answers our calls as GitHub does, with git's own blob SHAs.

Tests can look into it, let someone else write to it, and make it fail before or after it did what was asked.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import singledispatchmethod
from typing import Any, TypeVar

from holdfast.errors import Conflict, GatewayError, Missing, Refused
from holdfast.format.git_ids import blob_sha
from holdfast.format.moments import epoch
from holdfast.github.calls import (
    NO_GRAPHQL,
    Call,
    ListFolder,
    ReadBlob,
    ReadBlobs,
    ReadFile,
    ReadHead,
    ReadHeadIfChanged,
    ReadPage,
    ReadTree,
)
from holdfast.github.inspection import (
    HISTORY_PAGE,
    CommitRecord,
    CountCommits,
    ReadCommit,
    ReadHistory,
    ReadReplacedHead,
    ReadRepository,
    RepositoryRecord,
)
from holdfast.github.results import File, HeadReading, Listing, ListingEntry, Page, Signature
from holdfast.github.write_calls import (
    CommitFiles,
    CreateBranch,
    DeleteFile,
    MoveBranch,
    ReplaceBranch,
    Revision,
    WriteCommit,
    WriteFile,
    WriteTree,
)

ResultT = TypeVar("ResultT")

Tree = Mapping[str, str]
"""The blob of every path, folders or not."""


@dataclass(frozen=True)
class _Failure:
    kind: type[Call[Any]]
    error: GatewayError
    is_applied: bool
    when: Callable[[Any], bool]


class MemoryGateway:
    """Performs every call on a repository in memory, which is empty at first; `calls` lists them."""

    def __init__(self, *, default_branch: str = "main", has_graphql: bool = True) -> None:
        self.calls: list[Call[Any]] = []
        self.branches: dict[str, str] = {}
        self.has_graphql = has_graphql
        self.date = "2027-01-15T08:00:00Z"
        self.secret: bytes | None = None
        self._default_branch = default_branch
        self._blobs: dict[str, bytes] = {}
        self._trees: dict[str, Tree] = {}
        self._commits: dict[str, CommitRecord] = {}
        self._failures: list[_Failure] = []
        self._replaced: dict[tuple[str, str], str] = {}

    def perform(self, call: Call[ResultT]) -> ResultT:
        self.calls.append(call)
        self._refuse_secret(call)
        failure = self._take_failure(call)
        if failure and not failure.is_applied:
            raise failure.error
        if not failure:
            result: ResultT = self._answer(call)
            return result
        with suppress(GatewayError):
            self._answer(call)
        raise failure.error

    def fail_next(
        self,
        kind: type[Call[Any]],
        error: GatewayError,
        *,
        is_applied: bool = False,
        times: int = 1,
        when: Callable[[Any], bool] = lambda _: True,
    ) -> None:
        """Answer the next call of this kind with `error`, or the next `times`, if `when` says so of it.

        With `is_applied` it does what was asked all the same: an answer that got lost.
        """
        self._failures += [_Failure(kind, error, is_applied, when)] * times

    def forget_failures(self) -> None:
        """Answer everything again as it should be."""
        self._failures.clear()

    def count(self, kind: type[Call[Any]]) -> int:
        """Return how many calls of this kind came in."""
        return sum(isinstance(call, kind) for call in self.calls)

    def files(self, branch: str) -> dict[str, bytes]:
        """Return every file of the branch; none if there is no such branch."""
        if branch not in self.branches:
            return {}
        return {path: self._blobs[sha] for path, sha in self._tree_at(self.branches[branch]).items()}

    def history(self, branch: str) -> list[CommitRecord]:
        """Return the branch's commits, the newest first, along the first parents."""
        return self._walk(self.branches.get(branch))

    def _walk(self, sha: str | None) -> list[CommitRecord]:
        commits = []
        while sha:
            commits.append(self._commits[sha])
            sha = next(iter(self._commits[sha].parent_shas), None)
        return commits

    def write_as_someone_else(self, branch: str, files: Mapping[str, bytes | None]) -> str:
        """Commit files (None deletes one) as another writer would, and return the commit's SHA."""
        parent = self.branches.get(branch)
        tree = dict(self._tree_at(parent)) if parent else {}
        for path, content in files.items():
            if content is None:
                del tree[path]
            else:
                tree[path] = self._keep_blob(content)
        return self._advance(branch, tree, "Someone else's commit")

    def _refuse_secret(self, call: Call[Any]) -> None:
        """Refuse what has the secret in it, as push protection does."""
        contents: dict[str, bytes] = {}
        if isinstance(call, WriteFile):
            contents = {call.path: call.content}
        elif isinstance(call, CommitFiles):
            contents = {"graphql": b"".join(call.additions.values())}
        for path, content in contents.items():
            if self.secret and self.secret in content:
                raise Refused(path, "Secret detected in content", "secret_detected", "Remove it.")

    def _take_failure(self, call: Call[Any]) -> _Failure | None:
        for failure in self._failures:
            if isinstance(call, failure.kind) and failure.when(call):
                self._failures.remove(failure)
                return failure
        return None

    def _keep_blob(self, content: bytes) -> str:
        sha = blob_sha(content)
        self._blobs[sha] = content
        return sha

    def _keep_tree(self, tree: Tree) -> str:
        """Keep the tree and those of all its folders."""
        for folder in {path.split("/", 1)[0] for path in tree if "/" in path}:
            self._keep_tree(_below(tree, folder))
        sha = _tree_sha(tree)
        self._trees[sha] = dict(tree)
        return sha

    def _keep_commit(
        self,
        tree_sha: str,
        message: str,
        parents: tuple[str, ...],
        author: Signature | None = None,
        committer: Signature | None = None,
    ) -> str:
        text = f"{tree_sha}\n{parents}\n{message}\n{len(self._commits)}"
        sha = hashlib.sha1(text.encode()).hexdigest()
        someone = Signature("Someone", "someone@example.com", self.date)
        self._commits[sha] = CommitRecord(
            sha, tree_sha, parents, message, author or someone, committer or author or someone
        )
        return sha

    def _advance(self, branch: str, tree: Tree, message: str) -> str:
        parents = (self.branches[branch],) if branch in self.branches else ()
        self.branches[branch] = self._keep_commit(self._keep_tree(tree), message, parents)
        return self.branches[branch]

    def _head(self, branch: str) -> str:
        if branch not in self.branches:
            raise Missing(branch, "there is no such branch")
        return self.branches[branch]

    def _tree_at(self, ref: str) -> Tree:
        sha = self.branches.get(ref, ref)
        if sha not in self._commits:
            raise Missing(ref, "there is no such branch or commit")
        return self._trees[self._commits[sha].tree_sha]

    def _refuse_if_empty(self) -> None:
        if not self._commits:
            raise Conflict("", "the repository is empty", kind="exists")

    @singledispatchmethod
    def _answer(self, call: Any) -> Any:
        raise NotImplementedError(type(call).__name__)

    @_answer.register
    def _read_repository(self, call: ReadRepository) -> RepositoryRecord:
        name = "memory/repository"
        return RepositoryRecord(
            name, self._default_branch, f"https://github.test/{name}", can_write=True, node_id="R_1"
        )

    @_answer.register
    def _read_file(self, call: ReadFile) -> File:
        sha = self._tree_at(call.ref).get(call.path)
        if sha is None:
            raise Missing(call.path, "there is no such file")
        return File(self._blobs[sha], sha)

    @_answer.register
    def _list_folder(self, call: ListFolder) -> Listing:
        tree = _below(self._tree_at(call.ref), call.path) if call.path else self._tree_at(call.ref)
        if not tree:
            raise Missing(call.path, "there is no such folder")
        entries = tuple(self._list(tree))
        return Listing(entries[:1000], is_complete=len(entries) < 1000)

    @_answer.register
    def _read_tree(self, call: ReadTree) -> Listing:
        name = self.branches.get(call.sha, call.sha)
        sha = self._commits[name].tree_sha if name in self._commits else name
        if sha not in self._trees:
            raise Missing(call.sha, "there is no such tree")
        return Listing(tuple(self._list(self._trees[sha], is_recursive=call.is_recursive)), is_complete=True)

    def _list(self, tree: Tree, *, is_recursive: bool = False, prefix: str = "") -> Iterator[ListingEntry]:
        for name in sorted({path.split("/", 1)[0] for path in tree}):
            if name in tree:
                yield ListingEntry(prefix + name, "file", tree[name], len(self._blobs[tree[name]]))
                continue
            folder = _below(tree, name)
            yield ListingEntry(prefix + name, "folder", _tree_sha(folder))
            if is_recursive:
                yield from self._list(folder, is_recursive=True, prefix=f"{prefix}{name}/")

    @_answer.register
    def _read_blob(self, call: ReadBlob) -> bytes:
        if call.sha not in self._blobs:
            raise Missing(call.sha, "there is no such blob")
        return self._blobs[call.sha]

    @_answer.register
    def _read_head(self, call: ReadHead) -> str:
        return self._head(call.branch)

    @_answer.register
    def _read_head_if_changed(self, call: ReadHeadIfChanged) -> HeadReading:
        sha = self._head(call.branch)
        etag = f'W/"{sha}"'
        return HeadReading(None if call.etag == etag else sha, etag)

    @_answer.register
    def _read_commit(self, call: ReadCommit) -> CommitRecord:
        if call.sha not in self._commits:
            raise Missing(call.sha, "there is no such commit")
        return self._commits[call.sha]

    @_answer.register
    def _write_file(self, call: WriteFile) -> Revision:
        branch = call.branch or self._default_branch
        tree = dict(self._tree_at(self._head(branch))) if self._commits or call.branch else {}
        found = tree.get(call.path)
        if found and call.expected_sha is None:
            raise Conflict(call.path, "the file exists", kind="exists")
        if found and found != call.expected_sha:
            raise Conflict(call.path, "the file is another one by now", kind="stale_file")
        tree[call.path] = self._keep_blob(call.content)
        parent = self.branches.get(branch, "")
        return Revision(self._advance(branch, tree, call.message), {call.path: tree[call.path]}, parent)

    @_answer.register
    def _delete_file(self, call: DeleteFile) -> Revision:
        tree = dict(self._tree_at(self._head(call.branch)))
        if call.path not in tree:
            raise Missing(call.path, "there is no such file")
        if tree.pop(call.path) != call.expected_sha:
            raise Conflict(call.path, "the file is another one by now", kind="stale_file")
        parent = self.branches[call.branch]
        return Revision(self._advance(call.branch, tree, call.message), parent_sha=parent)

    @_answer.register
    def _write_tree(self, call: WriteTree) -> str:
        self._refuse_if_empty()
        if call.base_tree_sha is not None and call.base_tree_sha not in self._trees:
            raise Missing(call.base_tree_sha, "there is no such tree")
        tree = dict(self._trees[call.base_tree_sha]) if call.base_tree_sha else {}
        for path, text in call.files.items():
            if text is not None:
                tree[path] = self._keep_blob(text.encode())
            elif tree.pop(path, None) is None:
                raise Refused(path, "there is no such file", kind="invalid", advice="Delete what is there.")
        return self._keep_tree(tree)

    @_answer.register
    def _write_commit(self, call: WriteCommit) -> str:
        self._refuse_if_empty()
        if call.tree_sha not in self._trees:
            raise Missing(call.tree_sha, "there is no such tree")
        return self._keep_commit(call.tree_sha, call.message, call.parent_shas, call.author, call.committer)

    @_answer.register
    def _create_branch(self, call: CreateBranch) -> None:
        if call.branch in self.branches:
            raise Conflict(call.branch, "the branch exists", kind="exists")
        if call.commit_sha not in self._commits:
            raise Missing(call.branch, "there is no such commit")
        self.branches[call.branch] = call.commit_sha

    @_answer.register
    def _commit_files(self, call: CommitFiles) -> Revision:
        self._refuse_graphql()
        if self._head(call.branch) != call.expected_head_sha:
            raise Conflict(call.branch, "the branch has moved on", kind="head_moved")
        tree = dict(self._tree_at(call.branch))
        for path in call.deletions:
            if tree.pop(path, None) is None:
                raise Conflict(path, "there is no such file to delete", kind="stale_file")
        written = {path: self._keep_blob(content) for path, content in call.additions.items()}
        message = f"{call.headline}\n\n{call.body}" if call.body else call.headline
        return Revision(self._advance(call.branch, tree | written, message), written)

    @_answer.register
    def _read_blobs(self, call: ReadBlobs) -> dict[str, bytes]:
        self._refuse_graphql()
        for sha in call.shas:
            if sha not in self._blobs:
                raise Missing(sha, "there is no such blob")
        return {sha: self._blobs[sha] for sha in call.shas}

    @_answer.register
    def _read_history(self, call: ReadHistory) -> tuple[CommitRecord, ...]:
        if call.sha not in self._commits:
            raise Missing(call.sha, "there is no such commit")
        start = (call.page - 1) * HISTORY_PAGE
        commits = [
            commit
            for commit in self._walk(call.sha)
            if not call.until or (commit.committer and epoch(commit.committer.date) <= epoch(call.until))
        ]
        return tuple(commits[start : start + HISTORY_PAGE])

    @_answer.register
    def _read_replaced_head(self, call: ReadReplacedHead) -> str:
        if (call.branch, call.sha) not in self._replaced:
            raise Missing(call.branch, "there is no such move")
        return self._replaced[call.branch, call.sha]

    @_answer.register
    def _count_commits(self, call: CountCommits) -> int:
        self._refuse_graphql()
        return len(self._walk(self._head(call.branch)))

    @_answer.register
    def _move_branch(self, call: MoveBranch) -> None:
        head = self._head(call.branch)
        if call.commit_sha not in self._commits:
            raise Missing(call.branch, "there is no such commit")
        if not call.is_forced and head not in {commit.sha for commit in self._walk(call.commit_sha)}:
            raise Conflict(call.branch, "the update is not a fast forward", kind="head_moved")
        if call.is_forced:
            self._replaced[call.branch, call.commit_sha] = head
        self.branches[call.branch] = call.commit_sha

    @_answer.register
    def _replace_branch(self, call: ReplaceBranch) -> None:
        self._refuse_graphql()
        if self._head(call.branch) != call.expected_head_sha:
            raise Conflict(call.branch, "the branch has moved on", kind="head_moved")
        self.branches[call.branch] = call.commit_sha

    @_answer.register
    def _read_page(self, call: ReadPage) -> Page:
        self._refuse_graphql()
        head_sha = call.commit_sha or self._head(call.branch)
        tree = self._tree_at(head_sha)
        files = {path: self._file(tree.get(path)) for path in call.paths}
        listed = _names_within if call.is_brief else _within
        folders = {path: found for path in call.paths if (found := listed(tree, path))}
        return Page(head_sha, files, truncated={}, folders=folders)

    def _file(self, sha: str | None) -> File | None:
        return None if sha is None else File(self._blobs[sha], sha)

    def _refuse_graphql(self) -> None:
        if not self.has_graphql:
            raise Missing(NO_GRAPHQL, "the server has no GraphQL")


def _below(tree: Tree, folder: str) -> Tree:
    prefix = f"{folder}/"
    return {path.removeprefix(prefix): sha for path, sha in tree.items() if path.startswith(prefix)}


def _names_within(tree: Tree, folder: str) -> dict[str, str]:
    """Return the names of what is in a folder, be it a file or a folder."""
    return {path.partition("/")[0]: "" for path in _below(tree, folder)}


def _within(tree: Tree, folder: str) -> dict[str, str]:
    """Return the files of a folder, but not those of folders in it."""
    names = {
        path.removeprefix(f"{folder}/"): sha for path, sha in tree.items() if path.startswith(f"{folder}/")
    }
    return {name: sha for name, sha in names.items() if "/" not in name}


def _tree_sha(tree: Tree) -> str:
    return hashlib.sha1(repr(sorted(tree.items())).encode()).hexdigest()
