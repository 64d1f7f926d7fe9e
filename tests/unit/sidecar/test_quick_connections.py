"""How long a connection is kept whose requests were not parsed. What it takes in: test_quick_lane.py."""

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from holdfast.sidecar.quick_connections import QuickProtocol, UnparsedRequest

KEEP_ALIVE_S = 75.0


class Loop:
    """A clock that the test moves, and the timers that were set."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[float] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, _callback: Callable[[], Any]) -> Mock:
        self.timers.append(seconds)
        return Mock()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def connection(loop: Loop) -> QuickProtocol:
    """One whose last answer was given right now."""
    made = object.__new__(QuickProtocol)
    made.loop = loop  # type: ignore[assignment]
    made.transport = Mock(is_closing=lambda: False)
    made.timeout_keep_alive = int(KEEP_ALIVE_S)
    made._unparsed = None
    made._answered_at = loop.now
    return made


def test_a_timer_that_began_with_an_earlier_answer_waits_for_the_rest(
    loop: Loop, connection: QuickProtocol
) -> None:
    loop.now += 30

    connection.timeout_keep_alive_handler()

    assert loop.timers == [KEEP_ALIVE_S - 30]
    connection.transport.close.assert_not_called()  # type: ignore[attr-defined]


def test_a_connection_that_was_idle_for_long_is_closed(loop: Loop, connection: QuickProtocol) -> None:
    loop.now += KEEP_ALIVE_S

    connection.timeout_keep_alive_handler()

    assert loop.timers == []
    connection.transport.close.assert_called_once()  # type: ignore[attr-defined]


def test_a_connection_with_a_request_under_way_is_not_idle(loop: Loop, connection: QuickProtocol) -> None:
    loop.now += 2 * KEEP_ALIVE_S
    connection._unparsed = UnparsedRequest()

    connection.timeout_keep_alive_handler()

    assert loop.timers == [1]
    connection.transport.close.assert_not_called()  # type: ignore[attr-defined]
