"""Limits on connections: their number, their pace, the size of a request's head, and how a body is framed."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cache
from heapq import nsmallest
from math import inf
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from holdfast.logs import log
from holdfast.sidecar.problems import TITLES, Problem, unavailable

MOST_CONNECTIONS = 2000
# What every connection is taken to have sent at its beginning, so that a new one is not the slowest: a pace
# below this many a second has who has sent nothing for more than one.
HEAD_START_BYTES = 1024
# To find the slowest means to look at all: so a share of them is found at once, to go one by one.
SHARE_TO_FIND = 20
# When only this share of the places is free, the slowest go one after the other, and newcomers need not
# wait for that.
SHARE_TO_KEEP_FREE = 8
# So few at once that whoever sends a request has his answer in between.
ENDED_AT_ONCE, ENDED_EVERY_S = 4, 0.01
# Smaller pieces of a body gather here: thousands of callers may send theirs byte by byte.
WORTH_WAKING_BYTES = 4096


@dataclass
class ConnectionLimits:
    """How long a head may take and how large it may be, and how many connections there may be.

    When there are too many, the one that has sent least for its time makes room, so that whoever hoards
    connections, silent or with bodies that trickle in, cannot keep others out.
    """

    head_time_s: float = 10.0
    most_head_bytes: int = 64 * 1024
    most_connections: int = MOST_CONNECTIONS
    awaited: dict["LimitedProtocol", None] = field(default_factory=dict)
    """Those from which something is to come: a head, or the rest of a body."""
    _slowest: list["LimitedProtocol"] = field(default_factory=list)
    """Those that were the slowest when all were looked at, the slowest last."""
    _slow_pace: float = 0.0
    _is_making_room: bool = False

    def admit(self, connections: Collection[object], loop: asyncio.AbstractEventLoop) -> bool:
        """Whether the newest of all connections may stay; others go for it where there are many."""
        if len(connections) > self.most_connections:
            return self.make_room(loop.time())
        if not self._is_making_room:
            self._make_room_soon(connections, loop)
        return True

    def _make_room_soon(self, connections: Collection[object], loop: asyncio.AbstractEventLoop) -> None:
        comfortable = self.most_connections - self.most_connections // SHARE_TO_KEEP_FREE
        self._is_making_room = len(connections) > comfortable
        if self._is_making_room:
            count = min(ENDED_AT_ONCE, len(connections) - comfortable)
            loop.call_later(ENDED_EVERY_S, self._make_room_for, count, connections, loop)

    def _make_room_for(
        self, count: int, connections: Collection[object], loop: asyncio.AbstractEventLoop
    ) -> None:
        # Nobody goes who is not slow, as long as there are places.
        if all(self.make_room(loop.time(), most_pace=HEAD_START_BYTES) for _ in range(count)):
            # Those that were ended are gone in the next turn of the loop, so that they are not counted again.
            loop.call_soon(self._make_room_soon, connections, loop)
        else:
            self._is_making_room = False

    def make_room(self, now: float, *, most_pace: float = inf) -> bool:
        """End the slowest of those that are waited for; return whether there was one of at most that pace."""
        connection = self._next_slow(now)
        if connection is None:
            self._find_slowest(now)
            connection = self._next_slow(now)
        if connection is None or connection.pace(now) > most_pace:
            return False
        connection.give_up()
        return True

    def _next_slow(self, now: float) -> "LimitedProtocol | None":
        """Return the next of those that were found to be slow, and are so still."""
        while self._slowest:
            connection = self._slowest.pop()
            if connection in self.awaited and connection.pace(now) <= self._slow_pace:
                return connection
        return None

    def _find_slowest(self, now: float) -> None:
        count = 1 + len(self.awaited) // SHARE_TO_FIND
        self._slowest = nsmallest(count, self.awaited, key=lambda connection: connection.pace(now))
        self._slow_pace = self._slowest[-1].pace(now) if self._slowest else 0.0
        self._slowest.reverse()


class BadFraming(Exception):
    """What a request says about the length of its body cannot be trusted."""


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol within limits; `limits` is set by a subclass."""

    limits: ConnectionLimits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._idle_bytes = 0  # received since the request last moved on
        self._awaited_bytes, self._awaited_since = 0, self.loop.time()
        self._is_in_body = False
        self._flaw = ""
        self._head_timer: asyncio.TimerHandle | None = None
        self.begun: RequestResponseCycle | None = None
        if not self.limits.admit(self.connections, self.loop):
            # Connections come and go, sooner than GitHub does.
            detail = "Too many requests are under way; try again."
            self._refuse(unavailable("too_many_connections", detail, retry_after_s=1))
            return
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self.stop_expecting()
        super().connection_lost(exc)
        # uvicorn tells the newest of several requests that came together, but the oldest is to be answered,
        # and uvloop takes nothing for a connection that is lost.
        if self.begun is not None and not self.begun.response_complete:
            self.begun.disconnected = True
            self.begun.message_event.set()

    def pace(self, now: float) -> float:
        """Return how many bytes a second have come since something was waited for."""
        return (HEAD_START_BYTES + self._awaited_bytes) / max(1e-3, now - self._awaited_since)

    def give_up(self) -> None:
        """End a connection that others need; whoever was sending is told."""
        self.stop_expecting()
        if self._is_in_body:
            self._send_and_close(_too_slow())
        else:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        self._idle_bytes += len(data)
        super().data_received(data)
        self._awaited_bytes += len(data)
        if self.transport.is_closing():
            return
        if self._idle_bytes > self.limits.most_head_bytes:
            self._refuse(Problem(431, "head_too_large", "The request's head is too large."))
        elif self._head_timer is None and self.is_between_requests():
            self._expect_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_body:
            # Nothing here needs them, and they would grow without bound before anyone is asked for a token.
            raise self._flawed("Send no trailers after a chunked body.")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self.stop_expecting()
        self._check_framing()
        self._is_in_body, self._idle_bytes = True, 0
        self.await_more()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._idle_bytes = 0
        if len(self.cycle.body) + len(body) < WORTH_WAKING_BYTES:
            self.cycle.body += body  # whoever reads it is woken by more, or by the end of it
        else:
            super().on_body(body)

    def on_chunk_header(self) -> None:
        self._idle_bytes = 0

    def on_message_complete(self) -> None:
        self._is_in_body, self._idle_bytes = False, 0
        self.limits.awaited.pop(self, None)
        super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.begun = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing():
            self.await_more()

    def send_400_response(self, msg: str) -> None:
        log.debug("request_not_understood", cause=self._flaw or msg)  # uvicorn's words are not for clients
        detail = self._flaw or "This is not an HTTP request that can be understood."
        self._refuse(Problem(400, "bad_http", detail))

    def _check_framing(self) -> None:
        """Refuse what a proxy in front of us may take for another length. Raises BadFraming."""
        codings = [value.strip().lower() for name, value in self.headers if name == b"transfer-encoding"]
        if not codings:
            return
        if codings != [b"chunked"] or any(name == b"content-length" for name, _ in self.headers):
            raise self._flawed(
                "Send the body with a Content-Length, or with Transfer-Encoding: chunked alone."
            )
        if self.parser.get_http_version() != "1.1":
            raise self._flawed("Only HTTP/1.1 has chunked bodies.")

    def _flawed(self, detail: str) -> BadFraming:
        """Return what stops the parser, which then has us answer with `detail`."""
        self._flaw = detail
        return BadFraming(detail)

    def is_between_requests(self) -> bool:
        """Whether every request has its answer, as far as requests were understood."""
        return self.cycle is None or (self.cycle.response_complete and not self.cycle.more_body)

    def await_more(self) -> None:
        """Note that something is to come from here: a head, or the rest of a body."""
        self._awaited_bytes, self._awaited_since = 0, self.loop.time()
        self.limits.awaited[self] = None

    def _expect_head(self) -> None:
        """Give the next head its time."""
        self._idle_bytes = 0
        self._head_timer = self.loop.call_later(self.limits.head_time_s, self.transport.close)
        self.await_more()

    def stop_expecting(self) -> None:
        """Wait for nothing more: what was awaited is there."""
        self.limits.awaited.pop(self, None)
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, problem: Problem) -> None:
        """Send a problem without asking the application, unless an answer is on its way, and close."""
        self._send_and_close(_answer_of(problem))

    def _send_and_close(self, answer: bytes) -> None:
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            self.transport.write(answer)
        self.transport.close()


def _answer_of(problem: Problem) -> bytes:
    response = problem.response()
    lines = [f"HTTP/1.1 {problem.status} {TITLES[problem.status]}".encode()]
    lines += [b"%s: %s" % header for header in (*response.raw_headers, (b"connection", b"close"))]
    return b"\r\n".join([*lines, b"", bytes(response.body)])


@cache  # it is the same for all, and hundreds may get it within a second
def _too_slow() -> bytes:
    detail = "The body came too slowly while others waited for a connection; send it again."
    return _answer_of(Problem(408, "too_slow", detail))
