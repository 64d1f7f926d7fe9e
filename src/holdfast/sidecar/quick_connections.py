"""Connections that have the quick lane take in what it can, and leave the rest to the usual way."""

import asyncio
from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from holdfast.sidecar.connections import ConnectionLimits, LimitedProtocol
from holdfast.sidecar.problems import FAILURE
from holdfast.sidecar.quick_lane import QuickLane


class QuickProtocol(LimitedProtocol):
    """A connection with a quick lane; `limits` and `lane` are set by `quick_protocol`."""

    lane: QuickLane

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._awaiting_body: RequestResponseCycle | None = None
        self._unparsed: UnparsedRequest | None = None
        self._bytes_behind: list[bytes] = []  # what came after it, and waits for its answer
        self._whole_data = b""  # what is being parsed, if a request begins with it
        self._failure: Exception | None = None  # of the request that is being parsed
        # Whether the parser has seen nothing of the next request, so that it may come without it.
        self._is_at_start = True
        self._answered_at = 0.0
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._unparsed is not None:
            self._bytes_behind.append(data)
            self.flow.pause_reading()
        elif not self._take_known(data):
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        self._whole_data = data if self._is_at_start else b""
        super().data_received(data)
        self._whole_data = b""
        self._wait_the_usual_way()

    def _wait_the_usual_way(self) -> None:
        """Leave a request whose body takes longer to where such bodies are waited for."""
        if self._awaiting_body is not None:
            self._go_the_usual_way(self._awaiting_body)

    def on_message_begin(self) -> None:
        self._is_at_start = False
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._is_at_start = True
        super().on_message_complete()
        if self._awaiting_body is self.cycle:
            self._go_quickly(self.cycle)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_the_usual_way()  # the next request may have been started just now

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.begun = cycle
        failure, self._failure = self._failure, None
        is_open = failure is None and not self.flow.write_paused
        if not (is_open and self.lane.is_open_to(cast("dict[str, Any]", cycle.scope))):
            self._go_the_usual_way(cycle, failure, app=app)
        elif cycle.more_body:
            self._awaiting_body = cycle
        else:
            self._go_quickly(cycle)

    def _go_quickly(self, cycle: RequestResponseCycle) -> None:
        self._awaiting_body = None

        def settle(outcome: bytes | Exception) -> None:
            if isinstance(outcome, Exception):
                self._go_the_usual_way(cycle, outcome)
                return
            if not cycle.disconnected:
                self._send_accepted(cycle, outcome)
                cycle.on_response()
            cycle.on_response = _do_nothing  # it refers to us, and we to it
            cycle.body.clear()  # the connection may be idle for long

        whole = self._whole_data if cycle.keep_alive else b""
        if not self.lane.take(cycle.scope, bytes(cycle.body), settle, whole=whole):
            self._go_the_usual_way(cycle)

    def _go_the_usual_way(
        self, cycle: RequestResponseCycle, failure: Exception | None = None, *, app: Any = None
    ) -> None:
        self._awaiting_body = None
        if failure is not None:
            cast("dict[str, Any]", cycle.scope)[FAILURE] = failure
        super()._start_asgi_task(cycle, app or self.app)

    def _take_known(self, data: bytes) -> bool:
        """Take a request in without parsing it, if the lane knows its head."""
        if not (self._is_at_start and self.is_between_requests()) or self.flow.write_paused:
            return False
        request = self.lane.find_known(data)
        if request is None:
            return False
        unparsed = UnparsedRequest()
        if not self.lane.take_known(request, partial(self._settle_unparsed, unparsed, data)):
            return False
        self._unparsed, self.cycle = unparsed, cast("RequestResponseCycle", unparsed)
        self.stop_expecting()
        return True

    def _settle_unparsed(self, unparsed: "UnparsedRequest", data: bytes, outcome: bytes | Exception) -> None:
        self._unparsed = None
        unparsed.response_complete = True
        if unparsed.disconnected:
            if isinstance(outcome, Exception):
                self.lane.note_untold(outcome)
            return
        if isinstance(outcome, Exception):
            self._failure = outcome
            self._parse(data)
        else:
            self._send_accepted(unparsed, outcome)
            self._await_next()
        behind, self._bytes_behind = b"".join(self._bytes_behind), []
        if behind and not self.transport.is_closing():
            self.flow.resume_reading()
            self.data_received(behind)

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

    def _send_accepted(self, cycle: "RequestResponseCycle | UnparsedRequest", rest: bytes) -> None:
        """Send a 202, head and body as one."""
        defaults = self.server_state.default_headers
        lines = [b"HTTP/1.1 202 Accepted", *(b"%b: %b" % header for header in defaults)]
        if not cycle.keep_alive:
            lines.append(b"connection: close")
        self.transport.write(b"\r\n".join((*lines, rest)))
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
    """Return the protocol class of all connections that share these limits and this lane."""
    return type("SharingProtocol", (QuickProtocol,), {"limits": limits, "lane": lane})
