"""Performs our calls over HTTP with githubkit; the only module that imports it."""

import ssl
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from io import BytesIO
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from githubkit import GitHub, Response, UnauthAuthStrategy
from githubkit.exception import GitHubException

from holdfast.clock import Clock
from holdfast.errors import GatewayError, Missing, Refused, Unavailable
from holdfast.github.address import check_repository_name, graphql_url, origin_of, parse_origin
from holdfast.github.app_refusals import refuse_app
from holdfast.github.app_tokens import InstallationToken
from holdfast.github.bodies import LargeBody, encode_body
from holdfast.github.calls import NO_GRAPHQL, Answer, Call, Meter
from holdfast.github.classify import error_for, error_for_graphql, error_for_limit_in_success
from holdfast.github.graphql import build_graphql, is_absent_file, is_graphql
from holdfast.github.reply import Reply, hide_in
from holdfast.github.rest import build_request
from holdfast.logs import scrub
from holdfast.version import __version__

ResultT = TypeVar("ResultT")

# The version that GitHub and every supported Enterprise Server know.
_API_VERSION = "2022-11-28"
_PUBLIC_API = "https://api.github.com"
_REDIRECTS = (301, 302, 307, 308)
_CONNECT_TIMEOUT_S = 10.0
# An answer may still be about a token that was renewed meanwhile.
_REMEMBERED_TOKENS = 8


def _trust(base_url: str) -> bool | ssl.SSLContext:
    """Return whom to trust. Where there is no TLS, nobody: to read all authorities takes a while."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if httpx.URL(base_url).scheme == "http" else True


class _Hub(GitHub[UnauthAuthStrategy]):
    """githubkit with one connection pool for all threads, that leaves judging answers to us."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout: httpx.Timeout,
        transport: httpx.BaseTransport | None,
    ) -> None:
        super().__init__(
            UnauthAuthStrategy(),
            base_url=base_url,
            user_agent=f"holdfast/{__version__}",
            follow_redirects=False,
            timeout=timeout,
            transport=transport,
            ssl_verify=_trust(base_url),
            http_cache=False,
            auto_retry=False,
        )
        self.client = self._create_sync_client()

    # githubkit keeps its client in a ContextVar, so that each thread would open and close its own.
    @contextmanager
    def get_sync_client(self) -> Generator[httpx.Client, None, None]:
        yield self.client

    # githubkit's own check takes some limits for something else and fails at a date in `retry-after`.
    def _check(
        self, response: httpx.Response, response_model: Any = None, error_models: Any = None
    ) -> Response[Any]:
        del response_model, error_models
        return Response(response, Any)


class GitHubClient:
    """Performs every call on one repository; safe to use from several threads at once.

    `token` is asked before each request, so that a renewed one is used at once. `observe` sees every answer
    as it comes in, also the ones that become errors; `meter` is told of each answer, and how long each call
    took by `timer`, however it ended. `close` also closes `transport`.
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
        transport: httpx.BaseTransport | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        base_url = (api_url or _PUBLIC_API).rstrip("/")
        self._origin = parse_origin(base_url)
        self._repository = check_repository_name(repository)
        self._root = f"/repos/{self._repository}"
        self._graphql_url = graphql_url(base_url)
        self._token = token
        self._sent_tokens: deque[str] = deque(maxlen=_REMEMBERED_TOKENS)
        self._clock = clock
        self._observe = observe
        self._meter = meter
        self._timer = timer
        timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_TIMEOUT_S))
        self._hub = _Hub(base_url, timeout=timeout, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; no call can be made after that."""
        self._hub.client.close()

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers to `call`, or raise a GatewayError."""
        began = self._timer()
        try:
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
        reply = self._send(
            call,
            request.method,
            request.path if request.is_server_wide else self._root + request.path,
            query=request.query,
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
        reply = self._send(call, "POST", self._graphql_url, body=body)
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
        url: str,
        *,
        query: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
        accept: str = "application/vnd.github+json",
        etag: str = "",
    ) -> Reply:
        """Send one request, and once more where a renamed repository on the same server redirects us to."""
        content = None if body is None else _encode(body, call)
        headers = {"Accept": accept, **({"If-None-Match": etag} if etag else {})}
        reply = self._exchange(call, method, url, params=query, content=content, headers=headers)
        if reply.status not in _REDIRECTS:
            return reply
        target = self._redirect_target(reply, call)
        reply = self._exchange(call, method, target, params=None, content=content, headers=headers)
        if reply.status in _REDIRECTS:
            raise _refuse_redirect(call, "GitHub redirects more than once")
        return reply

    def _exchange(
        self,
        call: Call[Any],
        method: str,
        url: str,
        *,
        params: dict[str, str] | None,
        content: bytes | LargeBody | None,
        headers: dict[str, str],
    ) -> Reply:
        headers = {**headers, "X-GitHub-Api-Version": _API_VERSION, **self._authorization(call)}
        if content is not None:
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        try:
            # githubkit hands the content on to httpx, which takes pieces as well.
            response = self._hub.request(
                method,
                url,
                params=params or None,
                content=content,  # type: ignore[arg-type]
                headers=headers,
                stream=True,
            )
            body = _read_whole(response.raw_response)
        except (GitHubException, httpx.HTTPError, OSError) as error:
            words = _describe(error)
            hidden = self._hide(words)
            raise Unavailable(call.subject, hidden) from (error if hidden == words else None)
        except httpx.InvalidURL as error:
            raise _refuse_content(call, f"the path cannot be sent: {error}") from error
        # It refers to itself through its stream: our body would stay in memory until garbage is collected.
        response.raw_response.stream = httpx.ByteStream(b"")
        lower_case = {name.lower(): self._hide(value) for name, value in response.headers.items()}
        self._observe(Answer(call, response.status_code, lower_case, self._clock.now()))
        if self._meter:
            self._meter.request_answered(type(call).__name__, response.status_code)
        return Reply(response.status_code, lower_case, body, self._hide)

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
            self._sent_tokens.append(token)
        return {"Authorization": f"token {token}"}

    def _hide(self, text: str) -> str:
        """Return what a server or a proxy says without the tokens that we sent it."""
        return scrub(text, self._sent_tokens)

    def _redirect_target(self, reply: Reply, call: Call[Any]) -> str:
        location = reply.headers.get("location", "")
        try:
            target = self._hub.client.base_url.join(location)
        except httpx.InvalidURL:
            target = httpx.URL()
        if not location or origin_of(target) != self._origin:
            raise _refuse_redirect(call, f"GitHub redirects to another server ({target.host or 'unnamed'})")
        return str(target)


class GitHubApp:
    """Asks GitHub, as an App, for tokens of its installation: of the given one, or that of the repository.

    `sign` makes the word by which GitHub knows the App; it may raise what a person must mend.
    """

    def __init__(
        self,
        repository: str,
        *,
        sign: Callable[[], str],
        installation_id: int | None,
        api_url: str | None,
        transport: httpx.BaseTransport | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        self._repository = check_repository_name(repository)
        self._sign = sign
        self._installation_id = installation_id
        base_url = (api_url or _PUBLIC_API).rstrip("/")
        self._hub = _Hub(base_url, timeout=httpx.Timeout(timeout_s), transport=transport)

    def close(self) -> None:
        """Close all connections."""
        self._hub.client.close()

    def fetch(self) -> InstallationToken:
        """Return a new token. Raises Refused if a person must act, Unavailable if nobody answers."""
        if self._installation_id is None:
            self._installation_id = int(self._ask("GET", f"/repos/{self._repository}/installation")["id"])
        found = self._ask("POST", f"/app/installations/{self._installation_id}/access_tokens")
        return InstallationToken(found["token"], datetime.fromisoformat(found["expires_at"]).timestamp())

    def _ask(self, method: str, path: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._sign()}", "X-GitHub-Api-Version": _API_VERSION}
        try:
            response = self._hub.request(method, path, headers=headers)
            content = response.raw_response.json()
        except (GitHubException, httpx.HTTPError, OSError) as error:
            raise Unavailable(path, _describe(error)) from error
        except ValueError as error:
            raise Unavailable(path, "GitHub's answer could not be understood") from error
        if response.status_code >= 400 or not isinstance(content, dict):
            raise refuse_app(path, response.status_code, content)
        return content


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


def _read_whole(response: httpx.Response) -> bytes:
    """Return the body of an answer; httpx would put it together from a copy of all of it."""
    buffer = BytesIO()
    with closing(response):
        for piece in response.iter_bytes():
            buffer.write(piece)
    return buffer.getvalue()


def _describe(error: Exception) -> str:
    cause = getattr(error, "exc", error)
    if isinstance(cause, httpx.TimeoutException):
        return "GitHub did not answer in time"
    return f"the connection to GitHub failed: {type(cause).__name__}: {cause}"


def _refuse_redirect(call: Call[Any], reason: str) -> Refused:
    return Refused(
        call.subject,
        reason,
        kind="invalid",
        advice="Set HOLDFAST_REPO and HOLDFAST_API_URL to the repository's present name and server.",
    )
