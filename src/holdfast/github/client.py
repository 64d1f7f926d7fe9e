"""Carries our calls with githubkit; the only module that imports it."""

import ssl
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any

import httpx
from githubkit import GitHub, Response, UnauthAuthStrategy
from githubkit.exception import GitHubException

from holdfast.errors import Unavailable
from holdfast.github.address import check_repository_name, server_of
from holdfast.github.app import InstallationToken, refuse_app
from holdfast.github.patience import longest_wait_s
from holdfast.github.wire_client import (
    API_VERSION,
    CONNECT_TIMEOUT_S,
    PUBLIC_API,
    USER_AGENT,
    Body,
    Headers,
    Wire,
    WireClient,
    read_whole,
    tell_failure,
)


def _trust(base_url: str) -> bool | ssl.SSLContext:
    """Return whom to trust. Where there is no TLS, nobody: to read all authorities takes a while."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if httpx.URL(base_url).scheme == "http" else True


def _keep_to_time(request: httpx.Request) -> None:
    """Have a request wait no longer than whoever asks can: githubkit has one time for all of them."""
    usual = request.extensions.get("timeout", {})
    request.extensions["timeout"] = {
        part: seconds if seconds is None else longest_wait_s(seconds) for part, seconds in usual.items()
    }


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
            user_agent=USER_AGENT,
            follow_redirects=False,
            timeout=timeout,
            transport=transport,
            ssl_verify=_trust(base_url),
            http_cache=False,
            auto_retry=False,
            event_hooks={"request": [_keep_to_time]},
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


class _HubWire:
    """Carries requests with githubkit, and so with httpx: connections are kept and shared by all threads."""

    def __init__(self, base_url: str, timeout_s: float, transport: httpx.BaseTransport | None) -> None:
        self._server = server_of(base_url)
        timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))
        self._hub = _Hub(base_url, timeout=timeout, transport=transport)

    def close(self) -> None:
        self._hub.client.close()

    def send(self, method: str, target: str, headers: Headers, body: Body) -> tuple[int, Headers, bytes]:
        try:
            # githubkit hands the content on to httpx, which takes pieces as well.
            response = self._hub.request(
                method,
                self._server + target,
                content=body,  # type: ignore[arg-type]
                headers=dict(headers),
                stream=True,
            )
            with closing(response.raw_response):
                content = read_whole(response.raw_response.iter_bytes())
        except (GitHubException, httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise Unavailable("", _describe(error), is_late=_is_late(error)) from error
        # It refers to itself through its stream: our body would stay in memory until garbage is collected.
        response.raw_response.stream = httpx.ByteStream(b"")
        return response.status_code, response.headers, content


class GitHubClient(WireClient):
    """Performs every call on one repository with githubkit; `close` also closes `transport`."""

    def __init__(
        self, repository: str, *, transport: httpx.BaseTransport | None = None, **options: Any
    ) -> None:
        self._transport = transport
        super().__init__(repository, **options)

    def _open_wire(self, timeout_s: float) -> Wire:
        return _HubWire(self._base_url, timeout_s, self._transport)


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
        base_url = (api_url or PUBLIC_API).rstrip("/")
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
        headers = {"Authorization": f"Bearer {self._sign()}", "X-GitHub-Api-Version": API_VERSION}
        try:
            response = self._hub.request(method, path, headers=headers)
            content = response.raw_response.json()
        except (GitHubException, httpx.HTTPError, OSError) as error:
            raise Unavailable(path, _describe(error), is_late=_is_late(error)) from error
        except ValueError as error:
            raise Unavailable(path, "GitHub's answer could not be understood") from error
        if response.status_code >= 400 or not isinstance(content, dict):
            raise refuse_app(path, response.status_code, content)
        return content


def _describe(error: Exception) -> str:
    return "GitHub did not answer in time" if _is_late(error) else tell_failure(_cause_of(error))


def _is_late(error: Exception) -> bool:
    return isinstance(_cause_of(error), httpx.TimeoutException)


def _cause_of(error: Exception) -> Exception:
    cause: Exception = getattr(error, "exc", error)
    return cause
