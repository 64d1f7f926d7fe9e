"""The meter hears of every call, however it ends."""

import gc
from collections.abc import Callable
from contextlib import suppress
from unittest.mock import Mock

import httpx
import pytest

from holdfast.errors import Conflict, Missing
from holdfast.github.calls import Meter, ReadHead
from holdfast.github.client import GitHubClient
from holdfast.github.write_calls import WriteFile
from holdfast.metrics import Metrics
from tests.fakes.clock import VirtualClock

WRITE = WriteFile("a", b"content", "A message", "main")


def metered(meter: Meter, status: int, answer: object, timer: Callable[[], float]) -> GitHubClient:
    return GitHubClient(
        "owner/state",
        token=lambda: "t",
        api_url="http://github.test",
        clock=VirtualClock(),
        meter=meter,
        timer=timer,
        transport=httpx.MockTransport(lambda _: httpx.Response(status, json=answer)),
    )


def test_a_call_that_succeeds_is_told_with_its_duration() -> None:
    meter, times = Mock(), iter([10.0, 12.5])

    with metered(meter, 200, {"object": {"sha": "abc"}}, lambda: next(times)) as client:
        assert client.perform(ReadHead("main")) == "abc"

    meter.request_answered.assert_called_once_with("ReadHead", 200)
    meter.call_performed.assert_called_once_with(2.5, is_mutation=False, error=None)


def test_a_call_that_fails_is_told_with_its_error_and_fails() -> None:
    meter = Mock()

    with (
        metered(meter, 409, {"message": "a does not match b"}, lambda: 0.0) as client,
        pytest.raises(Conflict),
    ):
        client.perform(WRITE)

    meter.request_answered.assert_called_once_with("WriteFile", 409)
    assert meter.call_performed.call_args.kwargs["is_mutation"]
    assert isinstance(meter.call_performed.call_args.kwargs["error"], Conflict)


@pytest.mark.slow
def test_an_error_does_not_wait_in_memory_for_the_garbage_collector() -> None:
    class FailingClient(GitHubClient):
        def _send(self, *_: object, **__: object) -> object:  # type: ignore[override]
            raise Missing("a", "not there")

    def perform() -> None:
        with suppress(Missing):
            client.perform(WRITE)

    client = FailingClient(
        "owner/state", token=lambda: "t", api_url=None, clock=VirtualClock(), meter=Metrics(dict)
    )
    perform()
    gc.collect()
    gc.disable()
    try:
        perform()

        assert gc.collect() == 0
    finally:
        gc.enable()
        client.close()
