"""What a recorder is given: the storage that it saves to, and what its user has chosen."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypedDict

from holdfast import checks
from holdfast.clock import Clock
from holdfast.errors import InvalidCheckpoint
from holdfast.format.checkpoint import Draft
from holdfast.format.receipt import Receipt
from holdfast.styles.resume import ResumePlan

AUTOSAVE_S = 30.0
_MEGABYTE = 1024 * 1024


class Resume(Protocol):
    """Tells where a run goes on. Raises UnknownRun."""

    def __call__(
        self,
        run_id: str,
        *,
        at: int | str | None = None,
        active_lessons: Sequence[Any] | None = None,
        dag: Any = None,
    ) -> ResumePlan:
        """Return the plan, from the checkpoint `at` if one is named.

        It warns where the lessons or the graph that are in force now differ.
        """
        ...


class RunClaim(Protocol):
    """The right to drive a run."""

    def release(self) -> None:
        """Let go of it."""
        ...


def resident_mb() -> float:
    """Return the megabytes in use now; where the system does not tell, the most that ever were."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / _MEGABYTE
    except (OSError, ValueError, IndexError):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (_MEGABYTE if sys.platform == "darwin" else 1024)


def _refuse_claim(run_id: str, _owner: str | None) -> RunClaim:
    raise InvalidCheckpoint("exclusive", f"nobody here can claim {run_id!r}")


@dataclass(frozen=True, slots=True)
class Storage:
    """Where checkpoints go: checked, put on disk, drained to the repository, and resumed from."""

    draft: Callable[[Mapping[str, Any]], Draft]
    put: Callable[[Draft], Receipt]
    resume: Resume
    drain: Callable[[], object]
    clock: Clock
    memory_mb: Callable[[], float] = resident_mb
    claim: Callable[[str, str | None], RunClaim] = _refuse_claim


class RunOptions(TypedDict, total=False):
    """What may be said about a run.

    workflow            its name or path
    work                what there is to do, in order: steps, phases or tasks by name, or lists of task ids
    strict              raise when a checkpoint cannot be saved, instead of only logging it
    autosave_s          seconds between checkpoints in the background, if something has changed; None: never
    on_saved, on_failed called with the receipt, or with the error, after each checkpoint
    drain_at_end        take the checkpoints to the repository when the run ends
    save_at_begin       also save when a phase begins and when an agent sets to work
    cost_limit          in USD: save `cost_threshold` once 80 % of it are spent
    memory_limit_mb     save `memory_pressure` when the process needs more
    confidence_below    of a run of agents: save `confidence_threshold` when one sinks below
    max_recoveries      of a run of agents: how often one that failed is restarted before the run goes back
    exclusive           claim the run: raise Claimed while another process drives it, Fenced once one does
    owner               what others are told of who drives it; this machine and process unless given
    handle_signals      save when SIGINT or SIGTERM comes (only in the main thread)
    working_directory   of a run of steps; the current one unless given
    workflow_type       of a run of steps: standard, iterative, mapreduce, or an object with such a `kind`
    execution_config    of a run in layers
    metadata            of a run of tasks
    """

    workflow: str | None
    work: Sequence[Any]
    strict: bool
    autosave_s: float | None
    on_saved: Callable[[Receipt], object] | None
    on_failed: Callable[[Exception], object] | None
    drain_at_end: bool
    save_at_begin: bool
    cost_limit: float | None
    memory_limit_mb: float | None
    confidence_below: float | None
    max_recoveries: int | None
    exclusive: bool
    owner: str | None
    handle_signals: bool
    working_directory: str | None
    workflow_type: str | Mapping[str, Any]
    execution_config: Mapping[str, Any]
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Options:
    """The choices of a user, with everything that was left open filled in. See RunOptions."""

    workflow: str | None = None
    work: Sequence[Any] = ()
    strict: bool = False
    autosave_s: float | None = AUTOSAVE_S
    on_saved: Callable[[Receipt], object] | None = None
    on_failed: Callable[[Exception], object] | None = None
    drain_at_end: bool = False
    save_at_begin: bool = False
    cost_limit: float | None = None
    memory_limit_mb: float | None = None
    confidence_below: float | None = None
    max_recoveries: int | None = None
    exclusive: bool = False
    owner: str | None = None
    handle_signals: bool = True
    working_directory: str | None = None
    workflow_type: str | Mapping[str, Any] = "standard"
    execution_config: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("autosave_s", "cost_limit", "memory_limit_mb", "confidence_below"):
            if getattr(self, name) is not None and check_number(name, getattr(self, name)) <= 0:
                raise InvalidCheckpoint(name, "Input should be greater than 0")
        if self.max_recoveries is not None:
            try:
                checks.whole_number(least=0)(self.max_recoveries)
            except ValueError as error:
                raise InvalidCheckpoint("max_recoveries", str(error)) from None


def check_number(name: str, value: float) -> float:
    """Return a number that a program hands in, also one of numpy's. Raises InvalidCheckpoint."""
    try:
        return checks.number(value.item() if hasattr(value, "item") else value)
    except ValueError as error:
        raise InvalidCheckpoint(name, f"{error}, not {value!r}") from None
