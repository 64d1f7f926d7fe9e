"""Opens the checkpoint files of one run: proved to be whole, put together from their parts, and unsealed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holdfast.errors import IntegrityFailure, InvalidCheckpoint
from holdfast.format.checkpoint import Envelope
from holdfast.format.part_files import MAX_PARTS_BYTES, Reference
from holdfast.format.parts import join_envelope
from holdfast.format.paths import PARTS, Layout
from holdfast.format.run_snapshot import RemoteFile
from holdfast.format.stored_file import Contents, open_contents
from holdfast.repository.candidates import Candidate
from holdfast.repository.sources import Files, RunSource
from holdfast.repository.understanding import check_owner
from holdfast.security.trust import Trust

# The checkpoints of a batch are asked for one by one, and batches can lie in each other's gaps.
_MOST_BYTES_OPEN = 32 * 1024 * 1024


class Lacking(IntegrityFailure):
    """The file at `path` is whole, but another checkpoint than the one that was expected is in it."""


def warn(warnings: list[str], warning: str) -> None:
    """Add a warning, once."""
    if warning not in warnings:
        warnings.append(warning)


@dataclass
class FileOpener:
    """Opens files of a run. `warnings` grow with what is wrong, `damages` with what is inside of batches."""

    source: RunSource
    layout: Layout
    run_id: str
    trust: Trust
    warnings: list[str]
    damages: list[IntegrityFailure]
    _open: dict[str, tuple[int, Contents]] = field(default_factory=dict)

    def open(self, candidate: Candidate, files: Files) -> Envelope:
        """Return the checkpoint that lies there, whole again. Raises IntegrityFailure."""
        entry, path = candidate.entry, candidate.path_in(self.layout, self.run_id)
        if candidate.name not in files:
            raise IntegrityFailure(path, "the index names it, but it is not there")
        contents = self.contents(path, files[candidate.name])
        envelope = contents.find(candidate.sequence)
        if envelope is None:
            raise Lacking(path, f"it does not hold checkpoint {candidate.sequence}")
        check_owner(envelope, self.run_id, path)
        if entry and entry.checkpoint_id != envelope.checkpoint_id:
            raise IntegrityFailure(path, f"the index says that it holds checkpoint {entry.checkpoint_id}")
        if entry and entry.blob_sha and entry.blob_sha != envelope.blob_sha:
            raise IntegrityFailure(path, "it is not the file that the index names")
        return self.join(envelope, path, is_stamped=candidate.sequence not in contents.unstamped)

    def contents(self, path: str, file: RemoteFile) -> Contents:
        """Return what a file holds. The last ones opened stay open."""
        if path in self._open:
            return self._open[path][1]
        content = self.source.read(path, file)
        contents = open_contents(content, path)
        self.damages.extend(contents.failures)
        for failure in contents.failures:
            warn(self.warnings, str(failure))
        self._open[path] = len(content), contents
        while len(self._open) > 1 and sum(size for size, _ in self._open.values()) > _MOST_BYTES_OPEN:
            del self._open[next(iter(self._open))]
        return contents

    def join(self, envelope: Envelope, path: str, *, is_stamped: bool) -> Envelope:
        """Return a checkpoint put together again from its parts, proved if it must be signed, and opened."""
        self.trust.check(envelope, path)
        if not is_stamped:
            warn(self.warnings, f"{path}: it has no integrity.sha256, so nothing shows that it is whole")
        try:
            joined = join_envelope(envelope, _Allowance(self._read_part), path, self._fetch_parts)
        except (LookupError, TypeError, ValueError, AttributeError, InvalidCheckpoint) as error:
            raise IntegrityFailure(path, f"its list of parts makes no sense: {error!r}") from error
        return self.trust.open(joined, path)

    def _fetch_parts(self, files: Sequence[Reference]) -> None:
        own = f"{self.layout.path(self.run_id, PARTS)}/"
        self.source.fetch_parts([file for file in files if file["$part"].startswith(own)])

    def _read_part(self, path: str) -> bytes:
        run_id, name = self.layout.parse_path(path)
        if run_id != self.run_id or not name.startswith(f"{PARTS}/"):
            raise IntegrityFailure(
                path, f"a checkpoint of run {self.run_id!r} refers to it, but it is no part of it"
            )
        return self.source.read_part(path)


class _Allowance:
    """Reads the parts of one checkpoint, as long as they are not more than any checkpoint can have."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self._read = read
        self._left_bytes = MAX_PARTS_BYTES

    def __call__(self, path: str) -> bytes:
        content = self._read(path)
        self._left_bytes -= len(content)
        if self._left_bytes < 0:
            raise IntegrityFailure(path, f"the parts have more than {MAX_PARTS_BYTES:,} bytes together")
        return content
