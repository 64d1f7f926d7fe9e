"""Steps that were recorded without a look at the repository, and how they are joined with what it has.

A machine that cannot reach GitHub, and knows nothing of a run, records what it does all the same. Its
progress is then `unseen`: what others completed before is not in it, and is added once GitHub can be read.
"""

from collections.abc import Mapping
from typing import Any

from holdfast.styles import steps
from holdfast.styles.values import Document, as_mapping, as_sequence

UNSEEN = "unseen"


def is_unseen(state: Any) -> bool:
    """Whether a state was saved by who had not seen what the repository has of its run."""
    return as_mapping(as_mapping(state).get("progress")).get(UNSEEN) is True


def mark(progress: Document, *, unseen: bool) -> Document:
    """Return the progress with or without the mark."""
    rest = {name: value for name, value in progress.items() if name != UNSEEN}
    return {**rest, UNSEEN: True} if unseen else rest


def merge(seen: Document, unseen: Document) -> Document:
    """Return the progress with what is completed in either; a step is known by its name.

    Where both have completed a step, `unseen`, which is the newer, has the last word. What has failed or is
    in progress is that of `unseen` too.
    """
    merged = seen
    for index, name in enumerate(unseen["known_steps"]):
        if isinstance(name, str):
            merged = _take_over(merged, unseen, index, name)
    return {**merged, "variables": {**seen["variables"], **unseen["variables"]}}


def _take_over(merged: Document, unseen: Document, index: int, name: str) -> Document:
    placed, place = steps.place(merged, name)
    record = _record_of(unseen["completed_steps"], index)
    if record is not None:
        done = steps.complete(placed, place, output=None, captured={}, duration_s=0, now="")
        others = [each for each in done["completed_steps"] if each["step_index"] != place]
        return {**done, "completed_steps": [*others, {**record, "step_index": place}]}
    failure = _record_of(unseen["failed_steps"], index)
    if failure is not None:
        error, retryable = str(failure.get("error")), failure.get("retryable") is not False
        output = failure.get("output")
        return steps.fail(placed, place, error=error, is_retryable=retryable, output=output)
    if index in unseen["steps_in_progress"]:
        return steps.begin(placed, place)
    return placed


def _record_of(records: Any, index: int) -> Mapping[str, Any] | None:
    matching = [each for each in map(as_mapping, as_sequence(records)) if each.get("step_index") == index]
    return matching[-1] if matching else None
