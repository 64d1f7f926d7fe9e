"""Every error we raise.

HoldfastError
├── InvalidCheckpoint        the caller's data is wrong: the place and the reason
│   ├── MalformedJson            the text is not the JSON that we keep: the byte where it shows
│   ├── CheckpointTooLarge       more than the limit: the number of bytes and the limit
│   └── CheckpointChanged        this checkpoint_id is known already, with other content
├── InvalidSettings          the configuration is wrong: every problem at once
├── SpoolError               the local disk did not do what we asked
│   ├── SpoolUnwritable          disk full, read-only, input/output error: nothing was acknowledged
│   │   ├── DiskFailed               a write was not confirmed: nothing is stored until we are started again
│   │   └── DatabaseAway             the shared queue's PostgreSQL does not answer, or refuses
│   ├── SpoolFull                the spool has reached its own limit
│   ├── SpoolBusy                another process is draining this spool
│   └── SpoolDamaged             stored bytes do not match their digest
├── Stopped                  we were asked to stop; what is not done stays in the spool
├── DecisionRefused          the run is not such that this can be decided: preserved, nothing waits, …
├── Claimed                  someone else drives the run: who, and until when
├── Fenced                   the run was taken over: what is saved with the older fence comes too late
├── SweepBusy                another process is cleaning up this repository
├── UnknownRun               no such run or checkpoint, neither stored nor spooled
│   └── RunArchived              of its checkpoints only a summary is left
├── IntegrityFailure         a stored file is not what was written: the file and the reason
│   ├── NewerFormat              it is whole, but a newer Holdfast wrote it: the version
│   └── NotInCopy                nobody knows: GitHub is away, and the local copy does not have it
├── KeyMissing               a state is sealed with a key that is not here: the file and the key's id
└── GatewayError             GitHub did not do what we asked
    ├── Missing                  no such file, commit, branch or repository (or no right to see it)
    ├── Conflict                 someone wrote first: read, merge, write again
    ├── Refused                  a person must act: token, permission, rules, content
    ├── Throttled                GitHub, or our own budget, says when to come back
    ├── Unavailable              no clear answer: the write may have landed
    │   └── Silent                   no answer for as long as we wait: to ask again at once is of no use
    ├── ClaimNotShown            a checkpoint has the fence of a claim that is not there, or not yet
    └── Unverified               what was written does not read back as it was sent
"""

from typing import Literal, NamedTuple

ConflictKind = Literal["stale_file", "head_moved", "exists"]
RefusalKind = Literal[
    "auth",
    "permission",
    "not_found_or_no_access",
    "protected_branch",
    "rules",
    "secret_detected",
    "obstructed",
    "invalid",
]
ThrottleKind = Literal["primary", "secondary", "own_budget"]


RemedyKind = Literal["runs", "checkpoints", "summary", "set_aside", "force", "review", "fork"]


class Remedy(NamedTuple):
    """What can be done about an error: each door has its own command or call for it."""

    kind: RemedyKind
    run_id: str = ""


class HoldfastError(Exception):
    """The root of every error that Holdfast raises on purpose."""

    remedy: Remedy | None = None


class InvalidCheckpoint(HoldfastError):
    """What the caller handed in cannot be a checkpoint: `place` names where, `reason` says why."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}" if place else reason)
        self.place = place
        self.reason = reason


class MalformedJson(InvalidCheckpoint):
    """The text cannot be kept as JSON: syntax, encoding, depth, a name given twice, at a byte."""


class CheckpointTooLarge(InvalidCheckpoint):
    """The checkpoint has `size_bytes`, which is more than `limit_bytes`."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            "",
            f"the checkpoint has {size_bytes:,} bytes and the limit is {limit_bytes:,}; "
            "keep large outputs elsewhere and store a reference to them",
        )
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class CheckpointChanged(InvalidCheckpoint):
    """This `checkpoint_id` was accepted before, with other content."""

    def __init__(self, checkpoint_id: str) -> None:
        super().__init__(
            "checkpoint_id",
            f"{checkpoint_id} was accepted before with other content; give the new state a new checkpoint_id",
        )


class InvalidSettings(HoldfastError):
    """The configuration cannot be used; `problems` lists all that is wrong with it."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class SpoolError(HoldfastError):
    """The spool could not do what was asked; nothing was acknowledged."""


class SpoolUnwritable(SpoolError):
    """The disk refuses to take more: full, read-only or failing."""


class DiskFailed(SpoolUnwritable):
    """The disk failed to confirm a write, and what it says after that cannot be trusted: start again."""


class DatabaseAway(SpoolUnwritable):
    """The PostgreSQL of the shared queue, `database`, cannot be used for now: nothing was stored there."""

    def __init__(self, database: str, reason: str) -> None:
        super().__init__(f"{database} cannot be used: {reason}")
        self.reason = reason


class SpoolFull(SpoolError):
    """The spool has reached the limit that was set for it."""


class SpoolBusy(SpoolError):
    """Another process is draining this spool; to ask again is of use after `retry_in_s`, if that is known."""

    def __init__(self, reason: str, *, retry_in_s: float | None = None) -> None:
        super().__init__(reason)
        self.retry_in_s = retry_in_s


class SpoolDamaged(SpoolError):
    """Bytes in the spool are not the bytes that were stored."""


class Stopped(HoldfastError):
    """We were asked to stop before this could be done; it stays in the spool."""


class DecisionRefused(HoldfastError):
    """The run is not such that this can be decided; `code` says why, for programs."""

    def __init__(self, code: str, reason: str, remedy: Remedy | None = None) -> None:
        super().__init__(reason)
        self.code = code
        self.remedy = remedy


class Claimed(HoldfastError):
    """Someone else drives the run: `owner`, until `expires_at` at least, in epoch seconds of the judge."""

    def __init__(self, run_id: str, owner: str, expires_at: float, *, left_s: float = 0.0) -> None:
        super().__init__(
            f"run {run_id!r} is driven by {owner!r}, for {max(0.0, left_s):.0f} s unless renewed"
        )
        self.run_id = run_id
        self.owner = owner
        self.expires_at = expires_at
        self.left_s = left_s


class Fenced(HoldfastError):
    """Whoever saves with `fence` does not drive the run any more; `current` is the newest fence, if known."""

    def __init__(self, run_id: str, reason: str, *, fence: int = 0, current: int = 0) -> None:
        told = f" (fence {fence})" if fence else ""
        super().__init__(f"run {run_id!r} is not yours any more{told}: {reason}")
        self.run_id = run_id
        self.fence = fence
        self.current = current


class SweepBusy(HoldfastError):
    """Another process on this machine is cleaning up the same repository."""


class UnknownRun(HoldfastError):
    """The run, or the checkpoint of it that was asked for, is neither stored nor spooled."""

    def __init__(self, reason: str, remedy: Remedy | None = None) -> None:
        super().__init__(reason)
        self.remedy = remedy


class RunArchived(UnknownRun):
    """Retention has archived the run: only its summary is left."""


class IntegrityFailure(HoldfastError):
    """The file at `path` is not what Holdfast wrote: `reason` says how that shows."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class NewerFormat(IntegrityFailure):
    """The checkpoint at `path` is of a format that only a newer Holdfast reads."""

    def __init__(self, path: str, version: object, known: int) -> None:
        super().__init__(path, f"format {version} is newer than this Holdfast reads ({known}); upgrade it")
        self.version = version


class NotInCopy(IntegrityFailure):
    """The file at `path` cannot be looked at: the local copy, which stands in for GitHub, lacks it."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "it is not in the local copy")


class KeyMissing(HoldfastError):
    """The state at `path` is sealed with the key `kid`, which is not here, or only its public half."""

    def __init__(self, path: str, kid: str, *, is_public_here: bool) -> None:
        if is_public_here:
            reason = (
                f"it is sealed for key {kid}, of which only the public half is here: this is a writer that "
            )
            advice = "cannot read; set HOLDFAST_ENCRYPTION_KEY to the private key where it is to be read"
        else:
            reason = f"it is sealed with key {kid}, which is not here; "
            advice = "add that key to HOLDFAST_ENCRYPTION_KEY, after the one that seals"
        super().__init__(f"{path}: {reason}{advice}")
        self.is_public_here = is_public_here
        self.path = path
        self.kid = kid


class GatewayError(HoldfastError):
    """GitHub did not do what we asked of `path`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.reason = reason


class Missing(GatewayError):
    """There is nothing at `path`, or the token may not see it: GitHub answers 404 for both."""


class Conflict(GatewayError):
    """Someone wrote first; `kind` says what clashes: a file, only the branch, or a file meant to be new."""

    def __init__(self, path: str, reason: str, kind: ConflictKind) -> None:
        super().__init__(path, reason)
        self.kind = kind


class Refused(GatewayError):
    """GitHub will not do this until a person acts; `advice` says what to do."""

    def __init__(self, path: str, reason: str, kind: RefusalKind, advice: str) -> None:
        super().__init__(path, reason)
        self.kind = kind
        self.advice = advice


class Throttled(GatewayError):
    """We are to stay away from `resource` for `retry_after_s` seconds."""

    def __init__(
        self, path: str, reason: str, *, kind: ThrottleKind, retry_after_s: float, resource: str = "core"
    ) -> None:
        super().__init__(path, reason)
        self.kind = kind
        self.retry_after_s = retry_after_s
        self.resource = resource


class Unavailable(GatewayError):
    """GitHub gave no clear answer; what was to be written may have been written.

    `is_late` says that there was none at all in the time that was given for it.
    """

    def __init__(self, path: str, reason: str, *, is_late: bool = False) -> None:
        super().__init__(path, reason)
        self.is_late = is_late


class Silent(Unavailable):
    """GitHub did not answer for as long as we wait, however often it was asked."""


class ClaimNotShown(GatewayError):
    """A checkpoint of `run_id` has the fence of a claim that is not there, or not shown yet: look again."""

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__("", f"run {run_id!r} waits for a second look at its claim: {reason}")
        self.run_id = run_id


class Unverified(GatewayError):
    """What was written to `path` does not read back as it was sent, or not yet."""
