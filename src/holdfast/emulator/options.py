"""What an emulator can be told: its limits, and the troubles of the account it plays."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.emulator.apps import AppRegistration


@dataclass(frozen=True)
class EmulatorOptions:
    """How one emulator behaves. Limits that are None are off.

    `root` holds each repository as `owner/name.git`; `repo` is made there if it is missing. Any token is
    taken, and none, unless `token` names the only good one; `token_expires` is what is said of its end.
    """

    root: Path
    repo: str = "holdfast/checkpoints"
    token: str | None = None
    token_expires: str | None = None
    app: AppRegistration | None = None
    """The App whose signature and whose installations' tokens are taken, beside `token`."""
    login: str = "holdfast"
    clock: Callable[[], float] = time.time
    clock_offset_s: float = 0.0

    primary_limit: int = 5000
    # Of use to an emulator that is started often: its hour does not begin anew with each process.
    is_hour_fixed: bool = False
    primary_status: int = 403
    content_per_minute: int | None = None
    content_per_hour: int | None = None
    points_per_minute: int | None = None
    graphql_points_per_minute: int | None = None
    secondary_status: int = 403
    secondary_with_retry_after: bool = True

    graphql: bool = True
    api_versions: tuple[str, ...] = ("2022-11-28", "2026-03-10")
    # What GitHub does here is not documented. True: the first file of an empty repository makes the
    # branch it names. False: only the default branch can be made so, any other is 404.
    empty_takes_any_branch: bool = True
    directory_limit: int = 1000
    tree_entry_limit: int = 100_000
    tree_bytes_limit: int = 7_000_000
    commit_payload_limit_bytes: int = 40_000_000

    def now(self) -> float:
        """Return the time that this emulator believes in, in epoch seconds."""
        return self.clock() + self.clock_offset_s


@dataclass(frozen=True)
class Switches:
    """Troubles that a person would have to mend; all off at first.

    `renamed` maps a repository's old full name to its new one: the old is answered by a redirect.
    A commit whose files contain `secret_marker` is refused as by push protection.
    """

    protected_branches: frozenset[str] = frozenset()
    ruled_branches: frozenset[str] = frozenset()
    secret_marker: str | None = None
    read_only: bool = False
    repository_gone: bool = False
    token_revoked: bool = False
    renamed: Mapping[str, str] = field(default_factory=dict)
