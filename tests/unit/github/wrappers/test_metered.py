"""The meter hears of every call, however it ends."""

import gc
from contextlib import suppress
from unittest.mock import Mock

import pytest

from holdfast.errors import Conflict
from holdfast.github.calls import Call, ReadFile, ResultT, WriteFile
from holdfast.github.wrappers.metered import MeteredGateway
from holdfast.metrics import Metrics


def metered(inner: Mock) -> tuple[MeteredGateway, Mock]:
    meter, times = Mock(), iter([10.0, 12.5])
    return MeteredGateway(inner, meter, now=lambda: next(times)), meter


def test_a_call_that_succeeds_is_told_with_its_duration() -> None:
    gateway, meter = metered(Mock(perform=Mock(return_value="answer")))

    assert gateway.perform(ReadFile("a", "main")) == "answer"  # type: ignore[comparison-overlap]
    meter.call_performed.assert_called_once_with("ReadFile", 2.5, is_mutation=False, error=None)


def test_a_call_that_fails_is_told_with_its_error_and_fails() -> None:
    error = Conflict("a", "someone wrote first", "stale_file")
    gateway, meter = metered(Mock(perform=Mock(side_effect=error)))
    call = Mock(spec=WriteFile, is_mutation=True)

    with pytest.raises(Conflict):
        gateway.perform(call)

    assert meter.call_performed.call_args.kwargs == {"is_mutation": True, "error": error}


def test_an_error_does_not_wait_in_memory_for_the_garbage_collector() -> None:
    def perform() -> None:
        with suppress(Conflict):
            gateway.perform(ReadFile("a", "main"))

    class FailingGateway:
        def perform(self, call: Call[ResultT]) -> ResultT:
            raise Conflict("a", f"no {call}", "stale_file")

    gateway = MeteredGateway(FailingGateway(), Metrics(dict))
    perform()
    gc.collect()
    gc.freeze()  # so that only what follows is looked through
    gc.disable()
    try:
        perform()

        assert gc.collect() == 0
    finally:
        gc.enable()
        gc.unfreeze()
