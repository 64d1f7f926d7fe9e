import pytest

from holdfast.drain.outage import Trouble, parse_trouble, trouble_after
from holdfast.errors import GatewayError, RefusalKind, Refused, Unavailable

DOWN = Unavailable("x", "502 Bad Gateway")


def after(error: GatewayError, before: Trouble | None = None, now: float = 100.0) -> Trouble:
    return trouble_after(error, before, now=now, jitter=1.0, credentials="token")


def test_pauses_of_an_outage_grow_to_half_a_minute_and_stay_there() -> None:
    pauses, trouble = [], None
    for _ in range(8):
        trouble = after(DOWN, trouble)
        pauses.append(trouble.retry_at - 100.0)

    assert pauses == [2, 4, 8, 16, 30, 30, 30, 30]
    assert trouble is not None
    assert trouble.since == 100.0


@pytest.mark.parametrize(
    ("kind", "least_s"),
    [("auth", 30), ("permission", 60), ("not_found_or_no_access", 600), ("protected_branch", 600)],
)
def test_refusals_are_tried_again_slowly(kind: RefusalKind, least_s: float) -> None:
    trouble = after(Refused("x", "no", kind, "Do this."))

    assert trouble.retry_at - 100.0 >= least_s
    assert trouble.sentence == "x: no. Do this."


def test_another_kind_of_trouble_begins_anew() -> None:
    trouble = after(Refused("x", "no", "auth", "Do this."), after(DOWN), now=200.0)

    assert (trouble.failures, trouble.since) == (1, 200.0)


def test_note_is_read_back() -> None:
    trouble = after(DOWN)

    assert parse_trouble(trouble.to_bytes()) == trouble
    assert parse_trouble(None) is None
