"""Puts back what was written to a branch between a look at it and its move to another history."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.clock import Deadline
from holdfast.errors import Conflict, GatewayError, IntegrityFailure, Refused
from holdfast.format.index import parse_index
from holdfast.format.paths import INDEX, LATEST
from holdfast.github.calls import Gateway, ReadBlob, ReadHead, ReadTree
from holdfast.github.inspection import ReadCommit
from holdfast.github.wrappers.retrying import CHANGE_ATTEMPTS, repeat
from holdfast.github.write_calls import MoveBranch, WriteCommit, WriteTree
from holdfast.logs import log

Blobs = Mapping[str, str]
"""The blob of each file, by path."""


@dataclass(frozen=True)
class Restoring:
    """Carries changes from a history that is no longer on the branch over to the one that is."""

    gateway: Gateway
    branch: str
    deadline: Deadline

    def put_back(self, before_sha: str, after_sha: str) -> None:
        """Write to the branch, as it stands now, what changed from one commit to a later one."""
        before, after = self._files_at(before_sha), self._files_at(after_sha)
        changed = {path: sha for path, sha in after.items() if before.get(path) != sha}
        gone = {path for path in before if path not in after}

        def attempt() -> None:
            head_sha = self.gateway.perform(ReadHead(self.branch))
            now = self._files_at(head_sha)
            files: dict[str, str | None] = {
                path: self._merged(path, before.get(path), sha, now.get(path))
                for path, sha in changed.items()
            }
            files |= {path: None for path in gone if now.get(path) == before[path]}
            base_sha = self.gateway.perform(ReadCommit(head_sha)).tree_sha
            tree_sha = self.gateway.perform(WriteTree(files, base_sha))
            message = f"Put back what came in while the history was squashed\n\nUp to {after_sha}"
            self.gateway.perform(
                MoveBranch(self.branch, self.gateway.perform(WriteCommit(tree_sha, message, (head_sha,))))
            )

        def note(number: int, error: GatewayError) -> None:
            log.info("putting_back_repeated", attempt=number, cause=str(error))

        repeat(attempt, attempts=CHANGE_ATTEMPTS, deadline=self.deadline, note=note, when=_is_moved)

    def _files_at(self, commit_sha: str) -> dict[str, str]:
        tree = self.gateway.perform(ReadTree(commit_sha, is_recursive=True))
        if not tree.is_complete:
            advice = f"Compare {commit_sha} with the branch by git, and merge it."
            raise Refused(self.branch, "there is more than GitHub lists", "invalid", advice)
        return {entry.path: entry.sha for entry in tree.entries if entry.kind == "file"}

    def _merged(self, path: str, before: str | None, wanted: str, now: str | None) -> str:
        """Return what a file has to hold: what was written, merged with what has been written since."""
        content = self.gateway.perform(ReadBlob(wanted))
        name = path.rpartition("/")[2]
        if now in (None, before, wanted) or name not in (INDEX, LATEST):
            return content.decode()
        since = self.gateway.perform(ReadBlob(now or wanted))
        return (_unite(content, since, path) if name == INDEX else since).decode()


def _unite(content: bytes, since: bytes, path: str) -> bytes:
    """Return an index that names what both of them name."""
    try:
        index = parse_index(since, path)
        return index.with_entries(
            parse_index(content, path).entries, workflow=None, now=index.last_updated
        ).to_bytes()
    except IntegrityFailure:
        return content


def _is_moved(error: GatewayError) -> bool:
    return isinstance(error, Conflict) or (isinstance(error, Refused) and error.kind == "invalid")
