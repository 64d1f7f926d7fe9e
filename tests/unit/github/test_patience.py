from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.errors import GatewayError, Missing, Refused, Silent, Unavailable
from holdfast.github.patience import Patience, longest_wait_s, waiting_at_most
from tests.fakes.clock import VirtualClock

USUAL_S = 60.0
LOST = Unavailable("a.json", "no answer", is_late=True)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def patience(clock: VirtualClock) -> Patience:
    return Patience(clock, 30.0)


def ask_in_vain(patience: Patience, clock: VirtualClock) -> None:
    with patience.asking("a.json"):
        clock.sleep(longest_wait_s(USUAL_S))
        raise LOST


def hang(patience: Patience, clock: VirtualClock) -> float:
    """Ask a GitHub that never answers; return how long that was waited for."""
    before = clock.now()
    with pytest.raises(Unavailable):
        ask_in_vain(patience, clock)
    return clock.now() - before


def fail(patience: Patience, error: GatewayError) -> None:
    with pytest.raises(type(error)), patience.asking("a.json"):
        raise error


def test_without_a_limit_the_wait_is_the_usual_one() -> None:
    assert longest_wait_s(USUAL_S) == USUAL_S


def test_the_shortest_of_several_limits_holds_and_only_meanwhile() -> None:
    with waiting_at_most(5.0):
        with waiting_at_most(9.0):
            assert longest_wait_s(USUAL_S) == 5.0
        with waiting_at_most(2.0):
            assert longest_wait_s(USUAL_S) == 2.0
        assert longest_wait_s(USUAL_S) == 5.0
        assert longest_wait_s(1.0) == 1.0
    assert longest_wait_s(USUAL_S) == USUAL_S


def test_the_limit_of_one_thread_is_none_of_another() -> None:
    with ThreadPoolExecutor(1) as other, waiting_at_most(5.0):
        assert other.submit(longest_wait_s, USUAL_S).result() == USUAL_S


def test_a_first_answer_may_take_most_of_the_time_and_a_second_attempt_gets_the_rest(
    patience: Patience, clock: VirtualClock
) -> None:
    assert [hang(patience, clock), hang(patience, clock)] == [24.0, pytest.approx(6.0)]


def test_once_it_is_used_up_nobody_is_asked_or_waited_for(patience: Patience, clock: VirtualClock) -> None:
    hang(patience, clock)
    with pytest.raises(Silent, match="no answer"):
        ask_in_vain(patience, clock)

    assert patience.is_used_up()
    with pytest.raises(Silent, match=r"b\.json: GitHub did not answer for 30 s"), patience.asking("b.json"):
        pytest.fail("it was asked")


@pytest.mark.parametrize("answer", [None, Missing("a.json", "not there")], ids=["found", "missing"])
def test_an_answer_renews_it(patience: Patience, clock: VirtualClock, answer: GatewayError | None) -> None:
    hang(patience, clock)
    if answer:
        fail(patience, answer)
    else:
        with patience.asking("a.json"):
            pass

    assert hang(patience, clock) == 24.0


def test_a_question_that_was_not_answered_to_the_end_renews_nothing(
    patience: Patience, clock: VirtualClock
) -> None:
    hang(patience, clock)
    fail(patience, Refused("a.json", "the token is of no use", kind="auth", advice="Give another."))

    assert hang(patience, clock) == pytest.approx(6.0)


def test_errors_that_github_takes_long_to_answer_use_up_nothing(
    patience: Patience, clock: VirtualClock
) -> None:
    def ask() -> None:
        with patience.asking("a.json"):
            clock.sleep(10.0)
            raise Unavailable("a.json", "GitHub answered 502")

    for _ in range(100):
        with pytest.raises(Unavailable):
            ask()

    assert hang(patience, clock) == 24.0


@pytest.mark.parametrize("attempts", [1, 2])
def test_after_as_long_as_was_waited_in_vain_there_is_new_patience(
    patience: Patience, clock: VirtualClock, attempts: int
) -> None:
    for _ in range(attempts):
        hang(patience, clock)
    clock.sleep(30.0)

    assert not patience.is_used_up()
    assert [hang(patience, clock), hang(patience, clock)] == [24.0, pytest.approx(6.0)]
    assert patience.is_used_up()
