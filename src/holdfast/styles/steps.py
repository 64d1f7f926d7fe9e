"""Steps: one after the other, saved before and after each, when one fails and when a signal comes.

`state` says where the run goes on. It always points at the first step that is known and not completed, so
that no unfinished step is skipped when several of them run at once, or when the run goes on after a failure.
A step that failed for good is not waited for.

Beside the fields that every run of steps has, the recorder keeps `known_steps` (the names in order, null
where one is not known), `total_steps` if all are, and by index `steps_in_progress` and `failed_steps`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from holdfast.format.header import RunStatus
from holdfast.styles.style import ResumePoint, Saved, Style, Today
from holdfast.styles.values import Document, as_dict, as_index, as_list, as_mapping, as_sequence, name_all

_MOST_LOOKED_AT = 10_000
_KINDS = ("before_step", "completed", "failed", "interrupted")


class _Start(NamedTuple):
    """The step to start at, and whether it is one that was begun before."""

    start: int
    retry_current: bool
    flaws: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def plan(saved: Saved, _today: Today) -> ResumePoint:
    """Return the step to start at: the one that was about to run, failed or was cut off, else the next."""
    completed, flaws = _completed(saved)
    found = _find_start(saved, completed)
    return ResumePoint(
        resume_at=found.start,
        completed=completed,
        remaining=_remaining(saved, found.start, completed),
        retry_current=found.retry_current,
        flaws=(*flaws, *found.flaws, *_contradictions(saved, found.start, completed)),
        warnings=found.warnings,
    )


def state_of(progress: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the state as `{kind, step_index, …}`, also where it is tagged as the specification does it.

    >>> state_of({"state": {"Failed": {"step_index": 3, "retryable": True}}})
    {'kind': 'failed', 'step_index': 3, 'retryable': True}
    """
    state = progress.get("state")
    if isinstance(state, str):
        return {"kind": _snake(state)}
    fields = as_mapping(state)
    if "kind" in fields or len(fields) != 1:
        return fields
    ((tag, inner),) = fields.items()
    return {"kind": _snake(tag), **inner} if isinstance(inner, dict) and _snake(tag) in _KINDS else fields


def _snake(tag: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in tag).strip("_")


def _completed(saved: Saved) -> tuple[tuple[int, ...], tuple[str, ...]]:
    stored = saved.progress.get("completed_steps", [])
    records = as_sequence(stored)
    indexes = [as_index(as_mapping(record).get("step_index")) for record in records]
    is_whole = isinstance(stored, list) and None not in indexes
    done = [index for index in indexes if index is not None]
    state = state_of(saved.progress)
    last = as_index(state.get("step_index"))
    if state.get("kind") == "completed" and last is not None:
        done.append(last)
    flaw = "progress.completed_steps has entries without a step_index: those are not taken as completed"
    return tuple(dict.fromkeys(done)), () if is_whole else (flaw,)


def _find_start(saved: Saved, completed: Sequence[int]) -> _Start:
    state = state_of(saved.progress)
    kind, step = state.get("kind"), as_index(state.get("step_index"))
    if kind not in _KINDS or step is None:
        done = set(completed)
        start = next(index for index in range(len(done) + 1) if index not in done)
        flaw = "progress.state does not say which step it is about"
        return _Start(start, False, flaws=(f"{flaw}: step {start}, the first not completed, was taken",))
    if kind == "completed":
        return _Start(step + 1, False)
    if kind == "interrupted":
        # A step that may have been under way is repeated: skipping it could lose work, repeating cannot.
        is_in_progress = state.get("in_progress", True) is not False
        return _Start(step if is_in_progress else step + 1, is_in_progress)
    if kind == "failed" and state.get("retryable") is not True:
        error = f" ({state['error']})" if isinstance(state.get("error"), str) else ""
        advice = "it is not repeated by itself; look into it before the run goes on"
        return _Start(
            step, False, warnings=(f"step {step} failed and is not marked as retryable{error}: {advice}",)
        )
    return _Start(step, True)


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


def new_progress(
    names: Iterable[str] = (),
    *,
    workflow_path: str | None = None,
    working_directory: str | None = None,
    workflow_type: Mapping[str, Any] | None = None,
) -> Document:
    """Return the progress of a run that has not begun; if steps are named, they are all that there are."""
    known = list(names)
    total = {"total_steps": len(known)} if known else {}
    return {
        "style": "steps",
        "state": _before(0),
        "completed_steps": [],
        "variables": {},
        "workflow_path": workflow_path,
        "working_directory": working_directory,
        "workflow_type": dict(workflow_type or {"kind": "standard"}),
        "mapreduce_state": None,
        "known_steps": known,
        "steps_in_progress": [],
        "failed_steps": [],
        **total,
    }


def restore(stored: Document, fresh: Document) -> Document:
    """Return the stored progress in a new process, where no step is in progress any more.

    Where `fresh` names the steps, a completed one is known by its name, wherever it stands now.
    """
    records = _completed_records(stored)
    wanted = as_list(fresh["known_steps"])
    names = _stored_names(stored, records, wanted)
    progress = {
        **fresh,
        **stored,
        "known_steps": names,
        "completed_steps": records,
        "variables": as_dict(stored.get("variables")),
        "state": dict(state_of({"state": as_dict(stored.get("state"))})) or _before(0),
        "workflow_type": as_dict(stored.get("workflow_type")) or fresh["workflow_type"],
        "workflow_path": fresh["workflow_path"] or stored.get("workflow_path"),
        "working_directory": fresh["working_directory"],
        "steps_in_progress": [],
        "failed_steps": [each for each in as_list(stored.get("failed_steps")) if _is_record(each)],
    }
    if wanted:
        progress["total_steps"] = len(wanted)
    if wanted[: len(names)] == names:
        return {**progress, "known_steps": wanted}
    return progress if names[: len(wanted)] == wanted else _renamed(progress, wanted)


def place(progress: Document, name: str) -> tuple[Document, int]:
    """Return the index of a step by its name, and the progress that knows it.

    A new one takes the first place that has no name yet, or comes last.
    """
    names = list(progress["known_steps"])
    if name in names:
        return progress, names.index(name)
    done = _completed_indexes(progress)
    nameless = [index for index, known in enumerate(names) if known is None and index not in done]
    index = nameless[0] if nameless else len(names)
    names[index : index + 1] = [name]
    total = {"total_steps": len(names)} if "total_steps" in progress else {}
    return {**progress, "known_steps": names, **total}, index


def begin(progress: Document, index: int) -> Document:
    """Return the progress with the step in progress; if it was completed before, it no longer is."""
    begun = {
        **_without(progress, index),
        "completed_steps": [each for each in progress["completed_steps"] if each["step_index"] != index],
    }
    begun["steps_in_progress"] = [*begun["steps_in_progress"], index]
    return _pointing(begun, _before(index))


def complete(
    progress: Document, index: int, *, output: Any, captured: Mapping[str, Any], duration_s: float, now: str
) -> Document:
    """Return the progress with the step completed and what it captured among the variables."""
    record = {
        "step_index": index,
        "command": progress["known_steps"][index],
        "output": output,
        "captured_variables": dict(captured),
        "duration_s": duration_s,
        "completed_at": now,
    }
    completed = {
        **_without(progress, index),
        "completed_steps": [*progress["completed_steps"], record],
        "variables": {**progress["variables"], **captured},
    }
    # Steps that run at once end in any order: what follows may be completed already.
    records = {each["step_index"]: each for each in completed["completed_steps"]}
    while index + 1 in records:
        index += 1
    last = {"kind": "completed", "step_index": index, "output": records[index].get("output")}
    return _pointing(completed, last)


def fail(
    progress: Document, index: int, *, error: str, is_retryable: bool, output: str | None = None
) -> Document:
    """Return the progress with the step failed; `output` is the last that it said, if that is known."""
    failure: Document = {"kind": "failed", "step_index": index, "error": error, "retryable": is_retryable}
    if output is not None:
        failure["output"] = output
    failed = _without(progress, index)
    failed["failed_steps"] = [*failed["failed_steps"], failure]
    return _pointing(failed, failure)


def interrupt(progress: Document) -> Document:
    """Return the progress of a run that was told to stop, with or without a step in progress."""
    running, state = progress["steps_in_progress"], progress["state"]
    if running:
        return _pointing(progress, _interrupted(min(running), is_in_progress=True))
    if state.get("kind") in ("interrupted", "failed"):
        return progress
    is_in_progress = state.get("kind") != "completed"
    return {
        **progress,
        "state": _interrupted(state.get("step_index", 0), is_in_progress=is_in_progress),
    }


def repeat(progress: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the progress with a completed step to be done again, after earlier ones that are not done."""
    names, records = as_sequence(progress.get("known_steps")), as_sequence(progress.get("completed_steps"))
    index = names.index(name) if name in names else None
    kept = [each for each in records if as_index(as_mapping(each).get("step_index")) != index]
    state = state_of(progress)
    at, is_last = as_index(state.get("step_index")), state.get("kind") == "completed"
    is_done = len(kept) < len(records) or (is_last and at == index)
    if index is None or not is_done:
        return progress
    is_behind = at is not None and at < index
    return {
        **progress,
        "completed_steps": kept,
        "state": progress["state"] if is_behind else _before(index),
    }


def begin_iteration(progress: Document, number: int, most: int | None) -> Document:
    """Return the progress at the first step of another iteration; the variables are kept."""
    kind = {**progress["workflow_type"], "kind": "iterative", "current_iteration": number}
    if most is not None:
        kind["max_iterations"] = most
    return {
        **progress,
        "workflow_type": kind,
        "state": _before(0),
        "completed_steps": [],
        "steps_in_progress": [],
        "failed_steps": [],
    }


def is_done(progress: Document, name: str) -> bool:
    """Whether the step is completed."""
    if name not in progress["known_steps"]:
        return False
    return progress["known_steps"].index(name) in _completed_indexes(progress)


def label(_state: Document, progress: Document) -> str | None:
    """Return the name of the step that the state is about, if it is known."""
    index, names = as_index(progress["state"].get("step_index")), progress["known_steps"]
    name = names[index] if index is not None and index < len(names) else None
    return name if isinstance(name, str) else None


def _before(index: int) -> Document:
    return {"kind": "before_step", "step_index": index}


def _interrupted(index: int, *, is_in_progress: bool) -> Document:
    return {"kind": "interrupted", "step_index": index, "in_progress": is_in_progress}


def _completed_indexes(progress: Document) -> set[int]:
    return {record["step_index"] for record in progress["completed_steps"]}


def _without(progress: Document, index: int) -> Document:
    """Return the progress with the step neither in progress nor failed."""
    running = [each for each in progress["steps_in_progress"] if each != index]
    failed = [each for each in progress["failed_steps"] if each["step_index"] != index]
    return {**progress, "steps_in_progress": running, "failed_steps": failed}


def _pointing(progress: Document, state: Document) -> Document:
    """Return the progress in this state, unless that would skip an earlier step that is not completed."""
    failures = {failure["step_index"]: failure for failure in progress["failed_steps"]}
    given_up = {index for index, failure in failures.items() if failure.get("retryable") is False}
    settled = _completed_indexes(progress) | given_up
    earlier = [index for index in range(state["step_index"]) if index not in settled]
    if earlier:
        state = failures.get(earlier[0], _before(earlier[0]))
    return {**progress, "state": state}


def _is_record(value: object) -> TypeGuard[Document]:
    return isinstance(value, dict) and as_index(value.get("step_index")) is not None


def _completed_records(stored: Document) -> list[Document]:
    """Return what is known of each completed step; the last one may stand in the state alone."""
    records = [each for each in as_list(stored.get("completed_steps")) if _is_record(each)]
    state = dict(state_of(stored))
    if not _is_record(state) or state.get("kind") != "completed":
        return records
    if any(record["step_index"] == state["step_index"] for record in records):
        return records
    return [*records, {"step_index": state["step_index"], "output": state.get("output")}]


def _stored_names(stored: Document, records: list[Document], wanted: list[str]) -> list[str | None]:
    """Return the names of the steps as far as the checkpoint tells them, whoever made it.

    A completed step of which it tells the index alone is the one that `wanted` has in that place.
    """
    known = dict(enumerate(as_list(stored.get("known_steps", stored.get("steps")))))
    for record in records:
        if known.get(record["step_index"]) is None:
            known[record["step_index"]] = record.get("command")
    for index, name in enumerate(wanted):
        if index in known and known[index] is None and name not in known.values():
            known[index] = name
    return [known.get(index) for index in range(max(known, default=-1) + 1)]


def _renamed(progress: Document, wanted: list[str]) -> Document:
    """Return the progress with the steps in the order of `wanted`; those that are not in it come after."""
    old = progress["known_steps"]
    names = [*wanted, *(name for name in old if name is not None and name not in wanted)]
    records = [
        {**record, "step_index": names.index(old[record["step_index"]])}
        for record in progress["completed_steps"]
        if old[record["step_index"]] is not None
    ]
    moved = {**progress, "known_steps": names, "completed_steps": records, "failed_steps": []}
    done = _completed_indexes(moved)
    unfinished = [index for index in range(len(names)) if index not in done]
    return {**moved, "state": _before(unfinished[0] if unfinished else len(names))}


STYLE = Style("steps", "Steps", plan, restore, label, interrupt, repeat)
