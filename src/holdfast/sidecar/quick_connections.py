"""Connections that have the quick lane take in what it can, and leave the rest to the usual way."""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from holdfast.sidecar.connections import ConnectionLimits, LimitedProtocol
from holdfast.sidecar.problems import FAILURE
from holdfast.sidecar.quick_lane import QuickLane


class QuickProtocol(LimitedProtocol):
    """A connection with a quick lane; `limits` and `lane` are set by `quick_protocol`."""

    lane: QuickLane

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # A request that waits for the rest of its body, and one that was taken in without being parsed.
        self._held: RequestResponseCycle | None = None
        self._unparsed: UnparsedRequest | None = None
        self._later: list[bytes] = []
        self._arrived = b""
        self._failure: Exception | None = None
        # Whether the parser has seen nothing of the next request, so that it may come without it.
        self._is_at_start = True
        self._answered_at = 0.0
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._unparsed is not None:
            self._later.append(data)  # answers have the order of their requests
            self.flow.pause_reading()
        elif not (self._is_at_start and self.is_between_requests() and self._take_known(data)):
            self._arrived = data if self._is_at_start else b""
            super().data_received(data)
            self._arrived = b""
            if self._held is not None:
                self._go_the_usual_way(self._held)  # its body takes longer, and is waited for there

    def on_message_begin(self) -> None:
        self._is_at_start = False
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._is_at_start = True
        super().on_message_complete()
        if self._held is self.cycle:
            self._go_quickly(self.cycle)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            self._go_the_usual_way(cycle, failure)
        elif not self.lane.is_open_to(cast("dict[str, Any]", cycle.scope)):
            super()._start_asgi_task(cycle, app)
        elif cycle.more_body:
            self._held = cycle
        else:
            self._go_quickly(cycle)

    def _go_quickly(self, cycle: RequestResponseCycle) -> None:
        self._held = None

        def answer(end: bytes | Exception) -> None:
            if isinstance(end, Exception):
                self._go_the_usual_way(cycle, end)
            elif not cycle.disconnected:
                self._answer(cycle, end)
                cycle.on_response()
                cycle.on_response = _do_nothing  # it refers to us, and we to it

        arrived = self._arrived if cycle.keep_alive else b""
        if not self.lane.take(cycle.scope, bytes(cycle.body), answer, arrived=arrived):
            self._go_the_usual_way(cycle)

    def _go_the_usual_way(self, cycle: RequestResponseCycle, failure: Exception | None = None) -> None:
        self._held = None
        if failure is not None:
            cast("dict[str, Any]", cycle.scope)[FAILURE] = failure
        super()._start_asgi_task(cycle, self.app)

    def _take_known(self, data: bytes) -> bool:
        """Take a request in without parsing it, if the lane knows its head."""
        before = self.cycle
        cycle = self._unparsed = UnparsedRequest()
        self.cycle = cast("RequestResponseCycle", cycle)

        def answer(end: bytes | Exception) -> None:
            self._unparsed = None
            if cycle.disconnected:
                return
            if isinstance(end, Exception):
                cycle.response_complete = True
                self._failure = end
                super(QuickProtocol, self).data_received(data)
            else:
                self._answer(cycle, end)
                self._await_next()
            if self._later:
                rest, self._later = b"".join(self._later), []
                self.flow.resume_reading()
                self.data_received(rest)

        if not self.lane.take_known(data, answer):
            self.cycle, self._unparsed = before, None
            return False
        self.stop_expecting()
        return True

    def _await_next(self) -> None:
        """Do what `on_response_complete` does, with the timer that runs already."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self._answered_at = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._keep_alive_for(self.timeout_keep_alive)
        self.await_more()

    def timeout_keep_alive_handler(self) -> None:
        rest_s = self._answered_at + self.timeout_keep_alive - self.loop.time()
        if self._unparsed is not None or rest_s > 0:
            # The timer began with an answer before the last one.
            self._keep_alive_for(max(rest_s, 1))
        else:
            super().timeout_keep_alive_handler()

    def _keep_alive_for(self, seconds: float) -> None:
        handler = self.timeout_keep_alive_handler
        self.timeout_keep_alive_task = self.loop.call_later(seconds, handler)

    def _answer(self, cycle: "RequestResponseCycle | UnparsedRequest", end: bytes) -> None:
        """Send a 202, head and body as one."""
        defaults = self.server_state.default_headers
        lines = [b"HTTP/1.1 202 Accepted", *(b"%b: %b" % header for header in defaults)]
        if not cycle.keep_alive:
            lines.append(b"connection: close")
        self.transport.write(b"\r\n".join((*lines, end)))
        cycle.response_started = cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()


class UnparsedRequest:
    """Stands for a request that was not parsed, in the place where uvicorn looks for the one under way."""

    __slots__ = ("disconnected", "keep_alive", "response_complete", "response_started")

    more_body = False
    message_event = asyncio.Event()  # nobody waits for it

    def __init__(self) -> None:
        self.disconnected = self.response_started = self.response_complete = False
        self.keep_alive = True


def _do_nothing() -> None: ...


def quick_protocol(limits: ConnectionLimits, lane: QuickLane) -> type[QuickProtocol]:
    """Return the protocol of all connections that share these limits and this lane."""
    return type("Protocol", (QuickProtocol,), {"limits": limits, "lane": lane})
