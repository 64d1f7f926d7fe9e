"""Reads back what was written in the contents mode, and notices what others changed meanwhile."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from holdfast.drain.write_plan import FileWrite, WritePlan
from holdfast.errors import Conflict, IntegrityFailure, Missing, Unverified
from holdfast.format.index import Index
from holdfast.format.paths import INDEX, LATEST, Layout
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.format.stored_file import open_file
from holdfast.github.calls import Gateway, ReadFile, ReadHead
from holdfast.repository.runs import Runs
from holdfast.tracing import traces

VERIFY_SPAN = "holdfast.verify"


@dataclass(frozen=True)
class Verifier:
    """Compares what GitHub holds of a run with what a write was planned on and what it sent."""

    gateway: Gateway
    runs: Runs
    layout: Layout
    branch: str

    def find(
        self, snapshot: RunSnapshot, merged: Index, files: Sequence[FileWrite], commits: Mapping[str, str]
    ) -> dict[str, str | None]:
        """Return the blob that GitHub holds at each path, read at the commit that our last write made.

        A branch read just after a write can be stale, a commit cannot. A blob's SHA is that of its content,
        so it vouches for the checkpoint_id as well. One file is read whole. One listing answers for many and,
        if someone else has written to the branch, for whether the run is still as the plan has it. Raises
        Conflict when it is not.
        """
        with traces.span(VERIFY_SPAN, {"holdfast.files": len(files)}):
            return self._find(snapshot, merged, files, commits)

    def _find(
        self, snapshot: RunSnapshot, merged: Index, files: Sequence[FileWrite], commits: Mapping[str, str]
    ) -> dict[str, str | None]:
        listable = [file for file in files if not file.is_part]
        is_listed = len(listable) > 1 or (bool(listable) and not self.runs.is_certain(snapshot.run_id))
        try:
            # At the last of these commits: until a checkpoint refers to it, retention may take a part away.
            last = commits[(listable or files)[-1].path]
            found = {
                file.path: self._blob_at(file.path, last if file.is_part else commits[file.path])
                for file in files
                if file.is_part or not is_listed
            }
            if is_listed:
                found |= self._find_listed(snapshot, merged, listable, commits[listable[-1].path])
        except Missing as error:
            raise Unverified(error.path, "what was just written is not visible yet") from error
        return found

    def _blob_at(self, path: str, commit_sha: str) -> str | None:
        return self.gateway.perform(ReadFile(path, commit_sha, is_fresh=True)).blob_sha

    def _find_listed(
        self, snapshot: RunSnapshot, merged: Index, files: Sequence[FileWrite], commit_sha: str
    ) -> dict[str, str | None]:
        listed = self.runs.list_files(snapshot.run_id, commit_sha, is_fresh=True)
        _check_unchanged(snapshot, listed)
        names = {file.path: self.layout.name_of(snapshot.run_id, file.path) for file in files}
        self._check_named(merged, {*listed, *names.values()})
        self.runs.trust(snapshot.run_id, commit_sha)
        return {path: listed.get(name) for path, name in names.items()}

    def check_ours(self, file: FileWrite, found_sha: str | None) -> None:
        """Raise Conflict if what lies in the place of `file` is a sound checkpoint: another writer's."""
        if found_sha is None or file.is_part:
            return
        try:
            open_file(self.runs.read_blob(found_sha), file.path)
        except (IntegrityFailure, Missing):
            return
        raise Conflict(file.path, "another writer has taken this name since", kind="stale_file")

    def check_new_index(self, merged: Index, commit_sha: str) -> None:
        """Raise Conflict if a new `index.json`, written at this commit, names what was removed meanwhile.

        An index that is replaced is compared by its SHA, and retention changes it before it deletes files. A
        new one has no such guard: if anyone has written since its files were seen, they are looked for again.
        """
        if not self.runs.is_certain(merged.run_id):
            self._check_named(merged, self.runs.list_files(merged.run_id, commit_sha, is_fresh=True))
            self.runs.trust(merged.run_id, commit_sha)

    def find_head(self, write_plan: WritePlan) -> str:
        """Return the newest commit. Raises Unverified if it does not show what was there already.

        Such an answer is older than what we have seen: the server lags behind.
        """
        run_id = write_plan.merged.run_id
        commit_sha = self.gateway.perform(ReadHead(self.branch))
        try:
            listed = self.runs.list_files(run_id, commit_sha, is_fresh=True)
        except Missing:
            listed = {}
        for entry in write_plan.entries.values():
            if self.layout.name_of(run_id, entry.file_path) not in listed:
                raise Unverified(entry.file_path, "the newest commit does not show it yet")
        return commit_sha

    def _check_named(self, merged: Index, listed: Container[str]) -> None:
        """Raise Conflict unless all is there that the index names."""
        named = (self.layout.name_of(merged.run_id, entry.file_path) for entry in merged.newest_first())
        for name in chain(named, *merged.outlined_names):
            if name not in listed:
                path = self.layout.path(merged.run_id, name)
                raise Conflict(path, "it was removed meanwhile", kind="stale_file")


def _check_unchanged(snapshot: RunSnapshot, listed: Mapping[str, str]) -> None:
    """Raise Conflict unless `index.json`, its segments and `latest.json` are those that the plan was made on.

    GitHub takes an update of a file that is gone as a new file. An index that retention has removed would
    come back that way, and name files that went with it. A segment that someone has removed would stay lost:
    whoever looks at the folder again makes it anew.
    """
    names = [segment.name for segment in snapshot.index.segments]
    closed = ((name, snapshot.blobs.get(name) or listed.get(name, "")) for name in names)
    for name, sha in ((INDEX, snapshot.index_sha), (LATEST, snapshot.latest_sha), *closed):
        if listed.get(name) != sha:
            raise Conflict(
                f"{snapshot.run_id}/{name}", "it was changed or removed meanwhile", kind="stale_file"
            )
