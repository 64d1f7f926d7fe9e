"""Phases: 0, 0_5, 1 … 8 with a gate after each. The phase, the trigger and the outputs say how far it is.

Here it is the state itself that tells the progress, so the functions that change it return the members of
the state that change.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.format.header import RunStatus
from holdfast.format.triggers import Trigger
from holdfast.styles.style import DEFAULT_STYLE, ResumePoint, Saved, Style, Today
from holdfast.styles.values import Document, as_dict, as_list, as_mapping, freeze

COMPLETE = "complete"
GATE = "_gate"

Ordinal = tuple[int, ...]
_ORDINALS: tuple[Ordinal, ...] = ((0,), (0, 5), *((number,) for number in range(1, 9)))
_PHASE = re.compile(r"phase_(\d{1,9})(?:_(\d{1,9})(?=_|$))?(?:_.+)?")


def plan(saved: Saved, today: Today) -> ResumePoint:
    """Return the next phase, the gate or the phase itself, as the trigger has it."""
    outputs, flaws = _outputs(saved, today)
    listed, listing_flaws = _listed(saved)
    order = Order(tuple(listed), is_listed=True) if listed else Order.numbered(_known_names(saved, outputs))
    done = _done(saved, order, outputs if not listed else [order.name_of(name) for name in outputs])
    resume_at, following, more = _continue(saved, order, done)
    remaining = None if following is None else _without(following, done, keep=resume_at)
    return ResumePoint(
        resume_at=resume_at,
        completed=tuple(done),
        remaining=remaining,
        retry_current=resume_at == saved.phase,
        flaws=(*flaws, *listing_flaws, *more),
    )


def parse_ordinal(name: str) -> Ordinal | None:
    """Return the number of a phase, by which phases are ordered; None if its name has none.

    >>> parse_ordinal("phase_3_design"), parse_ordinal("phase_0_5"), parse_ordinal("build")
    ((3,), (0, 5), None)
    """
    match = _PHASE.fullmatch(name)
    return tuple(int(number) for number in match.groups() if number) if match else None


def name_phase(phase: str, names: Iterable[str]) -> str:
    """Return the longest of `names` that means the same phase; `phase` itself if none does.

    >>> name_phase("phase_2", ["phase_1_plan", "phase_2_build"])
    'phase_2_build'
    """
    ordinal = parse_ordinal(phase)
    bare = [name for name in names if not name.endswith(GATE)]
    same = [name for name in bare if name == phase or (ordinal and parse_ordinal(name) == ordinal)]
    return max((phase, *same), key=len)


@dataclass(frozen=True, slots=True)
class Order:
    """The phases of a run, one after the other, as the run itself lists them or as the specification does."""

    names: tuple[str, ...]
    is_listed: bool

    @classmethod
    def numbered(cls, known: Mapping[Ordinal, str]) -> "Order":
        """Return the specification's order, with the names that are known."""
        names = (known.get(ordinal, "phase_" + "_".join(map(str, ordinal))) for ordinal in _ORDINALS)
        return cls(tuple(names), is_listed=False)

    def name_of(self, phase: str) -> str:
        """Return what this order calls a phase; its own name if it is not in here."""
        place = self.place_of(phase)
        return phase if place is None else self.names[place]

    def place_of(self, phase: str) -> int | None:
        """Return where a phase stands, known by its name or by its number."""
        if phase in self.names:
            return self.names.index(phase)
        ordinal = parse_ordinal(phase)
        matching = [
            place for place, name in enumerate(self.names) if ordinal and parse_ordinal(name) == ordinal
        ]
        return matching[0] if len(matching) == 1 else None

    def after_number(self, phase: str) -> tuple[str, ...] | None:
        """Return the phases with a greater number; None if there is no telling."""
        ordinal = parse_ordinal(phase)
        ordinals = [parse_ordinal(name) for name in self.names]
        if ordinal is None or None in ordinals:
            return None
        return tuple(n for n, known in zip(self.names, ordinals, strict=True) if known and known > ordinal)


def _continue(
    saved: Saved, order: Order, done: Sequence[str]
) -> tuple[str | None, tuple[str, ...] | None, tuple[str, ...]]:
    """Return where the run goes on, the phases from there (None if they are not known), and flaws."""
    if saved.status is RunStatus.COMPLETED:
        return COMPLETE, (), ()
    place = order.place_of(saved.phase)
    from_here = None if place is None else order.names[place:]
    if saved.trigger is Trigger.GATE_DECISION:
        return f"{saved.phase}{GATE}", from_here and from_here[1:], ()
    if saved.is_let_on and (last := _last_done(order, done, since=place)) is not None:
        following = order.names[last + 1 :]
        return next(iter(following), COMPLETE), following, ()
    if saved.trigger is not Trigger.PHASE_COMPLETE:
        return saved.phase, from_here and (saved.phase, *from_here[1:]), ()
    if from_here is not None:
        following = from_here[1:]
        return next(iter(following), COMPLETE), following, ()
    return _continue_after_unlisted(saved.phase, order, done)


def _last_done(order: Order, done: Iterable[str], since: int | None) -> int | None:
    """Return the place of the last completed phase, from the place `since` on; None if there is none."""
    places = (order.place_of(name) for name in done)
    return max((place for place in places if place is not None and place >= (since or 0)), default=None)


def _continue_after_unlisted(
    phase: str, order: Order, done: Sequence[str]
) -> tuple[str | None, tuple[str, ...] | None, tuple[str, ...]]:
    """Go on after a phase that has no place in the order."""
    following = order.after_number(phase)
    if following is None and order.is_listed:
        following = tuple(name for name in order.names if name not in done)
    if following is None:
        flaw = f"phase {phase!r} has no number and there is no progress.phases: nothing says which comes next"
        return None, None, (flaw,)
    where = "progress.phases" if order.is_listed else "the phases 0 to 8"
    flaw = (
        f"phase {phase!r} is not one of {where}: what comes next was taken from what is known of the others"
    )
    return next(iter(following), COMPLETE), following, (flaw,)


def _outputs(saved: Saved, today: Today) -> tuple[list[str], tuple[str, ...]]:
    """Return the phases that have an output; where the state keeps none, those that the index names."""
    outputs = saved.state.get("phase_outputs")
    if outputs is None:
        return list(today.phases), ()
    if not isinstance(outputs, dict):
        return [], ("phase_outputs is not an object: no phase is taken as completed",)
    return [name for name, output in as_mapping(outputs).items() if output is not None], ()


def _listed(saved: Saved) -> tuple[list[str], tuple[str, ...]]:
    listed: Any = saved.progress.get("phases")
    if listed is None:
        return [], ()
    is_plain = isinstance(listed, list) and all(isinstance(name, str) for name in listed)
    if is_plain and len(set(listed)) == len(listed):
        return listed, ()
    return [], ("progress.phases is not a list of different names: the phases 0 to 8 were assumed",)


def _known_names(saved: Saved, outputs: Iterable[str]) -> dict[Ordinal, str]:
    """Return the longest name that the checkpoint has for each number."""
    current = as_mapping(saved.state.get("current_phase_state")).get("phase")
    names = [*outputs, *as_mapping(saved.state.get("phase_outputs")), saved.phase]
    names += [current] if isinstance(current, str) else []
    known: dict[Ordinal, str] = {}
    for name in names:
        ordinal = parse_ordinal(name)
        if ordinal is not None and len(name) > len(known.get(ordinal, "")):
            known[ordinal] = name
    return known


def _done(saved: Saved, order: Order, outputs: Sequence[str]) -> list[str]:
    """Return the phases that have an output, and the one that has just been completed, in order."""
    done = list(dict.fromkeys(outputs))
    if saved.trigger is Trigger.PHASE_COMPLETE and not _is_among(saved.phase, done):
        done.append(saved.phase)
    last = len(order.names)
    places = {name: order.place_of(name) for name in done}
    return sorted(done, key=lambda name: last if (place := places[name]) is None else place)


def _is_among(phase: str, names: Iterable[str]) -> bool:
    ordinal = parse_ordinal(phase)
    return any(name == phase or (ordinal and parse_ordinal(name) == ordinal) for name in names)


def _without(following: Iterable[str], done: Sequence[str], *, keep: str | None) -> tuple[str, ...]:
    return tuple(name for name in following if name == keep or not _is_among(name, done))


def new_progress(phases: Iterable[str] = ()) -> Document:
    """Return the progress of a run that has not begun; the order of its phases, if that is known."""
    names = list(phases)
    return {"style": "phases", "phases": names} if names else {"style": "phases"}


def restore(stored: Document, fresh: Document) -> Document:
    """Return the stored progress; the phases that `fresh` names count."""
    return {**stored, **fresh}


def begin(state: Mapping[str, Any], name: str, now: str) -> Document:
    """Return what changes when a phase begins. One that was done before is not, until it is done again."""
    outputs = as_dict(state.get("phase_outputs"))
    current: Document = {"phase": name, "started_at": now, "progress": {}, "partial_output": None}
    if name in outputs:
        current["previous_output"] = outputs[name]
    others = {known: output for known, output in outputs.items() if known != name}
    return {"phase_outputs": others, "current_phase_state": current}


def report(state: Mapping[str, Any], output: object) -> Document:
    """Return what changes when the phase in progress has come to a part of its output."""
    return {"current_phase_state": {**as_dict(state.get("current_phase_state")), "partial_output": output}}


def complete(state: Mapping[str, Any], name: str, output: object) -> Document:
    """Return what changes when a phase is done. Its output is never null: that would mean it is not done."""
    kept = freeze({} if output is None else output)
    outputs = {**as_dict(state.get("phase_outputs")), name: kept}
    return {"phase_outputs": outputs, "current_phase_state": None}


def decide(
    state: Mapping[str, Any], gate_id: str, *, decision: str, score: float | None, iteration: int | None
) -> Document:
    """Return what changes when a gate has decided; without an iteration, it is the gate's next."""
    history = as_list(state.get("gate_history"))
    if iteration is None:
        iteration = 1 + sum(isinstance(past, dict) and past.get("gate_id") == gate_id for past in history)
    entry = {"gate_id": gate_id, "decision": decision, "score": score, "iteration": iteration}
    return {"gate_history": [*history, entry]}


def is_done(state: Mapping[str, Any], name: str) -> bool:
    """Whether the phase has an output, under its name or under its number alone.

    >>> is_done({"phase_outputs": {"phase_1": {}, "phase_2": None}}, "phase_1_plan")
    True
    """
    outputs = as_dict(state.get("phase_outputs"))
    ordinal = parse_ordinal(name)
    short = "phase_" + "_".join(map(str, ordinal)) if ordinal else name
    return any(outputs.get(key) is not None for key in (name, short))


def label(state: Document, progress: Document) -> str | None:
    """Return the phase in progress; between two phases the one that is due, so that none runs twice."""
    current = as_dict(state.get("current_phase_state")).get("phase")
    if isinstance(current, str):
        return current
    done = [name for name, output in as_dict(state.get("phase_outputs")).items() if output is not None]
    if done:
        saved = Saved(Trigger.PHASE_COMPLETE, done[-1], RunStatus.IN_PROGRESS, state, progress)
        due = plan(saved, Today()).resume_at
        return done[-1] if due is None else str(due)
    names = progress.get("phases")
    return str(names[0]) if isinstance(names, list) and names else None


STYLE = Style(DEFAULT_STYLE, "Phases", plan, restore, label)
