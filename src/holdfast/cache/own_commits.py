"""How our own commits left the runs: what the local copy still knows of them, if nobody else has written.

Decisions alone; `local_copy` keeps what comes of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from holdfast.format.file_list import FileList
from holdfast.format.paths import INDEX, LATEST
from holdfast.format.run_snapshot import RemoteFile

# The index names older files as well, with their blobs.
MAX_FILES_OF_OUR_WRITES = 200


class OwnCommit(NamedTuple):
    """A commit of ours, and the one that it was made on, "" if that is not known."""

    commit_sha: str
    parent_sha: str


class Lineage(NamedTuple):
    """Commits of ours, each made on the one before, by the name of the first, and the last of them."""

    name: str
    commit_sha: str

    def to_bytes(self) -> bytes:
        """Return the record of it."""
        return orjson.dumps(tuple(self))


@dataclass(slots=True)
class RunWrite:
    """What a commit of ours wrote to, or (None) deleted from, the folder of a run.

    Files of one checkpoint need not be among them: the index, which always follows, names them.
    """

    files: dict[str, RemoteFile | None] = field(default_factory=dict)
    highest_number: int = 0


class Ends(NamedTuple):
    """`index.json` and `latest.json` of a run, as of a commit; none is named if that is not known.

    No file has a checkpoint with a higher number than `highest_number`; None if that is not known. `lineage`
    names the commits of ours, without any of others between them, of which the last to the run is one.
    """

    commit_sha: str
    files: Mapping[str, RemoteFile]
    highest_number: int | None = None
    file_count: int = 0
    lineage: str = ""

    def after(self, written: RunWrite, commit: OwnCommit, lineage: str) -> "Ends":
        """Return the same after a commit of ours."""
        changed = {name: file for name, file in written.files.items() if name in (INDEX, LATEST)}
        files = {name: file for name, file in {**self.files, **changed}.items() if file is not None}
        if not self.commit_sha or self.commit_sha != commit.parent_sha:
            return Ends("", files, None, self.file_count)
        highest = None if self.highest_number is None else max(self.highest_number, written.highest_number)
        return Ends(commit.commit_sha, files, highest, self.file_count, lineage)

    def as_of(self, lineage: Lineage | None) -> "Ends":
        """Return the same as of the last of our commits, if all that was committed since is our own."""
        is_current = lineage is not None and self.lineage == lineage.name
        return self._replace(commit_sha=lineage.commit_sha) if lineage and is_current else self

    def to_bytes(self) -> bytes:
        """Return the record of them."""
        counts = (self.highest_number, self.file_count)
        return orjson.dumps((self.commit_sha, record_files(self.files), *counts, self.lineage))


def follow(known: Lineage | None, commit: OwnCommit) -> Lineage:
    """Return the lineage that a commit of ours goes on, or begins if others have written before it."""
    is_next = known is not None and commit.parent_sha == known.commit_sha
    return Lineage(known.name if known and is_next else commit.commit_sha, commit.commit_sha)


def read_lineage(stored: bytes) -> Lineage:
    """Return the lineage that a record is of."""
    return Lineage(*orjson.loads(stored))


def read_ends(stored: bytes) -> Ends:
    """Return the ends that a record is of."""
    commit_sha, files, highest_number, file_count, lineage = orjson.loads(stored)
    return Ends(commit_sha, read_files(files), highest_number, file_count, lineage)


def record_files(files: Mapping[str, RemoteFile]) -> dict[str, tuple[str, int]]:
    """Return a record of files by name."""
    return {name: (file.sha, file.size_bytes) for name, file in files.items()}


def read_files(record: Any) -> dict[str, RemoteFile]:
    """Return the files that a record is of."""
    return {name: RemoteFile(*file) for name, file in record.items()}


def files_after(
    known: Mapping[str, RemoteFile], written: Mapping[str, RemoteFile | None]
) -> dict[str, RemoteFile]:
    """Return the files of a run after our own write: of one that has many, only the newest of ours."""
    files = _recent(known)
    for name, file in written.items():
        files.pop(name, None)
        if file is not None:
            files[name] = file
    excess = len(files) - MAX_FILES_OF_OUR_WRITES
    droppable = [name for name in files if name not in (INDEX, LATEST)]
    for name in droppable[: max(0, excess)]:
        del files[name]
    return files


def _recent(files: Mapping[str, RemoteFile]) -> dict[str, RemoteFile]:
    """Return the files of a run; of one that has many, those that the index does not name."""
    if isinstance(files, FileList) and len(files) > MAX_FILES_OF_OUR_WRITES:
        return files.beside_checkpoints()
    return dict(files.items())
