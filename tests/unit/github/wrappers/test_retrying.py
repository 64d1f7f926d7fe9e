import gc
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from holdfast.clock import Deadline
from holdfast.errors import (
    Conflict,
    GatewayError,
    Missing,
    Refused,
    Silent,
    Throttled,
    Unavailable,
    Unverified,
)
from holdfast.github.calls import Call, ListFolder, ReadFile, ReadHead, ReadTree
from holdfast.github.patience import Patience, longest_wait_s
from holdfast.github.wrappers.retrying import RetryingGateway, plan_and_repeat, repeat
from holdfast.github.write_calls import WriteFile
from tests.fakes.clock import VirtualClock

ResultT = TypeVar("ResultT")

HEAD = ReadHead("main")
WRITE = WriteFile("a.json", b"{}", "m", "main")
LOST = Unavailable("a.json", "no answer")
GONE = Missing("a.json", "not there")


class ScriptedGateway:
    """Answers with each of `answers` in turn; errors are raised."""

    def __init__(self, *answers: object) -> None:
        self.answers: list[Any] = list(answers)
        self.calls: list[Call[Any]] = []

    def perform(self, call: Call[ResultT]) -> ResultT:
        self.calls.append(call)
        if isinstance(self.answers[0], BaseException):
            raise self.answers.pop(0)  # kept in no variable, which its traceback would keep in turn
        result: ResultT = self.answers.pop(0)
        return result


def retrying(
    inner: ScriptedGateway, clock: VirtualClock, share: float = 1.0, attempts: int = 4
) -> RetryingGateway:
    return RetryingGateway(inner, sleep=clock.sleep, attempts=attempts, random_share=lambda: share)


def test_read_without_a_clear_answer_is_repeated_until_there_is_one() -> None:
    clock, inner = VirtualClock(), ScriptedGateway(LOST, LOST, "sha")

    assert retrying(inner, clock).perform(HEAD) == "sha"
    assert inner.calls == [HEAD, HEAD, HEAD]


def test_waits_double_up_to_eight_seconds() -> None:
    clock, inner = VirtualClock(), ScriptedGateway(*[LOST] * 6, "sha")

    retrying(inner, clock, attempts=7).perform(HEAD)

    assert clock.slept == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]


def test_wait_is_a_random_share_of_the_longest() -> None:
    clock, inner = VirtualClock(), ScriptedGateway(LOST, LOST, "sha")

    retrying(inner, clock, share=0.25).perform(HEAD)

    assert clock.slept == [0.125, 0.25]


def test_last_error_is_raised_when_the_attempts_are_used_up() -> None:
    last = Unavailable("a.json", "still no answer")
    clock, inner = VirtualClock(), ScriptedGateway(LOST, LOST, LOST, last)

    with pytest.raises(Unavailable) as caught:
        retrying(inner, clock).perform(HEAD)

    assert caught.value is last
    assert len(clock.slept) == 3


class SlowGateway:
    """Answers after each of these times in turn, and never for None: then one waits as long as can be."""

    def __init__(self, clock: VirtualClock, *answers_after_s: float | None) -> None:
        self.clock = clock
        self.answers_after_s = list(answers_after_s)
        self.begun: list[float] = []

    def perform(self, call: Call[ResultT]) -> ResultT:
        self.begun.append(self.clock.now())
        answer_s = self.answers_after_s.pop(0)
        longest_s = longest_wait_s(30.0)
        self.clock.sleep(longest_s if answer_s is None else min(answer_s, longest_s))
        if answer_s is None or answer_s > longest_s:
            raise Unavailable(call.subject, "no answer in time", is_late=True)
        result: ResultT = "sha"  # type: ignore[assignment]
        return result


def asking(inner: SlowGateway, patience: Patience | None = None) -> RetryingGateway:
    clock = inner.clock
    return RetryingGateway(
        inner,
        sleep=clock.sleep,
        random_share=lambda: 1.0,
        patience=lambda: patience or Patience(clock),
    )


def test_a_github_that_hangs_is_given_up_after_half_a_minute_and_each_question_has_its_own() -> None:
    inner = SlowGateway(VirtualClock(0.0), *[None] * 8)
    gateway = asking(inner)

    for ended_at in (30.5, 61.0):
        with pytest.raises(Unavailable, match="no answer in time"):
            gateway.perform(HEAD)
        assert inner.clock.now() == pytest.approx(ended_at)
    assert inner.begun == pytest.approx([0.0, 24.5, 30.5, 55.0])


def test_questions_that_share_their_patience_wait_once() -> None:
    inner = SlowGateway(VirtualClock(0.0), *[None] * 8)
    gateway = asking(inner, Patience(inner.clock))

    for _ in range(50):
        with pytest.raises(Unavailable):
            gateway.perform(HEAD)

    assert inner.clock.now() == pytest.approx(30.5)
    assert len(inner.begun) == 2


def test_a_lost_answer_is_asked_for_again() -> None:
    inner = SlowGateway(VirtualClock(0.0), None, 1.0)

    assert asking(inner).perform(HEAD) == "sha"


def test_a_github_that_takes_twenty_seconds_for_every_answer_is_waited_for() -> None:
    inner = SlowGateway(VirtualClock(0.0), *[20.0] * 30)
    gateway = asking(inner, Patience(inner.clock))

    assert [gateway.perform(HEAD) for _ in range(30)] == ["sha"] * 30


def test_a_write_has_its_own_time_whatever_was_waited_for_before() -> None:
    inner = SlowGateway(VirtualClock(0.0), None, None, 29.0)
    gateway = asking(inner, Patience(inner.clock))
    with pytest.raises(Unavailable):
        gateway.perform(HEAD)

    gateway.perform(WRITE)

    assert inner.answers_after_s == []


@pytest.mark.parametrize("error", [LOST, GONE, Conflict("a.json", "stale", kind="head_moved")])
def test_write_is_never_repeated(error: GatewayError) -> None:
    clock, inner = VirtualClock(), ScriptedGateway(error)

    with pytest.raises(type(error)):
        retrying(inner, clock).perform(WRITE)

    assert (inner.calls, clock.slept) == ([WRITE], [])


@pytest.mark.parametrize(
    "error",
    [
        Throttled("a.json", "limit", kind="primary", retry_after_s=600),
        Throttled("a.json", "limit", kind="own_budget", retry_after_s=1),
        Refused("a.json", "denied", kind="permission", advice="Ask."),
        GONE,
        ValueError("not GitHub's"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_clear_answer_is_not_asked_for_again(error: Exception) -> None:
    clock, inner = VirtualClock(), ScriptedGateway(error)

    with pytest.raises(type(error)):
        retrying(inner, clock).perform(HEAD)

    assert (inner.calls, clock.slept) == ([HEAD], [])


@pytest.mark.parametrize(
    "call",
    [
        ReadFile("a.json", "sha", is_fresh=True),
        ListFolder("runs", "sha", is_fresh=True),
        ReadTree("sha", is_fresh=True),
    ],
    ids=lambda call: type(call).__name__,
)
def test_missing_is_repeated_where_something_was_just_written(call: Call[object]) -> None:
    clock, inner = VirtualClock(), ScriptedGateway(GONE, LOST, "found")

    assert retrying(inner, clock).perform(call) == "found"


def test_what_stays_missing_is_missing() -> None:
    clock, inner = VirtualClock(), ScriptedGateway(*[GONE] * 4)

    with pytest.raises(Missing):
        retrying(inner, clock).perform(ReadFile("a.json", "sha", is_fresh=True))

    assert clock.slept == [0.5, 1.0, 2.0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer", [lambda: "sha", lambda: Missing("x", "it is gone")], ids=["found", "missing"]
)
@pytest.mark.parametrize("call", [HEAD, WRITE])
def test_a_call_does_not_wait_in_memory_for_the_garbage_collector(
    call: Call[Any], answer: Callable[[], object]
) -> None:
    def perform() -> None:
        with suppress(Missing):
            gateway.perform(call)

    gateway = retrying(ScriptedGateway(*[answer() for _ in range(4)]), VirtualClock())
    perform()
    gc.collect()
    gc.freeze()  # so that only what follows is looked through
    gc.disable()
    try:
        for _ in range(3):
            perform()

        assert gc.collect() == 0
    finally:
        gc.enable()
        gc.unfreeze()


MOVED = Conflict("main", "the branch has moved on", kind="head_moved")


class Work:
    """Fails with each of `errors` in turn, then returns what it was planned with."""

    def __init__(self, *errors: GatewayError) -> None:
        self.errors = list(errors)
        self.plans = 0
        self.noted: list[tuple[int, GatewayError]] = []

    def plan(self) -> int:
        self.plans += 1
        return self.plans

    def carry_out(self, plan: int) -> int:
        if self.errors:
            raise self.errors.pop(0)
        return plan

    def note(self, attempt: int, error: GatewayError) -> None:
        self.noted.append((attempt, error))


@pytest.mark.parametrize("error", [MOVED, LOST, Unverified("a.json", "not what was sent")])
def test_write_is_planned_anew_after_what_another_attempt_may_mend(error: GatewayError) -> None:
    work, clock = Work(error), VirtualClock()

    planned = plan_and_repeat(work.plan, work.carry_out, attempts=3, deadline=Deadline(clock), note=work.note)

    assert (planned, work.noted) == (2, [(1, error)])


def test_pauses_between_writes_double_up_to_eight_seconds() -> None:
    work, clock = Work(*[MOVED] * 5), VirtualClock()
    told: list[float] = []

    repeat(
        lambda: work.carry_out(0),
        attempts=6,
        deadline=Deadline(clock),
        note=lambda *_: told.append(clock.now()),
    )

    pauses = [later - earlier for earlier, later in pairwise([*told, clock.now()])]
    assert pauses == pytest.approx([1.0, 2.0, 4.0, 8.0, 8.0])


def test_last_attempt_of_a_write_raises_its_own_error() -> None:
    work = Work(MOVED, LOST, MOVED)

    with pytest.raises(Unavailable):
        repeat(lambda: work.carry_out(0), attempts=2, deadline=Deadline(VirtualClock()), note=work.note)

    assert len(work.errors) == 1


@pytest.mark.parametrize(
    "error", [Refused("x", "no", "auth", "Do this."), GONE, Silent("x", "nothing for long")]
)
def test_write_that_no_repetition_mends_is_tried_once(error: GatewayError) -> None:
    work, clock = Work(error), VirtualClock()

    with pytest.raises(type(error)):
        repeat(lambda: work.carry_out(0), attempts=3, deadline=Deadline(clock), note=work.note)

    assert (work.noted, clock.slept) == ([], [])


def test_who_asks_for_it_decides_what_is_worth_another_attempt() -> None:
    work = Work(LOST)

    with pytest.raises(Unavailable):
        repeat(
            lambda: work.carry_out(0),
            attempts=3,
            deadline=Deadline(VirtualClock()),
            note=work.note,
            when=lambda error: isinstance(error, Conflict),
        )


def test_error_of_the_plan_itself_is_raised_at_once() -> None:
    work = Work(LOST)

    with pytest.raises(Unavailable):
        plan_and_repeat(
            lambda: work.carry_out(0),
            lambda plan: plan,
            attempts=3,
            deadline=Deadline(VirtualClock()),
            note=work.note,
        )

    assert work.noted == []


def test_pause_before_a_write_is_repeated_ends_with_the_deadline() -> None:
    work, clock = Work(MOVED), VirtualClock(0.0)
    deadline = Deadline(clock)

    with deadline.until(0.25):
        repeat(lambda: work.carry_out(0), attempts=3, deadline=deadline, note=work.note)

    assert clock.now() == pytest.approx(0.25)
