"""What we believe the folder of a run to hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.format.checkpoint import Envelope
from holdfast.format.index import Index


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """What we believe a run's folder to hold. `blobs` has the files that we know of, by name.

    An index that was made anew from the files, as there was none or a damaged one, is not stored yet. Where
    retention has left the latest alone, it is `revived`: the index names a file of its own, which is missing.
    """

    index: Index
    index_sha: str | None = None
    latest_sha: str | None = None
    latest_sequence: int = 0
    blobs: Mapping[str, str] = field(default_factory=dict)
    is_index_stored: bool = True
    revived: Envelope | None = None

    @property
    def run_id(self) -> str:
        """Return the run."""
        return self.index.run_id

    @property
    def pruned_through(self) -> int:
        """Return up to which number checkpoints are gone; retention may have left the latest alone."""
        pruned_through = self.index.pruned_through
        return pruned_through if self.index.entries else max(pruned_through, self.latest_sequence)
