"""The real assembly over a gateway, a clock and a token of a test's own."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from holdfast.assembly import Assembly
from holdfast.clock import Clock
from holdfast.github.calls import Gateway
from holdfast.github.tokens import TokenSource
from holdfast.ratelimit.limits import Limits
from holdfast.retention.rules import RetentionRules
from holdfast.settings import Settings

BRANCH = "checkpoints"
NO_LIMITS = Limits(write_interval_s=0, content_per_minute=0, content_per_hour=0)


class GivenToken(TokenSource):
    """Gives whatever token stands in a list at present."""

    def __init__(self, token: Sequence[str]) -> None:
        super().__init__(None, None)
        self._given = token

    def token(self) -> str:
        return self._given[0]


def make_assembly(
    folder: Path,
    gateway: Gateway,
    clock: Clock,
    *,
    limits: Limits = NO_LIMITS,
    rules: RetentionRules | None = None,
    stop: threading.Event | None = None,
    token: Sequence[str] = ("token",),
    read_attempts: int = 1,
    jitter: Callable[[], float] = lambda: 1.0,
    **settings: Any,
) -> Assembly:
    """Return the assembly of a process whose data is in `folder`. `settings` may be smaller than users'."""
    rules = rules or RetentionRules()
    given: dict[str, Any] = {
        "repo": "holdfast/checkpoints",
        "branch": BRANCH,
        "data_dir": folder,
        "min_free_bytes": 0,
        "warn_age": float("inf"),
        "write_interval_s": limits.write_interval_s,
        "content_per_minute": limits.content_per_minute,
        "content_per_hour": limits.content_per_hour,
        "low_budget": limits.low_budget,
        "keep_full_runs": rules.full_runs,
        "keep_latest_runs": rules.latest_runs,
        "keep_checkpoints": rules.checkpoints,
        "keep_per_phase": rules.per_phase,
        "keep_days": rules.days,
        "delete_completed": rules.deletes_completed,
        "abandoned_after_days": rules.abandoned_days,
    }
    in_force = Settings()
    vars(in_force).update(given | settings)  # unchecked: tests use times and limits that nobody may set
    assembly = Assembly(
        in_force,
        clock=clock,
        gateway=gateway,
        stop=stop,
        read_attempts=read_attempts,
        jitter=jitter,
    )
    assembly.tokens = GivenToken(token)
    return assembly
