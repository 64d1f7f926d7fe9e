"""Performs our calls over a wire to one server: what is sent, and what an answer means.

What carries the bytes is a `Wire`, of which there are two: see "Why there are two ways to send a request" in
docs/design.md.
"""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import BytesIO
from typing import Any, Protocol, Self, TypeVar
from urllib.parse import SplitResult, urlencode, urljoin, urlsplit

from holdfast.clock import Clock
from holdfast.errors import GatewayError, Missing, Refused, Unavailable
from holdfast.github.address import check_repository_name, graphql_path, origin_of, parse_origin
from holdfast.github.bodies import LargeBody, encode_body
from holdfast.github.calls import NO_GRAPHQL, Answer, Call, Meter
from holdfast.github.classify import error_for, error_for_graphql, error_for_limit_in_success
from holdfast.github.graphql import build_graphql, is_absent_file, is_graphql
from holdfast.github.reply import Reply, hide_in
from holdfast.github.rest import build_request
from holdfast.logs import scrub
from holdfast.tracing import traces
from holdfast.version import __version__

ResultT = TypeVar("ResultT")

PUBLIC_API = "https://api.github.com"
USER_AGENT = f"holdfast/{__version__}"
# The version that GitHub and every supported Enterprise Server know.
API_VERSION = "2022-11-28"
CONNECT_TIMEOUT_S = 10.0
# GitHub has no file above 100 MB; in base64 and JSON that is a good third more.
_LONGEST_ANSWER_BYTES = 160 * 1024 * 1024
_LONGEST_TARGET = 65_536
_LONGEST_SAYING = 300
_REDIRECTS = (301, 302, 307, 308)
# An answer may still be about a token that was renewed meanwhile.
_REMEMBERED_TOKENS = 8

Headers = Mapping[str, str]
Body = bytes | LargeBody | None


class Wire(Protocol):
    """Carries requests to one server, which it is told once: whatever is sent, it goes nowhere else.

    It follows no redirect, repeats nothing, and may be used by several threads at once.
    """

    def send(self, method: str, target: str, headers: Headers, body: Body) -> tuple[int, Headers, bytes]:
        """Return status, headers and body of the answer. Raises Unavailable, whose reason tells why.

        The `target` is what follows the server's name in an address.
        """
        ...

    def close(self) -> None:
        """Close all connections; nothing can be sent after that."""
        ...


class WireClient(ABC):
    """Performs every call on one repository; safe to use from several threads at once.

    `token` is asked before each request, so that a renewed one is used at once. `observe` sees every answer
    as it comes in, also the ones that become errors; `meter` is told of each answer, and how long each call
    took by `timer`, however it ended. Where traces are on, each call has a span. Subclasses tell which wire
    leads to the address of the API.
    """

    def __init__(
        self,
        repository: str,
        *,
        token: Callable[[], str | None],
        api_url: str | None,
        clock: Clock,
        observe: Callable[[Answer], None] = lambda _: None,
        meter: Meter | None = None,
        timer: Callable[[], float] = time.perf_counter,
        timeout_s: float = 30.0,
    ) -> None:
        self._base_url = (api_url or PUBLIC_API).rstrip("/")
        self._origin = parse_origin(self._base_url)
        self._base_path = urlsplit(self._base_url).path
        self._repository = check_repository_name(repository)
        self._token = token
        self._sent_tokens: tuple[str, ...] = ()  # replaced as a whole: others may be reading it
        self._adding_token = threading.Lock()
        self._clock = clock
        self._observe = observe
        self._meter = meter
        self._timer = timer
        self._wire = self._open_wire(timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _open_wire(self, timeout_s: float) -> Wire:
        """Return what carries requests to the server at `_base_url`; no answer may take longer than that."""

    def close(self) -> None:
        """Close all connections; no call can be made after that."""
        self._wire.close()

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers to `call`, or raise a GatewayError, which its span has as its status."""
        began = self._timer()
        try:
            with _span(call):
                result = self._perform(call)
        except GatewayError as error:
            self._tell(call, began, error)
            raise
        self._tell(call, began, None)
        return result

    def _tell(self, call: Call[Any], began: float, error: GatewayError | None) -> None:
        if self._meter:
            self._meter.call_performed(self._timer() - began, is_mutation=call.is_mutation, error=error)

    def _perform(self, call: Call[ResultT]) -> ResultT:
        return self._perform_graphql(call) if is_graphql(call) else self._perform_rest(call)

    def _perform_rest(self, call: Call[ResultT]) -> ResultT:
        request = build_request(call)
        root = "" if request.is_server_wide else f"/repos/{self._repository}"
        query = f"?{urlencode(request.query)}" if request.query else ""
        reply = self._send(
            call,
            request.method,
            f"{self._base_path}{root}{request.path}{query}",
            body=request.body,
            accept=request.accept,
            etag=request.etag,
        )
        if not (reply.is_success or (request.etag and reply.is_unchanged)):
            raise error_for(reply, call, now=self._clock.now())
        with _understanding(call):
            return request.read(reply)

    def _perform_graphql(self, call: Call[ResultT]) -> ResultT:
        request = build_graphql(call, self._repository)
        body = {"query": request.document.text, "variables": request.document.variables}
        reply = self._send(call, "POST", graphql_path(self._base_path), body=body)
        if reply.status in (404, 405, 501):
            raise Missing(NO_GRAPHQL, f"the server has no GraphQL: it answered {reply.status}")
        if not reply.is_success:
            raise error_for(reply, call, now=self._clock.now())
        with _understanding(call):
            return request.read(self._read_graphql(reply, call))

    def _read_graphql(self, reply: Reply, call: Call[Any]) -> Mapping[str, Any]:
        content = reply.json()
        errors = hide_in(content.get("errors") or [], self._hide)
        if not call.is_mutation:
            errors = [error for error in errors if not is_absent_file(error)]
        if errors:
            raise error_for_graphql(reply, call, errors, now=self._clock.now())
        found = content.get("data")
        if isinstance(found, dict):
            return found
        limit = error_for_limit_in_success(reply, call, now=self._clock.now())
        raise limit or Unavailable(call.subject, "GitHub's answer has neither data nor errors")

    def _send(
        self,
        call: Call[Any],
        method: str,
        target: str,
        *,
        body: dict[str, Any] | None = None,
        accept: str = "application/vnd.github+json",
        etag: str = "",
    ) -> Reply:
        """Send one request, and once more where a renamed repository on the same server redirects us to."""
        if len(target) > _LONGEST_TARGET:
            raise _refuse_content(call, "the path is too long to be sent")
        content = None if body is None else _encode(body, call)
        headers = {"Accept": accept, **({"If-None-Match": etag} if etag else {})}
        reply = self._exchange(call, method, target, headers, content)
        if reply.status not in _REDIRECTS:
            return reply
        reply = self._exchange(call, method, self._redirect_target(reply, call), headers, content)
        if reply.status in _REDIRECTS:
            raise _refuse_redirect(call, "GitHub redirects more than once")
        return reply

    def _exchange(self, call: Call[Any], method: str, target: str, headers: Headers, content: Body) -> Reply:
        whole = {**headers, "X-GitHub-Api-Version": API_VERSION, **self._authorization(call)}
        if content is not None:
            whole |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        try:
            status, answered, body = self._wire.send(method, target, whole, content)
        except Unavailable as error:
            words = self._hide(error.reason)
            cause = error.__cause__ if words == error.reason else None
            raise Unavailable(call.subject, words, is_late=error.is_late) from cause
        lower_case = {name.lower(): self._hide(value) for name, value in answered.items()}
        self._observe(Answer(call, status, lower_case, self._clock.now()))
        if self._meter:
            self._meter.request_answered(type(call).__name__, status)
        return Reply(status, lower_case, body, self._hide)

    def _authorization(self, call: Call[Any]) -> dict[str, str]:
        token = (self._token() or "").strip()
        if not (token.isascii() and token.isprintable() and " " not in token):
            raise Refused(
                call.subject,
                "the token contains characters that no token has",
                kind="auth",
                advice="Give Holdfast the bare token, without quotes, blanks or line breaks inside.",
            )
        if not token:
            return {}
        if token not in self._sent_tokens:
            with self._adding_token:
                known = dict.fromkeys((*self._sent_tokens, token))
                self._sent_tokens = tuple(known)[-_REMEMBERED_TOKENS:]
        return {"Authorization": f"token {token}"}

    def _hide(self, text: str) -> str:
        """Return what a server or a proxy says without the tokens that we sent it."""
        return scrub(text, self._sent_tokens)

    def _redirect_target(self, reply: Reply, call: Call[Any]) -> str:
        """Return where on this server we are sent. Raises Refused if it is another one."""
        location = reply.headers.get("location", "")
        try:
            place = urlsplit(urljoin(f"{self._base_url}/", location))
            is_ours = origin_of(place) == self._origin
        except ValueError:
            place, is_ours = SplitResult("", "", "", "", ""), False
        if not (location and is_ours):
            named = place.hostname or "unnamed"
            raise _refuse_redirect(call, f"GitHub redirects to another server ({named})")
        target = f"{place.path or '/'}{f'?{place.query}' if place.query else ''}"
        if not (target.isascii() and target.isprintable() and " " not in target):
            raise _refuse_redirect(call, "GitHub redirects to what is no address")
        return target


def _span(call: Call[Any]) -> AbstractContextManager[object]:
    if not traces.is_on:
        return nullcontext()
    values: dict[str, str | int] = {
        "holdfast.call": type(call).__name__,
        "holdfast.subject": call.subject,
        "holdfast.writes": int(call.is_mutation),
    }
    return traces.span(f"GitHub {type(call).__name__}", values, kind="client")


def tell_failure(error: BaseException) -> str:
    """Return in one line why there is no answer; a server may have said anything in its place."""
    said = " ".join(str(error).split())[:_LONGEST_SAYING]
    return f"the connection to GitHub failed: {type(error).__name__}: {said}"


def read_whole(pieces: Iterable[bytes]) -> bytes:
    """Return the body of an answer. Raises Unavailable if it is longer than any of GitHub's."""
    buffer = BytesIO()
    for piece in pieces:
        if buffer.tell() + len(piece) > _LONGEST_ANSWER_BYTES:
            raise Unavailable("", "the answer is longer than any of GitHub's")
        buffer.write(piece)
    return buffer.getvalue()


@contextmanager
def _understanding(call: Call[Any]) -> Iterator[None]:
    """Turn an answer that makes no sense into Unavailable: what it was about may have happened."""
    try:
        yield
    except GatewayError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise Unavailable(call.subject, "GitHub's answer could not be understood") from error


def _encode(body: dict[str, Any], call: Call[Any]) -> bytes | LargeBody:
    try:
        return encode_body(body)
    except TypeError as error:
        raise _refuse_content(call, f"the request cannot be written as JSON: {error}") from error


def _refuse_content(call: Call[Any], reason: str) -> Refused:
    advice = "Use shorter names, and only text that is valid Unicode."
    return Refused(call.subject, reason, kind="invalid", advice=advice)


def _refuse_redirect(call: Call[Any], reason: str) -> Refused:
    return Refused(
        call.subject,
        reason,
        kind="invalid",
        advice="Set HOLDFAST_REPO and HOLDFAST_API_URL to the repository's present name and server.",
    )
