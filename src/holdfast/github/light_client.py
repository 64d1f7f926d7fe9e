"""Carries our calls with the standard library alone: for who reads a little, and has no time to load more."""

import http.client
import os
import select
import socket
import ssl
import zlib
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from holdfast.errors import Unavailable
from holdfast.github.address import parse_origin, server_of
from holdfast.github.patience import longest_wait_s
from holdfast.github.wire_client import (
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

_PIECE_BYTES = 256 * 1024
_GZIP = 16 + zlib.MAX_WBITS
_LONGEST_IDLE_S = 5.0  # as with httpx: what lies before a server may forget a connection without a word


class LightClient(WireClient):
    """Performs every call on one repository, without githubkit."""

    def _open_wire(self, timeout_s: float) -> Wire:
        return _PlainWire(self._base_url, timeout_s, self._timer)


def can_reach(api_url: str | None) -> bool:
    """Whether the way to a server is plain enough: straight, or through a proxy that is spoken to in HTTP."""
    proxy = _proxy_for(api_url or PUBLIC_API)
    return proxy is None or proxy.scheme == "http"


class _PlainWire:
    """Carries requests with http.client; a connection serves one thread at a time, then the next."""

    def __init__(self, base_url: str, timeout_s: float, timer: Callable[[], float]) -> None:
        self._scheme, self._host, self._port = parse_origin(base_url)
        self._timeout_s = timeout_s
        self._timer = timer
        self._proxy = _proxy_for(base_url)
        self._headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "gzip"}
        self._prefix = ""
        if self._proxy and self._scheme == "http":  # else it is but a tunnel, and learns nothing
            self._prefix = server_of(base_url)
            self._headers |= _authorization(self._proxy)
        # Each with the process that opened it, and since when it is idle; the longest comes first. No lock
        # guards them, which a fork might find held for ever: `append` and `popleft` need none.
        self._idle: deque[tuple[http.client.HTTPConnection, int, float]] = deque()
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        for connection, _, _ in self._idle_ones():
            connection.close()

    def send(self, method: str, target: str, headers: Headers, body: Body) -> tuple[int, Headers, bytes]:
        if self._is_closed:
            raise Unavailable("", "the client is closed")
        try:
            with self._connected() as connection:
                connection.request(method, self._prefix + target, body, {**headers, **self._headers})
                with connection.getresponse() as answer:
                    return answer.status, dict(answer.headers.items()), read_whole(_pieces(answer))
        except (http.client.HTTPException, OSError, ValueError, zlib.error) as error:
            raise Unavailable("", _describe(error), is_late=isinstance(error, TimeoutError)) from error

    @contextmanager
    def _connected(self) -> Iterator[http.client.HTTPConnection]:
        """Give a connection, and keep it for the next request if this one comes to its end."""
        timeout_s = longest_wait_s(self._timeout_s)
        kept = self._take()
        connection = kept or self._new_connection(min(timeout_s, CONNECT_TIMEOUT_S))
        try:
            if kept is None:
                connection.connect()
            connection.sock.settimeout(timeout_s)
            yield connection
        except BaseException:
            connection.close()
            raise
        if connection.sock:  # the server may have ended it
            self._idle.append((connection, os.getpid(), self._timer()))
            if self._is_closed:  # asked only now, lest `close` comes in between
                self.close()

    def _take(self) -> http.client.HTTPConnection | None:
        """Return a connection on which the server has said nothing since: neither its end nor too much.

        What a parent process left us is still in its use: to close it here ends but our own hold on it.
        """
        for connection, process, since in self._idle_ones():
            is_ours = process == os.getpid() and self._timer() - since <= _LONGEST_IDLE_S
            if is_ours and not _has_news(connection.sock):
                return connection
            connection.close()
        return None

    def _idle_ones(self) -> Iterator[tuple[http.client.HTTPConnection, int, float]]:
        """Yield each idle connection, which then is no longer among them."""
        with suppress(IndexError):
            while True:
                yield self._idle.popleft()

    def _new_connection(self, timeout_s: float) -> http.client.HTTPConnection:
        host, port = self._host, self._port
        if self._proxy:
            host, port = self._proxy.hostname or "", self._proxy.port or 80
        if self._scheme == "http":
            connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
        else:
            connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=self._trust)
            if self._proxy:
                connection.set_tunnel(self._host, self._port, _authorization(self._proxy))
        return connection

    @cached_property
    def _trust(self) -> ssl.SSLContext:
        """Return whom to trust, as httpx does: whom the environment names, else whom certifi does."""
        if file := os.environ.get("SSL_CERT_FILE"):
            return ssl.create_default_context(cafile=file)
        if folder := os.environ.get("SSL_CERT_DIR"):
            return ssl.create_default_context(capath=folder)
        import certifi

        return ssl.create_default_context(cafile=certifi.where())


def _has_news(connection: socket.socket) -> bool:
    news = select.poll()
    news.register(connection, select.POLLIN)
    return bool(news.poll(0))


def _pieces(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the content of an answer, unpacked. Raises HTTPException, ValueError or zlib.error if torn."""
    if answer.status < 200:  # the one that follows would be taken for that to the next request
        raise http.client.HTTPException(f"{answer.status} is no answer")
    if answer.length == 0:  # whatever the headers say of the content that there would be
        return
    unzip = _unzip(answer.getheader("content-encoding", "").strip().lower())
    is_empty = True
    while piece := answer.read(_PIECE_BYTES):
        is_empty = False
        while piece:
            yield unzip.decompress(piece, _PIECE_BYTES) if unzip else piece
            piece = unzip.unconsumed_tail if unzip else b""
    if answer.length:  # http.client takes the end of a connection for that of the answer
        raise http.client.IncompleteRead(b"", answer.length)
    if unzip and not is_empty:
        yield unzip.flush()
        if not unzip.eof:
            raise ValueError("the answer is cut off")


def _unzip(packing: str) -> "zlib._Decompress | None":
    if packing not in ("", "identity", "gzip"):
        raise ValueError(f"the answer is packed as {packing!r}, which nobody asked for")
    return zlib.decompressobj(_GZIP) if packing == "gzip" else None


def _proxy_for(url: str) -> SplitResult | None:
    """Return the proxy that the environment names for a server; None if there is none."""
    scheme, host, port = parse_origin(url)
    proxies = getproxies()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy or proxy_bypass(f"{host}:{port}"):
        return None
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}")


def _authorization(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(pair.encode()).decode()}"}


def _describe(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "GitHub did not answer in time"
    return tell_failure(error)
