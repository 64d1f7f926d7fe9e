"""Tokens of an App are asked for once, renewed early, and never lost to a renewal that fails."""

import pytest

from holdfast.errors import Unavailable
from holdfast.github.app import AppTokenSource, InstallationToken
from tests.fakes.clock import VirtualClock


class Desk:
    """Hands out numbered tokens that last for an hour, or fails."""

    def __init__(self) -> None:
        self.clock = VirtualClock(1000.0)
        self.given = 0
        self.is_away = False
        self.source = AppTokenSource("4711", "Acme", self.fetch, self.clock.now)

    def fetch(self) -> InstallationToken:
        if self.is_away:
            raise Unavailable("/app", "no answer")
        self.given += 1
        return InstallationToken(f"ghs_{self.given}", self.clock.now() + 3600)


def test_token_is_used_until_it_ends_soon() -> None:
    desk = Desk()
    assert desk.source.known() is None

    seen = []
    for after_s in (0, 1800, 1499, 1, 3600):
        desk.clock.time += after_s
        seen.append(desk.source.token())

    assert seen == ["ghs_1", "ghs_1", "ghs_1", "ghs_2", "ghs_3"]
    assert desk.source.known() == "ghs_3"


def test_renewal_that_fails_leaves_the_old_one_while_it_lasts() -> None:
    desk = Desk()
    desk.source.token()
    desk.is_away = True
    desk.clock.time += 3400
    assert desk.source.token() == "ghs_1"

    desk.clock.time += 300
    with pytest.raises(Unavailable):
        desk.source.token()
    assert desk.source.known() is None

    desk.is_away = False
    assert desk.source.token() == "ghs_2"


def test_fingerprint_is_that_of_the_installation_and_asks_nobody() -> None:
    desk = Desk()
    desk.is_away = True

    same = AppTokenSource("4711", "acme", desk.fetch, desk.clock.now).fingerprint()
    other = AppTokenSource("4711", "umbrella", desk.fetch, desk.clock.now).fingerprint()

    assert desk.source.fingerprint() == same
    assert same != other
    assert desk.source.is_set
