"""The first to see a request and the last to see its answer: access, errors, counters, one log line."""

import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Any
from uuid import uuid4

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Message, Receive, Scope, Send

from holdfast.logs import log
from holdfast.metrics import Metrics
from holdfast.sidecar.access import Access, is_page
from holdfast.sidecar.bodies import answer_and_linger
from holdfast.sidecar.problems import FAILURE, Problem, invalid, problem_of, unavailable

# A request id is a random prefix of this process and a count, which is quicker than a random one for each.
_PROCESS = uuid4().hex[:24]
_requests = count(1)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_ENCODED_SEPARATOR = re.compile(rb"%(2f|5c)", re.IGNORECASE)
_READING = frozenset({"GET", "HEAD"})
# Machines call these again and again, so only failures are logged.
_SUBJECT = ("run_id", "checkpoint_id", "sequence", "sequence_number", "at", "trace_id", "span_id")
_ROUTINE = frozenset({"/healthz", "/readyz", "/metrics", "/v1/runs/{run_id}/checkpoints"})
# Whoever may not come in is not listened to any longer, not even for politeness.
_CUT_SHORT = frozenset({401, 403})
_SAFE_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))

Header = tuple[bytes, bytes]

Show = Callable[[Request, Problem], Awaitable[Response]]
"""Makes a page of a problem, for a person who looks."""


class Guard:
    """Lets a request through to its route if it may pass, and turns every error into a problem."""

    def __init__(
        self,
        routes: Sequence[Route],
        access: Access,
        metrics: Metrics,
        *,
        is_stopping: Callable[[], bool],
        is_debugging: bool,
        cleanse: Callable[[str], str],
        show: Show | None = None,
    ) -> None:
        self._router = Router(routes, redirect_slashes=False, default=_find_nothing)
        self._methods: dict[str, set[str]] = {}
        for route in routes:
            self._methods.setdefault(route.path, set()).update(route.methods or ())
        self._access = access
        self._metrics = metrics
        self._is_stopping = is_stopping
        self._is_debugging = is_debugging
        self._cleanse = cleanse
        self._show = show

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        exchange = _Exchange(scope, receive, send)
        log.bind(request_id=exchange.request_id)
        scope["app"] = self  # has Starlette raise what it cannot route
        try:
            self._admit(scope, exchange.headers)
            await self._router(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            log.info("client_went_away")
        except HTTPException:
            # All that Starlette itself refuses: a method that the path does not have.
            await self._answer(_wrong_method(self._methods[_path(scope)]), scope, exchange)
        except Exception as error:
            await self._answer(error, scope, exchange)
        finally:
            self._record(scope, exchange)

    def _admit(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        is_form = scope["method"] not in _READING
        query = scope.get("query_string", b"")
        self._access.check(scope["path"], hosts, headers, query=query, is_form=is_form)
        if _ENCODED_SEPARATOR.search(scope.get("raw_path", b"")):
            raise invalid("run_id", "a run_id has no slash in it, not even an encoded one")
        if self._is_stopping() and scope["method"] not in _READING and FAILURE not in scope:
            raise unavailable("stopping", "The sidecar is about to end; send this again in a few seconds.")

    async def _answer(self, error: Exception, scope: Scope, exchange: "_Exchange") -> None:
        problem = problem_of(error)
        if problem.status == 500:
            log.error("request_failed", exc_info=error)
        if exchange.status is not None:
            raise error  # half an answer is out: only closing the connection tells the client
        response = problem.response(exchange.request_id)
        if self._show and problem.status >= 400 and is_page(scope["path"]):
            response = await self._show(Request(scope, exchange.receive), problem)
        await exchange.answer(problem, response)

    def _record(self, scope: Scope, exchange: "_Exchange") -> None:
        route = _path(scope)
        status = exchange.status or 499
        method = _method(scope)
        self._metrics.http_requests.labels(method, route, status).inc()
        is_routine = status < 400 and route in _ROUTINE
        if is_routine and not self._is_debugging:
            return
        tell = log.debug if is_routine else log.warning if status >= 500 else log.info
        tell(
            "request_answered",
            method=method,
            route=route,
            status=status,
            elapsed_ms=round((time.perf_counter() - exchange.began) * 1000, 2),
            **self._subject(scope, exchange),
            **({"code": exchange.problem.code} if exchange.problem else {}),
        )

    def _subject(self, scope: Scope, exchange: "_Exchange") -> dict[str, object]:
        """Return the run that a request is about, and the checkpoint's number or id, if they are known.

        What was not taken may be a credential that someone gave as a name.
        """
        named = {**scope.get("path_params", {}), **scope.get("state", {})}
        subject = {name: named[name] for name in _SUBJECT if name in named}
        if exchange.problem is None:
            return subject
        return {name: self._cleanse(str(value)) for name, value in subject.items()}


async def _find_nothing(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise Problem(404, "no_such_address", "There is nothing at this address; see /openapi.json.")


def _wrong_method(allowed: set[str]) -> Problem:
    names = ", ".join(sorted(allowed))
    detail = f"This address takes {names}; see /openapi.json."
    return Problem(405, "method_not_allowed", detail, headers={"Allow": names})


def _path(scope: Scope) -> str:
    """Return the path of the route as the contract spells it, for counters and logs."""
    route = scope.get("route")
    return route.path if isinstance(route, Route) else "none"


def _method(scope: Scope) -> str:
    """Return the method for a label; unknown methods share one, as clients can make up any number of them."""
    method: str = scope["method"]
    return method if method in {"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"} else "OTHER"


def request_id_of(headers: Mapping[bytes, bytes]) -> str:
    """Return the id that a request brings along, or a new one."""
    given = headers.get(b"x-request-id", b"")
    return given.decode() if _REQUEST_ID.fullmatch(given) else f"{_PROCESS}{next(_requests):08x}"


def common_headers(request_id: str) -> tuple[Header, ...]:
    """Return the headers that every answer ends with."""
    return (b"x-request-id", request_id.encode()), *_SAFE_HEADERS


class _Exchange:
    """One request and what is known of its answer so far."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.began = time.perf_counter()
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.request_id = request_id_of(self.headers)
        self.status: int | None = None
        self.problem: Problem | None = None
        self._receive = receive
        self._send = send
        self._is_body_read = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._is_body_read = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *common_headers(self.request_id)]
        await self._send(message)

    async def answer(self, problem: Problem, response: Response) -> None:
        """Send a problem; if the body is still under way, the connection is closed after it."""
        self.problem = problem
        is_body_left = not self._is_body_read and self._has_body()
        start: dict[str, Any] = {
            "type": "http.response.start",
            "status": problem.status,
            "headers": [*response.raw_headers, *([(b"connection", b"close")] if is_body_left else [])],
        }
        if not is_body_left:
            await self.send(start)
            await self.send({"type": "http.response.body", "body": response.body})
            return
        is_expecting = self.headers.get(b"expect", b"").lower() == b"100-continue"
        lingers = not is_expecting and problem.status not in _CUT_SHORT
        await answer_and_linger(start, bytes(response.body), self.receive, self.send, lingers=lingers)

    def _has_body(self) -> bool:
        return b"transfer-encoding" in self.headers or self.headers.get(b"content-length", b"0") != b"0"
