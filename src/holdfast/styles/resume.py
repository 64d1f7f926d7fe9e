"""From stored checkpoints to what runs next: picks the style, restores the state, adds the warnings."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from holdfast.errors import InvalidCheckpoint
from holdfast.format.checkpoint import Envelope
from holdfast.format.header import UNNAMED_PHASE, RunStatus
from holdfast.format.moments import epoch
from holdfast.format.redacted import REDACTED_MEMBER, parse_redacted
from holdfast.format.review import Held, Review, Stop
from holdfast.format.triggers import Trigger
from holdfast.jsontext.encode import encode
from holdfast.jsontext.members import canonical, join_members, parse_document
from holdfast.jsontext.parse import parse_value
from holdfast.styles.known import STYLES, plan_style
from holdfast.styles.lookback import Lookback, count_before, step_back
from holdfast.styles.opened import OpenedCheckpoint, open_saved
from holdfast.styles.phases import GATE
from holdfast.styles.review import (
    HUMAN_REVIEW,
    Past,
    find_review,
    lost_review,
    tell_review,
    tell_stop,
)
from holdfast.styles.style import DEFAULT_STYLE, ResumePoint, Today
from holdfast.styles.tasks import cut_off
from holdfast.styles.values import Place, as_mapping, name_all, one_line

Source = Literal["spool", "github", "cache"]
_REDACTED = b'"%b"' % REDACTED_MEMBER.encode()


@dataclass(frozen=True)
class ResumePlan:
    """Where a run goes on, what is done, what is left, and the state to go on with.

    `state` has Python's numbers, and is read when it is asked for; `to_bytes` writes state and cost with
    every digit as it was stored. If it `needs_review`, the run waits for a person, and `review` says why.
    """

    run_id: str
    checkpoint_id: str
    sequence_number: int
    source: Source
    status: RunStatus
    resumable: bool
    resume_at: Place | None
    completed: list[Place]
    remaining: list[Place] | None
    retry_current: bool
    cost_accumulated: int | float | None
    warnings: list[str]
    phase: str
    trigger: Trigger
    saved_at: str
    age_s: float
    context_fields: Any
    needs_review: bool
    review: Review | None
    state_text: bytes = field(repr=False, default=b"null")
    context_text: bytes = field(repr=False, default=b"{}")
    outline: Any = field(repr=False, default=None)
    """The state with an empty value for each large one that no plan looks into."""
    is_outlined: bool = field(repr=False, default=False)

    @cached_property
    def state(self) -> Any:
        """Return the state to go on with."""
        return parse_value(self.state_text) if self.is_outlined else self.outline

    @property
    def message(self) -> str:
        """Return the specification's words about a resume; of other styles, what it is that they complete."""
        cost = self._cost_text()
        what = "Continuing" if self.resumable else f"Nothing to continue in {self.status}"
        return (
            f"RESUME: {what} run {self.run_id} from checkpoint {self.checkpoint_id}\n"
            f"Resume point: {one_line(self._point_text())}\n"
            f"{self._parts()} completed: {one_line(name_all(self.completed)) or 'none'}\n"
            f"Cost so far: {'not recorded' if cost == b'null' else '$' + cost.decode()}"
        )

    @property
    def has_standard_phases(self) -> bool:
        """Whether the phases that remain are the specification's own, as the run has named none."""
        progress = as_mapping(as_mapping(self.outline).get("progress"))
        return style_of(self.outline) == DEFAULT_STYLE and not progress.get("phases")

    def to_mapping(self) -> dict[str, Any]:
        """Return the plan as plain Python values."""
        values = self.without_state()
        return {name: self.state if name == "state" else values[name] for name in _FIELDS}

    def without_state(self) -> dict[str, Any]:
        """Return the plan as plain Python values, but for the state, which may be large."""
        values = {name: getattr(self, name) for name in _FIELDS if name != "state"}
        return values | {"review": self.review.to_mapping() if self.review else None}

    def to_bytes(self) -> bytes:
        """Return the plan as JSON, with the stored text of the state in it."""
        stored = {"state": self.state_text, "context_fields": self.context_text}
        texts = {name: encode(value) for name, value in self.without_state().items() if name not in stored}
        texts |= {**stored, "cost_accumulated": self._cost_text()}
        return join_members({name: texts[name] for name in _FIELDS})

    def _point_text(self) -> str:
        if self.resume_at is None:
            return "not known"
        is_named = self.resume_at != UNNAMED_PHASE
        return str(self.resume_at) if is_named else f"{self.resume_at} (the checkpoint names no phase)"

    def _parts(self) -> str:
        return STYLES.get(style_of(self.outline), STYLES[DEFAULT_STYLE]).parts

    def _cost_text(self) -> bytes:
        if self.cost_accumulated is None:
            return b"null"
        return parse_document(self.state_text).members["cost_accumulated"]


# What is written out; the texts stand for state and context.
_FIELDS = (
    *("run_id", "checkpoint_id", "sequence_number", "source", "status", "resumable", "resume_at"),
    *("completed", "remaining", "retry_current", "state", "cost_accumulated", "warnings", "phase"),
    *("trigger", "saved_at", "age_s", "context_fields", "needs_review", "review"),
)


def plan_resume(
    envelope: Envelope,
    *,
    source: Source = "github",
    active_lessons: Sequence[Any] | None = None,
    dag: Any = None,
    earlier: Iterable[Envelope] | None = None,
    past: Past | None = None,
    warnings: Iterable[str] = (),
    now: float | None = None,
    old_after_s: float | None = None,
) -> ResumePlan:
    """Return what to do with the newest checkpoint of a run, whose integrity was checked.

    `active_lessons` and `dag` are what is in force now. `earlier` are the checkpoints before it, the newest
    first, if they count; only a failed agent makes us look at them. `past` is what the index and the spool
    say of them. `warnings` come before the plan's own. Without `now`, the age is not told; from `old_after_s`
    on, it is a warning.
    """
    opened = open_saved(envelope)
    past = past or Past()
    before = Lookback(earlier or (), is_cut_off=source == "cache")
    recoveries = count_before(opened.saved, before)
    point = plan_style(opened.saved, Today(dag=dag, recoveries=recoveries, phases=_phases_of(past)))
    held = find_review(opened.moment, past)
    review = None if isinstance(held, Stop) else held or _doubt(opened)
    added: list[str] = []
    if point.given_up and opened.header.status is not RunStatus.COMPLETED:
        newest = opened
        opened, point, added = step_back(newest, point, before, dag)
        if opened is newest and held is None and earlier is not None:
            review = lost_review(point.given_up, newest.header, is_past_unread=before.is_cut_off)
    every = [
        *warnings,
        *tell_redacted(envelope),
        *before.warnings,
        *added,
        *point.flaws,
        *point.warnings,
        *_lesson_changes(opened.state, active_lessons),
    ]
    if review:
        every.insert(0, tell_review(review))
    if isinstance(held, Stop):
        every.insert(0, tell_stop(held))
    age_s = 0.0 if now is None else max(0.0, round(now - epoch(opened.header.timestamp), 3))
    every += _tell_age(age_s, old_after_s)
    plan = _compose(opened, _held(point, review), source, list(dict.fromkeys(every)))
    return replace(_ended(plan, held), age_s=age_s, needs_review=review is not None, review=review)


def find_flaws(envelope: Envelope) -> list[str]:
    """Return what is wrong with the progress that a checkpoint stores."""
    return list(plan_style(open_saved(envelope).saved, Today()).flaws)


def trigger_in_force(envelope: Envelope) -> Trigger:
    """Return the trigger that says where a run goes on from a checkpoint; a decision stands for another."""
    return open_saved(envelope).saved.trigger


def style_of(state: Any) -> str:
    """Return the name of a state's style."""
    return str(as_mapping(as_mapping(state).get("progress")).get("style", DEFAULT_STYLE))


def style_of_text(content: bytes) -> str:
    """Return the name of the style of a stored checkpoint, whose state is not read whole if it is large."""
    return style_of(parse_document(content).outline().get("state_snapshot"))


def _phases_of(past: Past) -> tuple[str, ...]:
    """Return the phases that the index names as completed, since the run last went back."""
    rolled = max((entry.sequence for entry in past.entries if entry.trigger == Trigger.ROLLBACK), default=0)
    done = [e.phase for e in past.entries if e.trigger == Trigger.PHASE_COMPLETE and e.sequence > rolled]
    return tuple(dict.fromkeys(phase for phase in done if phase and phase != UNNAMED_PHASE))


def _doubt(opened: OpenedCheckpoint) -> Review | None:
    """Return what only a person knows: whether a task that was cut off, and is not idempotent, was done."""
    header, tasks = opened.header, cut_off(opened.saved.progress)
    if not tasks or header.status is RunStatus.COMPLETED or opened.decision is not None:
        return None
    reason = f"{name_all(tasks)} was cut off, may have been done, and must not be done twice"
    return Review("escalation", reason, tasks[0], header.timestamp, header.checkpoint_id)


def _held(point: ResumePoint, review: Review | None) -> ResumePoint:
    """Return where a run goes on that waits for a person: only there."""
    if review is None:
        return point
    place = f"{review.phase}{GATE}" if review.kind == "gate" else HUMAN_REVIEW
    return point._replace(resume_at=place, retry_current=False)


def _ended(plan: ResumePlan, held: Held | None) -> ResumePlan:
    """Return the plan of a run that a person has stopped, whatever was saved since: it does not go on."""
    if not isinstance(held, Stop):
        return plan
    return replace(plan, status=RunStatus.FAILED, resumable=False, retry_current=False)


def _tell_age(age_s: float, old_after_s: float | None) -> list[str]:
    if old_after_s is None or age_s <= old_after_s:
        return []
    return [f"the checkpoint is {age_s / 86_400:.1f} days old: what it relies on may have changed since"]


def _lesson_changes(state: Any, active: Sequence[Any] | None) -> list[str]:
    if active is None:
        return []
    stored = as_mapping(state).get("active_lessons")
    before, now = _count(stored if isinstance(stored, list) else []), _count(active)
    if before == now:
        return []
    added, removed = (now - before).total(), (before - now).total()
    changed = f"the active lessons have changed since the checkpoint ({added} added, {removed} removed)"
    return [f"{changed}: the run may behave differently"]


def _count(lessons: Iterable[Any]) -> Counter[bytes]:
    return Counter(canonical(encode(lesson)) for lesson in lessons)


def _compose(opened: OpenedCheckpoint, point: ResumePoint, source: Source, warnings: list[str]) -> ResumePlan:
    header = opened.header
    is_over = header.status is RunStatus.COMPLETED
    is_repeated = point.retry_current or opened.decision == "retry"
    return ResumePlan(
        run_id=header.run_id,
        checkpoint_id=header.checkpoint_id,
        sequence_number=header.sequence_number or 0,
        source=source,
        status=header.status,
        resumable=not is_over,
        resume_at=point.resume_at,
        completed=list(point.completed),
        remaining=None if point.remaining is None else list(point.remaining),
        retry_current=is_repeated and not is_over,
        cost_accumulated=_cost(opened.state),
        warnings=warnings,
        phase=header.phase,
        trigger=header.trigger,
        saved_at=header.timestamp,
        age_s=0.0,
        context_fields=opened.context,
        needs_review=False,
        review=None,
        state_text=opened.state_text,
        context_text=opened.context_text,
        outline=opened.state,
        is_outlined=opened.is_outlined,
    )


def _cost(state: Any) -> int | float | None:
    cost = as_mapping(state).get("cost_accumulated")
    is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
    return cost if is_number else None


def tell_redacted(envelope: Envelope) -> list[str]:
    """Return a warning for each value that was taken out of a checkpoint."""
    if _REDACTED not in envelope.content:
        return []
    try:
        places = parse_redacted(parse_document(envelope.content).members.get(REDACTED_MEMBER, b"[]"))
    except InvalidCheckpoint:
        return []  # another program's own field
    return [f"{place.path}: a credential ({place.kind}) was taken out here; give it anew" for place in places]
