"""The emulator on a loopback port: HTTP/1.1 with keep-alive, one thread per connection.

Written on sockets: the standard library's handler parses headers as mail, at several times the cost, and
cannot end an answer in the middle.
"""

import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from io import BufferedReader
from types import TracebackType

from holdfast.emulator.app import Emulator
from holdfast.emulator.exchange import Answer, Refusal, Request

CONNECTION_LIMIT = 256
HEADER_LIMIT_BYTES = 64 * 1024
BODY_LIMIT_BYTES = 200 * 1024 * 1024
IDLE_LIMIT_S = 120.0
STOP_LIMIT_S = 5.0

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")

_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class _BadRequest(Exception):
    """What arrived is not HTTP, or more than is taken: `status` answers it."""

    def __init__(self, status: int) -> None:
        super().__init__(_PHRASES[status])
        self.status = status


class EmulatorServer:
    """Serves one emulator on `http://host:port`; port 0 takes a free one. Use it as a context manager."""

    def __init__(
        self,
        emulator: Emulator,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.emulator = emulator
        self._host = host
        self._sleep = sleep
        self._listener = socket.create_server((host, port), backlog=128, reuse_port=False)
        self._port: int = self._listener.getsockname()[1]
        self._slots = threading.BoundedSemaphore(CONNECTION_LIMIT)
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_stopping = False

    @property
    def url(self) -> str:
        """Where the server is reached."""
        return f"http://{self._host}:{self._port}"

    @property
    def port(self) -> int:
        """The port that the server listens on."""
        return self._port

    def start(self) -> "EmulatorServer":
        """Begin to answer, in threads that do not keep the process alive."""
        self._thread = threading.Thread(target=self._accept, name="emulator", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Close the port and every connection; requests under way are still applied."""
        self._is_stopping = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join(STOP_LIMIT_S)
        self._await_connections()

    def __enter__(self) -> "EmulatorServer":
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _await_connections(self) -> None:
        """Wait until no request is under way, so that a repository may be closed after `stop`."""
        deadline = time.monotonic() + STOP_LIMIT_S
        for _ in range(CONNECTION_LIMIT):
            if not self._slots.acquire(timeout=max(0.0, deadline - time.monotonic())):
                return

    def _accept(self) -> None:
        while not self._is_stopping:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._slots.acquire()
            with self._lock:
                self._connections.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(IDLE_LIMIT_S)
            with connection.makefile("rb") as stream:
                while not self._is_stopping and self._exchange(connection, stream):
                    pass
        except OSError:
            pass
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.close()
            self._slots.release()

    def _is_foreign(self, request: Request) -> bool:
        """Whether a page in a browser may have sent this: none has business with a loopback port.

        A page whose own name leads to this machine sends that name, and no Origin.
        """
        if "origin" in request.headers or request.headers.get("sec-fetch-site", "none") != "none":
            return True
        host = request.headers.get("host")
        return host is not None and self._host in LOOPBACK_HOSTS and not _LOOPBACK.fullmatch(host)

    def _handle(self, request: Request) -> Answer:
        try:
            return self.emulator.handle(request)
        except Exception as error:
            # A full disk or a damaged repository is the server's trouble: say so, and serve the next.
            return Refusal(500, f"Server Error: {error!r}").answer()

    def _exchange(self, connection: socket.socket, stream: BufferedReader) -> bool:
        """Read one request and answer it; return whether the connection stays open."""
        try:
            request = _read_request(stream, connection)
        except _BadRequest as error:
            connection.sendall(_encode(Answer(error.status), is_head=False, is_open=False))
            return False
        if request is None:
            return False
        if self._is_foreign(request):
            connection.sendall(_encode(Answer(403), is_head=False, is_open=False))
            return False
        answer = self._handle(request)
        if answer.delay_s:
            self._sleep(answer.delay_s)
        is_open = answer.ending == "whole" and request.headers.get("connection", "").lower() != "close"
        is_open = is_open and answer.declared_length is None
        if answer.ending != "cut":
            connection.sendall(_encode(answer, is_head=request.method == "HEAD", is_open=is_open))
        return is_open


def _read_request(stream: BufferedReader, connection: socket.socket) -> Request | None:
    line = stream.readline(HEADER_LIMIT_BYTES)
    if line in {b"\r\n", b"\n"}:
        line = stream.readline(HEADER_LIMIT_BYTES)
    if not line:
        return None
    parts = line.decode("latin-1").split()
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise _BadRequest(400)
    headers = _read_headers(stream)
    if headers.get("expect", "").lower() == "100-continue":
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    target = parts[1].removeprefix(f"http://{headers.get('host', '')}")
    return Request.from_target(parts[0], target or "/", headers, _read_body(stream, headers))


def _read_headers(stream: BufferedReader) -> dict[str, str]:
    headers: dict[str, str] = {}
    room = HEADER_LIMIT_BYTES
    while True:
        line = stream.readline(room + 1)
        room -= len(line)
        if room < 0:
            raise _BadRequest(431)
        if line in {b"\r\n", b"\n"}:
            return headers
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon:
            raise _BadRequest(400)
        if name.strip().lower() == "host" and "host" in headers:
            raise _BadRequest(400)
        headers[name.strip().lower()] = value.strip()


def _read_body(stream: BufferedReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return _read_chunks(stream)
    text = headers.get("content-length", "0")
    if not (text.isascii() and text.isdigit()):
        raise _BadRequest(400)
    return _read_exactly(stream, int(text))


def _read_chunks(stream: BufferedReader) -> bytes:
    chunks: list[bytes] = []
    total = 0
    while True:
        try:
            size = int(stream.readline(HEADER_LIMIT_BYTES).split(b";")[0], 16)
        except ValueError:
            raise _BadRequest(400) from None
        total += size
        if total > BODY_LIMIT_BYTES:
            raise _BadRequest(413)
        if size == 0:
            _read_headers(stream)
            return b"".join(chunks)
        chunks.append(_read_exactly(stream, size))
        stream.readline(HEADER_LIMIT_BYTES)


def _read_exactly(stream: BufferedReader, size: int) -> bytes:
    if size > BODY_LIMIT_BYTES:
        raise _BadRequest(413)
    body = stream.read(size) if size else b""
    if len(body) < size:
        raise ConnectionError("the caller went away in the middle of its request")
    return body


def _encode(answer: Answer, *, is_head: bool, is_open: bool) -> bytes:
    """Return status line, headers and body as one piece, so that they leave in one packet where they fit."""
    lines = [f"HTTP/1.1 {answer.status} {_PHRASES.get(answer.status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    if answer.status not in {204, 304}:
        lines.append(f"content-length: {answer.content_length}")
    lines.append(f"connection: {'keep-alive' if is_open else 'close'}")
    head = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"
    return head if is_head else head + answer.sent_body
