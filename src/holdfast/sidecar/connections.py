"""Limits on connections: their number, how long they are silent, and the size of a request's head."""

import asyncio
from dataclasses import dataclass, field

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.logs import log
from holdfast.sidecar.problems import TITLES, Problem, unavailable

MOST_CONNECTIONS = 2000


@dataclass
class ConnectionLimits:
    """How long a head may take and how large it may be, and how many connections there may be.

    When there are too many, the one that has been silent for the longest time makes room, so that whoever
    hoards connections cannot keep others out.
    """

    head_time_s: float = 10.0
    most_head_bytes: int = 64 * 1024
    most_connections: int = MOST_CONNECTIONS
    silent: dict["LimitedProtocol", None] = field(default_factory=dict)


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol within limits; `limits` is set by `limited_protocol`."""

    limits: ConnectionLimits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        limits = self.limits
        if len(self.connections) > limits.most_connections:
            if not limits.silent:
                # Connections come and go, sooner than GitHub does.
                detail = "Too many requests are under way; try again."
                self._refuse(unavailable("too_many_connections", detail, retry_after_s=1))
                return
            next(iter(limits.silent)).transport.close()
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_expecting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_timer is not None and self._head_bytes > self.limits.most_head_bytes:
            self._refuse(Problem(431, "head_too_large", "The request's head is too large."))
        elif self._head_timer is None and not self.transport.is_closing() and self._is_between_requests():
            self._expect_head()

    def on_headers_complete(self) -> None:
        self._stop_expecting()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._head_bytes = 0
        if not self.transport.is_closing():
            self.limits.silent[self] = None

    def send_400_response(self, msg: str) -> None:
        log.debug("request_not_understood", cause=msg)  # uvicorn's words are not for clients
        self._refuse(Problem(400, "bad_http", "This is not an HTTP request that can be understood."))

    def _is_between_requests(self) -> bool:
        return self.cycle is None or (self.cycle.response_complete and not self.cycle.more_body)

    def _expect_head(self) -> None:
        """Give the next head its time."""
        self._head_bytes = 0
        self._head_timer = self.loop.call_later(self.limits.head_time_s, self.transport.close)
        self.limits.silent[self] = None

    def _stop_expecting(self) -> None:
        self.limits.silent.pop(self, None)
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, problem: Problem) -> None:
        """Send a problem without asking the application, and close."""
        response = problem.response()
        lines = [f"HTTP/1.1 {problem.status} {TITLES[problem.status]}".encode()]
        lines += [b"%s: %s" % header for header in (*response.raw_headers, (b"connection", b"close"))]
        self.transport.write(b"\r\n".join([*lines, b"", response.body]))
        self.transport.close()


def limited_protocol(limits: ConnectionLimits) -> type[LimitedProtocol]:
    """Return the protocol class that keeps to `limits`."""
    return type("LimitedProtocol", (LimitedProtocol,), {"limits": limits})
