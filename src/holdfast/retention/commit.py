"""Commits a change of many files at once: by GraphQL, else by the git data API, else file by file."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.errors import Conflict, Missing
from holdfast.format.paths import INDEX, LATEST, PARTS
from holdfast.github.calls import NO_GRAPHQL, Gateway, ReadHead
from holdfast.github.inspection import ReadCommit
from holdfast.github.presence import GraphqlPresence
from holdfast.github.write_calls import (
    CommitFiles,
    DeleteFile,
    MoveBranch,
    Revision,
    WriteCommit,
    WriteFile,
    WriteTree,
)
from holdfast.logs import log


@dataclass(frozen=True)
class FileChanges:
    """Files to write and files to delete, by path. `blobs` are those that lie at these paths now."""

    headline: str
    body: str
    write: Mapping[str, bytes]
    delete: tuple[str, ...]
    blobs: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Committer:
    """Makes one commit on top of a head that it is told."""

    gateway: Gateway
    branch: str
    graphql: GraphqlPresence

    def commit(self, head_sha: str, change: FileChanges) -> str:
        """Return the new head. Raises Conflict when the branch is no longer at `head_sha`.

        All of it is there afterwards, or nothing. Only where a server knows no other way, the files are
        changed one by one: the index first, so that it never names what is gone.
        """
        if self.graphql.is_likely:
            try:
                return self._commit_by_graphql(head_sha, change)
            except Missing as error:
                if error.path != NO_GRAPHQL:
                    raise
                self.graphql.miss()
        try:
            return self._commit_by_git_data(head_sha, change)
        except Missing as error:
            log.warning("git_data_missing", cause=str(error), advice="Cleaning up file by file instead.")
        return self._commit_one_by_one(head_sha, change)

    def _commit_by_graphql(self, head_sha: str, change: FileChanges) -> str:
        call = CommitFiles(
            self.branch, head_sha, change.headline, change.body, dict(change.write), change.delete
        )
        commit_sha = self.gateway.perform(call).commit_sha
        self.graphql.find()
        return commit_sha

    def _commit_by_git_data(self, head_sha: str, change: FileChanges) -> str:
        base_sha = self.gateway.perform(ReadCommit(head_sha)).tree_sha
        files: dict[str, str | None] = {path: content.decode() for path, content in change.write.items()}
        tree_sha = self.gateway.perform(WriteTree(files | dict.fromkeys(change.delete), base_sha))
        message = f"{change.headline}\n\n{change.body}" if change.body else change.headline
        commit_sha = self.gateway.perform(WriteCommit(tree_sha, message, (head_sha,)))
        self.gateway.perform(MoveBranch(self.branch, commit_sha))
        return commit_sha

    def _commit_one_by_one(self, head_sha: str, change: FileChanges) -> str:
        for call in self._calls(change):
            if self.gateway.perform(ReadHead(self.branch)) != head_sha:
                raise Conflict(self.branch, "someone wrote to it during the sweep", kind="head_moved")
            try:
                revision: Revision = self.gateway.perform(call)
            except Missing as error:
                raise Conflict(
                    error.path, "someone deleted it during the sweep", kind="head_moved"
                ) from error
            if revision.parent_sha != head_sha:
                raise Conflict(self.branch, "someone wrote to it during the sweep", kind="head_moved")
            head_sha = revision.commit_sha
        return head_sha

    def _calls(self, change: FileChanges) -> Iterator[WriteFile | DeleteFile]:
        for path, content in change.write.items():
            yield WriteFile(path, content, change.headline, self.branch, change.blobs.get(path))
        for path in sorted(change.delete, key=_deletion_order):
            yield DeleteFile(path, change.headline, self.branch, change.blobs[path])


def _deletion_order(path: str) -> tuple[int, str]:
    """Return what sorts files so that none is gone before what refers to it."""
    folder, _, name = path.rpartition("/")
    is_part = folder.endswith(f"/{PARTS}")
    return 3 if is_part else {INDEX: 0, LATEST: 2}.get(name, 1), path
