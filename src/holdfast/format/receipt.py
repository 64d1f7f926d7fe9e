"""A checkpoint on its way: the item in the spool, and the receipt that its caller holds."""

from dataclasses import dataclass
from enum import StrEnum

from holdfast.format.redacted import Redacted
from holdfast.format.triggers import Priority, Trigger


class Progress(StrEnum):
    """How far a checkpoint has come. These words mean the same everywhere: API, commands, logs."""

    SPOOLED = "spooled"
    COMMITTED = "committed"
    VERIFIED = "verified"
    REFUSED = "refused"
    DISABLED = "disabled"


class Persistence(StrEnum):
    """Whether the way to GitHub is open; `delayed` means safe on this disk, and for now only here."""

    NORMAL = "normal"
    DELAYED = "delayed"


@dataclass(frozen=True, slots=True)
class QueueItem:
    """One checkpoint in the spool. Its content stays on disk until it is sent.

    A number that nobody asked for is automatic: it means that the checkpoint comes after all others.
    """

    checkpoint_id: str
    run_id: str
    sequence: int
    trigger: Trigger
    priority: Priority
    size_bytes: int
    arrived_at: float
    is_automatic: bool = False


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a caller is told of a checkpoint, now and whenever it asks again.

    `redacted` says, to the one who saves, which values were taken out because they are credentials.
    """

    checkpoint_id: str
    run_id: str
    sequence_number: int
    status: Progress
    persistence: Persistence
    file_path: str
    commit_sha: str | None = None
    blob_sha: str | None = None
    reason: str | None = None
    redacted: tuple[Redacted, ...] | None = None


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where a verified checkpoint lies: the file, the blob it is, and a commit that has it."""

    sequence: int
    file_path: str
    blob_sha: str
    commit_sha: str
    ends_run: bool = False
