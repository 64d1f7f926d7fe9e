"""Steps: one after the other, saved before and after each, when one fails and when a signal comes."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.format.checkpoint import RunStatus
from holdfast.styles.outlook import Outlook, Saved, Today, as_index, as_mapping, as_sequence, name_all

_MOST_LOOKED_AT = 10_000
_KINDS = ("before_step", "completed", "failed", "interrupted")


@dataclass(frozen=True, slots=True)
class _Point:
    """The step to start at, and whether it is one that was begun before."""

    start: int
    retry_current: bool
    flaws: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def plan(saved: Saved, _today: Today) -> Outlook:
    """Return the step to start at: the one that was about to run, failed or was cut off, else the next."""
    completed, flaws = _completed(saved)
    point = _point(saved, completed)
    return Outlook(
        resume_at=point.start,
        completed=completed,
        remaining=_remaining(saved, point.start, completed),
        retry_current=point.retry_current,
        flaws=(*flaws, *point.flaws, *_contradictions(saved, point.start, completed)),
        warnings=point.warnings,
    )


def _completed(saved: Saved) -> tuple[tuple[int, ...], tuple[str, ...]]:
    stored = saved.progress.get("completed_steps", [])
    records = as_sequence(stored)
    indexes = [as_index(as_mapping(record).get("step_index")) for record in records]
    is_whole = isinstance(stored, list) and None not in indexes
    done = [index for index in indexes if index is not None]
    state = as_mapping(saved.progress.get("state"))
    last = as_index(state.get("step_index"))
    if state.get("kind") == "completed" and last is not None:
        done.append(last)
    flaw = "progress.completed_steps has entries without a step_index: those are not taken as completed"
    return tuple(dict.fromkeys(done)), () if is_whole else (flaw,)


def _point(saved: Saved, completed: Sequence[int]) -> _Point:
    state = as_mapping(saved.progress.get("state"))
    kind, step = state.get("kind"), as_index(state.get("step_index"))
    if kind not in _KINDS or step is None:
        done = set(completed)
        start = next(index for index in range(len(done) + 1) if index not in done)
        flaw = "progress.state does not say which step it is about"
        return _Point(start, False, flaws=(f"{flaw}: step {start}, the first not completed, was taken",))
    if kind == "completed":
        return _Point(step + 1, False)
    if kind == "interrupted":
        # A step that may have been under way is repeated: skipping it could lose work, repeating cannot.
        is_in_progress = state.get("in_progress", True) is not False
        return _Point(step if is_in_progress else step + 1, is_in_progress)
    if kind == "failed" and state.get("retryable") is not True:
        error = f" ({state['error']})" if isinstance(state.get("error"), str) else ""
        advice = "it is not repeated by itself; look into it before the run goes on"
        return _Point(
            step, False, warnings=(f"step {step} failed and is not marked as retryable{error}: {advice}",)
        )
    return _Point(step, True)


def _remaining(saved: Saved, start: int, completed: Sequence[int]) -> tuple[int, ...] | None:
    """Return the steps from the start on, as far as the checkpoint knows them; None if it knows none of them.

    It may know them as `total_steps`, or as `steps`, a list that can grow while the run goes on.
    """
    if saved.status is RunStatus.COMPLETED:
        return ()
    total = as_index(saved.progress.get("total_steps"))
    if total is not None and total - start > _MOST_LOOKED_AT:
        return None
    if total is None:
        total = len(as_sequence(saved.progress.get("steps"))) or None
        if total is None or total <= start:
            return None
    if _is_iterative(saved):
        return tuple(range(start, total))
    done = set(completed)
    return tuple(index for index in range(start, total) if index == start or index not in done)


def _contradictions(saved: Saved, start: int, completed: Sequence[int]) -> tuple[str, ...]:
    """Say where the completed steps do not fit the state. In an iteration they repeat, so none is strange."""
    if _is_iterative(saved):
        return ()
    settled = {*completed, *_given_up(saved)}
    missing = [index for index in range(min(start, _MOST_LOOKED_AT)) if index not in settled]
    flaws = (
        [f"the run is at step {start}, but these are not completed: {name_all(missing)}"] if missing else []
    )
    if start in completed:
        flaws.append(f"step {start} is to run although it is among the completed ones")
    return tuple(flaws)


def _given_up(saved: Saved) -> list[int]:
    """Return the steps that failed for good, and that the run went on without."""
    failures = [as_mapping(failure) for failure in as_sequence(saved.progress.get("failed_steps"))]
    indexes = [as_index(each.get("step_index")) for each in failures if each.get("retryable") is False]
    return [index for index in indexes if index is not None]


def _is_iterative(saved: Saved) -> bool:
    return as_mapping(saved.progress.get("workflow_type")).get("kind") == "iterative"
