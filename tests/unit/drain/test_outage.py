import pytest

from holdfast.drain.outage import Outage, RateBlock, outage_after, parse_outage
from holdfast.errors import GatewayError, RefusalKind, Refused, Unavailable

DOWN = Unavailable("x", "502 Bad Gateway")


def after(error: GatewayError, before: Outage | None = None, now: float = 100.0) -> Outage:
    return outage_after(error, before, now=now, jitter=1.0, credentials="token")


def test_pauses_of_an_outage_grow_to_half_a_minute_and_stay_there() -> None:
    pauses, outage = [], None
    for _ in range(8):
        outage = after(DOWN, outage)
        pauses.append(outage.retry_at - 100.0)

    assert pauses == [2, 4, 8, 16, 30, 30, 30, 30]
    assert outage is not None
    assert outage.since == 100.0


@pytest.mark.parametrize(
    ("kind", "least_s"),
    [("auth", 30), ("permission", 60), ("not_found_or_no_access", 600), ("protected_branch", 600)],
)
def test_refusals_are_tried_again_slowly(kind: RefusalKind, least_s: float) -> None:
    outage = after(Refused("x", "no", kind, "Do this."))

    assert outage.retry_at - 100.0 >= least_s
    assert outage.sentence == "x: no. Do this."


def test_another_kind_of_trouble_begins_anew() -> None:
    outage = after(Refused("x", "no", "auth", "Do this."), after(DOWN), now=200.0)

    assert (outage.failures, outage.since) == (1, 200.0)


def test_note_is_read_back() -> None:
    outage = after(DOWN)

    assert parse_outage(outage.to_bytes()) == outage
    assert parse_outage(None) is None


def test_outage_is_tried_again_when_its_time_has_come_or_with_a_new_token() -> None:
    outage = after(DOWN)

    assert outage.applies(outage.retry_at - 0.1, "token")
    assert not outage.applies(outage.retry_at, "token")
    assert not outage.applies(100.0, "another token")


def test_retry_further_off_than_the_longest_pause_is_ignored() -> None:
    outage = after(DOWN)
    long_before = outage.retry_at - 400 * 86_400

    assert not outage.applies(long_before, "token")
    assert outage.wait_s(long_before) == 0


def test_only_where_a_small_question_tells_enough_it_is_asked_first() -> None:
    def is_probed(kind: RefusalKind) -> bool:
        return after(Refused("x", "no", kind, "Do this.")).is_probed_first

    assert after(DOWN).is_probed_first
    assert is_probed("auth")
    assert is_probed("not_found_or_no_access")
    assert not is_probed("permission")
    assert not is_probed("protected_branch")


@pytest.mark.parametrize(
    ("now", "credentials", "critical", "applies"),
    [
        (99.0, "token", {"a"}, True),
        (99.0, "token", set(), True),
        (100.0, "token", {"a"}, False),
        (99.0, "another token", {"a"}, False),
        (99.0, "token", {"a", "b"}, False),
        (49.0, "token", {"a"}, False),
    ],
    ids=[
        "as it was found",
        "with less to do",
        "its time is over",
        "a new token",
        "a new critical one",
        "a clock set back",
    ],
)
def test_limit_holds_until_something_may_find_room(
    now: float, credentials: str, critical: set[str], applies: bool
) -> None:
    block = RateBlock(50.0, 100.0, "the hour is used up", "token", frozenset({"a"}))

    assert block.applies(now, credentials, critical) is applies
