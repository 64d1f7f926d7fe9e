"""What the contract suite cannot show: a server, or a proxy, that means no good."""

import gzip
import os
import socket
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import Refused, Unavailable
from holdfast.github import wire_client
from holdfast.github.calls import Answer, ReadHead
from holdfast.github.light_client import LightClient, can_reach
from holdfast.github.patience import waiting_at_most
from tests.fakes.clock import VirtualClock

SHA = "a" * 40
CONTENT = b'{"object":{"sha":"%b"}}' % SHA.encode()
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(CONTENT)
GOOD = HEAD + CONTENT
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
PACKED = gzip.compress(CONTENT, mtime=0)  # the same in every process: it is part of the names of tests
ZIPPED = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(PACKED)
PATH = "/repos/owner/state/git/ref/heads/main"


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


class ScriptedServer:
    """Answers the requests of each connection with the given texts in turn, then closes it."""

    def __init__(self, answers: Sequence[bytes], *, is_silent: bool = False) -> None:
        self._answers = answers
        self._is_silent = is_silent
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.requests: list[bytes] = []
        self.connections: list[socket.socket] = []
        self._talking: list[threading.Thread] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            talking = threading.Thread(target=self._talk, args=(connection,), daemon=True)
            talking.start()
            self._talking.append(talking)

    def _talk(self, connection: socket.socket) -> None:
        with suppress(OSError), connection.makefile("rb") as stream:
            for answer in self._answers:
                request = b"".join(takewhile(b"\r\n".__ne__, iter(stream.readline, b"")))
                if not request:
                    return
                self.requests.append(request)
                connection.sendall(answer)
            if not self._is_silent:
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()  # first: it may just have accepted one more connection
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for talking in self._talking:
            talking.join()
        for connection in self.connections:
            connection.close()


@contextmanager
def serving(*answers: bytes, is_silent: bool = False) -> Iterator[ScriptedServer]:
    server = ScriptedServer(answers, is_silent=is_silent)
    try:
        yield server
    finally:
        server.close()


def open_client(url: str, *, token: str = "secret-token", **more: Any) -> LightClient:
    return LightClient("owner/state", token=lambda: token, api_url=url, clock=VirtualClock(), **more)


def idle_connections(client: LightClient) -> Any:
    return client._wire._idle  # type: ignore[attr-defined]


class Interrupted(deque[Any]):
    """Another thread is always a little quicker: before something is added, and after it was looked for."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__()
        self._meanwhile = meanwhile

    def append(self, item: Any) -> None:
        self._meanwhile()
        super().append(item)

    def __bool__(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        b"HTTP/1.0 200 OK\r\n\r\n" + CONTENT,
        CHUNKED + chunk(CONTENT[:7]) + chunk(CONTENT[7:]) + b"0\r\n\r\n",
        ZIPPED + PACKED,
        b"HTTP/1.1 100 Continue\r\n\r\n" + GOOD,
        b"HTTP/1.1 200\r\nConnection: close\r\n\r\n" + CONTENT,
        HEAD.replace(b"\r\n\r\n", b"\r\nContent-Encoding:\r\n\r\n") + CONTENT,
    ],
    ids=["length", "old", "chunked", "gzip", "continue", "until the end", "not packed"],
)
def test_every_way_to_send_an_answer_is_understood(answer: bytes) -> None:
    with serving(answer) as server, open_client(server.url) as client:
        assert client.perform(ReadHead("main")) == SHA

    assert server.requests[0].startswith(f"GET {PATH} HTTP/1.1\r\n".encode())
    assert b"Authorization: token secret-token\r\n" in server.requests[0]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"\x16\x03\x01\x02\x00" * 40,
        HEAD + CONTENT[:-3],
        b"HTTP/1.1 200 OK\r\ncontent-length: minus\r\n\r\n<html>",
        CHUNKED + chunk(CONTENT[:7]),
        CHUNKED + b"no number\r\n",
        ZIPPED + PACKED[:-4] + b"\0\0\0\0",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + PACKED[:-9],
        b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\n" + b"x-many: 1\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nx-long: " + b"x" * 70_000 + b"\r\n\r\n",
    ],
)
def test_an_answer_that_is_none_is_unavailable_and_told_in_a_sentence(answer: bytes) -> None:
    with serving(answer) as server, open_client(server.url) as client, pytest.raises(Unavailable) as caught:
        client.perform(ReadHead("main"))

    assert caught.value.reason.startswith(("the connection to GitHub failed: ", "GitHub's answer could not"))
    assert "\n" not in caught.value.reason


@pytest.mark.parametrize(
    "answer",
    [
        b"204 No\r\ncontent-encoding: gzip\r\n\r\n",
        b"304 No\r\ncontent-encoding: gzip\r\n\r\n",
        b"304 No\r\ntransfer-encoding: chunked\r\n\r\n",
        b"404 No\r\ncontent-encoding: gzip\r\ncontent-length: 0\r\n\r\n",
        b"404 No\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"404 No\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n",
    ],
)
def test_an_answer_without_content_is_whole_however_it_is_said_to_be_packed(answer: bytes) -> None:
    with serving(b"HTTP/1.1 " + answer) as server, open_client(server.url, timeout_s=2.0) as client:
        status, _, content = client._wire.send("GET", "/x", {}, None)

    assert (status, content) == (int(answer[:3]), b"")


@pytest.mark.parametrize("status", [101, 102, 103])
def test_an_answer_is_not_taken_for_that_to_the_next_request(status: int) -> None:
    interim = b"HTTP/1.1 %d Soon\r\nlink: </x>\r\n\r\n" % status
    other = b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n"
    with serving(interim + other, GOOD) as server, open_client(server.url) as client:
        for _ in range(2):
            with pytest.raises(Unavailable, match=str(status)):
                client.perform(ReadHead("main"))

        assert len(server.connections) == 2


def test_a_server_that_hangs_is_not_waited_for_longer_than_told() -> None:
    with (
        serving(b"HTTP/1.1 200 OK\r\n", is_silent=True) as server,
        open_client(server.url, timeout_s=0.05) as client,
        pytest.raises(Unavailable) as caught,
    ):
        client.perform(ReadHead("main"))

    assert (caught.value.reason, caught.value.is_late) == ("GitHub did not answer in time", True)


@pytest.mark.parametrize("answers", [[], [GOOD]], ids=["new connection", "kept connection"])
def test_who_asks_can_have_less_time_than_usual_for_one_question(answers: list[bytes]) -> None:
    half = b"HTTP/1.1 200 OK\r\n"
    with serving(*answers, half, is_silent=True) as server, open_client(server.url, timeout_s=60.0) as client:
        for _ in answers:
            client.perform(ReadHead("main"))

        with pytest.raises(Unavailable, match="did not answer in time"), waiting_at_most(0.05):
            client.perform(ReadHead("main"))

        assert len(server.connections) == 1


def test_a_connection_that_was_asked_in_haste_has_the_usual_time_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[float | None] = []
    settimeout = socket.socket.settimeout

    def note(connection: socket.socket, seconds: float | None) -> None:
        given.append(seconds)
        settimeout(connection, seconds)

    with serving(GOOD, GOOD) as server, open_client(server.url, timeout_s=60.0) as client:
        monkeypatch.setattr(socket.socket, "settimeout", note)
        with waiting_at_most(7.0):
            client.perform(ReadHead("main"))
        client.perform(ReadHead("main"))

    assert (given[0], given[-2:]) == (7.0, [7.0, 60.0])


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 2000,
        b"HTTP/1.0 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(b"x" * 100_000),
    ],
    ids=["plain", "packed"],
)
def test_an_answer_longer_than_any_of_github_s_is_not_read_to_its_end(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_client, "_LONGEST_ANSWER_BYTES", 1000)

    with serving(answer) as server, open_client(server.url) as client, pytest.raises(Unavailable) as caught:
        client.perform(ReadHead("main"))

    assert caught.value.reason == "the answer is longer than any of GitHub's"


def test_calls_share_a_connection() -> None:
    with serving(GOOD, GOOD, GOOD) as server, open_client(server.url) as client:
        assert [client.perform(ReadHead("main")) for _ in range(3)] == [SHA] * 3
        assert len(server.connections) == 1


@pytest.mark.parametrize("answer", [GOOD, GOOD + b"too much"], ids=["closed", "with a rest"])
def test_a_connection_that_the_server_has_spoken_on_since_is_not_used_again(answer: bytes) -> None:
    with serving(answer) as server, open_client(server.url) as client:
        client.perform(ReadHead("main"))
        ((kept, *_),) = idle_connections(client)
        kept.sock.recv(1, socket.MSG_PEEK)  # until the end of it, or the rest, has come

        assert client.perform(ReadHead("main")) == SHA
        assert len(server.connections) == 2


@pytest.mark.parametrize(("idle_s", "connections"), [(5.0, 1), (5.1, 2)])
def test_a_connection_is_kept_for_five_seconds(idle_s: float, connections: int) -> None:
    clock = VirtualClock()
    with serving(GOOD, GOOD) as server, open_client(server.url, timer=clock.now) as client:
        client.perform(ReadHead("main"))
        clock.sleep(idle_s)

        assert client.perform(ReadHead("main")) == SHA
        assert len(server.connections) == connections


def test_a_forked_process_leaves_the_connections_to_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(GOOD, GOOD) as server, open_client(server.url) as client:
        client.perform(ReadHead("main"))
        ((kept, *_),) = idle_connections(client)
        with kept.sock.dup() as of_the_parent:
            monkeypatch.setattr(os, "getpid", lambda: -1)

            assert client.perform(ReadHead("main")) == SHA
            assert len(server.connections) == 2
            assert kept.sock is None
            of_the_parent.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert of_the_parent.recv(len(GOOD), socket.MSG_WAITALL) == GOOD


def test_a_client_that_is_closed_meanwhile_keeps_no_connection() -> None:
    with serving(GOOD) as server, open_client(server.url) as client:
        idle = client._wire._idle = Interrupted(client.close)  # type: ignore[attr-defined]

        assert client.perform(ReadHead("main")) == SHA
        assert len(idle) == 0


def test_a_client_can_be_closed_while_the_last_connection_is_taken() -> None:
    with serving() as server, open_client(server.url) as client:
        client._wire._idle = Interrupted(lambda: None)  # type: ignore[attr-defined]

        client.close()


def test_a_token_may_be_renewed_while_another_is_hidden() -> None:
    tokens = iter(("first-token", "second-token", "third-token"))

    class Saying(str):
        def replace(self, *arguments: Any) -> str:
            client._authorization(ReadHead("main"))
            return super().replace(*arguments)

    with serving() as server, open_client(server.url) as client:
        client._token = lambda: next(tokens)
        client._authorization(ReadHead("main"))

        assert client._hide(Saying("a first-token")) == "a [secret]"
        assert client._hide("a second-token") == "a [secret]"


def test_threads_share_the_client() -> None:
    with (
        serving(*[GOOD] * 20) as server,
        open_client(server.url) as client,
        ThreadPoolExecutor(4) as pool,
    ):
        assert list(pool.map(lambda _: client.perform(ReadHead("main")), range(20))) == [SHA] * 20


def test_a_redirect_to_another_server_tells_it_nothing() -> None:
    with serving(GOOD) as other:
        moved = b"HTTP/1.1 301 Moved\r\nlocation: %b/x\r\ncontent-length: 0\r\n\r\n" % other.url.encode()
        with serving(moved) as server, open_client(server.url) as client, pytest.raises(Refused):
            client.perform(ReadHead("main"))

        assert other.connections == []


@pytest.mark.parametrize("location", ["/a b", "/\xe4", "//127.0.0.1:1@evil.test/"])
def test_an_odd_redirect_is_refused(location: str) -> None:
    text = f"HTTP/1.1 307 Moved\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
    with serving(text.encode("latin-1")) as server, open_client(server.url) as client:
        with pytest.raises(Refused):
            client.perform(ReadHead("main"))

        assert len(server.requests) == 1


def test_a_renamed_repository_is_found_on_the_same_server() -> None:
    moved = b"HTTP/1.1 301 Moved\r\nlocation: /repositories/7?x=1\r\ncontent-length: 0\r\n\r\n"
    with serving(moved, GOOD) as server, open_client(server.url) as client:
        assert client.perform(ReadHead("main")) == SHA

    assert server.requests[1].startswith(b"GET /repositories/7?x=1 HTTP/1.1\r\n")


def test_a_plain_proxy_is_told_the_whole_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(GOOD) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//me:p%40ss@"))
        with open_client("http://github.test") as client:
            assert client.perform(ReadHead("main")) == SHA

    assert proxy.requests[0].startswith(f"GET http://github.test{PATH} HTTP/1.1\r\n".encode())
    assert b"Host: github.test\r\n" in proxy.requests[0]
    assert b"Proxy-Authorization: Basic bWU6cEBzcw==\r\n" in proxy.requests[0]


def test_a_proxy_that_is_a_tunnel_learns_no_token_and_its_refusal_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(b"HTTP/1.1 407 secret-token\r\n\r\n") as proxy:
        monkeypatch.setenv("https_proxy", proxy.url.removeprefix("http://"))
        with open_client("https://github.test") as client, pytest.raises(Unavailable) as caught:
            client.perform(ReadHead("main"))

    assert proxy.requests[0].startswith(b"CONNECT github.test:443 HTTP/1.")
    assert b"secret-token" not in b"".join(proxy.requests)
    assert "407" in caught.value.reason
    assert "secret-token" not in "".join(traceback.format_exception(caught.value))


def test_a_server_that_the_environment_excepts_is_reached_without_a_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    with serving(GOOD) as server, open_client(server.url) as client:
        assert client.perform(ReadHead("main")) == SHA


@pytest.mark.parametrize(
    ("excepted", "url", "is_excepted"),
    [
        ("ghe.test", "https://ghe.test:8443", True),
        ("ghe.test:8443", "https://ghe.test:8443", True),
        (".test:8443", "https://ghe.test:8443", True),
        ("ghe.test:443", "https://ghe.test", True),
        ("ghe.test:8443", "https://ghe.test", False),
        ("::1", "https://[::1]:8443", True),
        ("other.test", "https://ghe.test:8443", False),
        ("*", "https://ghe.test:8443", True),
    ],
)
def test_a_server_may_be_excepted_with_its_port(
    excepted: str, url: str, is_excepted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "socks5://p:1080")
    monkeypatch.setenv("no_proxy", excepted)

    assert can_reach(url) is is_excepted


@pytest.mark.parametrize(
    ("proxy", "is_reached"),
    [("http://p:3128", True), ("p:3128", True), ("socks5://p:1080", False), ("https://p", False)],
)
def test_a_proxy_of_another_kind_is_left_to_the_full_client(
    proxy: str, is_reached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", proxy)

    assert can_reach("https://api.github.com") is is_reached


@pytest.mark.slow
def test_a_server_without_tls_gets_nothing_where_tls_was_asked_for() -> None:
    with (
        serving(GOOD) as server,
        open_client(server.url.replace("http:", "https:"), timeout_s=0.2) as client,
        pytest.raises(Unavailable),
    ):
        client.perform(ReadHead("main"))

    assert b"secret-token" not in b"".join(server.requests)


def test_authorities_that_cannot_be_read_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))

    with open_client("https://127.0.0.1:9") as client, pytest.raises(Unavailable, match="FileNotFoundError"):
        client.perform(ReadHead("main"))


def test_an_odd_etag_or_name_is_not_sent() -> None:
    with serving(GOOD) as server, open_client(server.url) as client:
        wire = client._wire
        with pytest.raises(Unavailable):
            wire.send("GET", "/x", {"If-None-Match": "a\r\nX-Evil: 1"}, None)
        with pytest.raises(Unavailable):
            wire.send("GET", "/a b", {}, None)

    assert server.requests == []


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with serving() as server:
        url = server.url

    with open_client(url) as client, pytest.raises(Unavailable, match="ConnectionRefusedError"):
        client.perform(ReadHead("main"))


def test_a_closed_client_performs_nothing() -> None:
    with serving(GOOD) as server:
        client = open_client(server.url)
        client.close()

        with pytest.raises(Unavailable):
            client.perform(ReadHead("main"))


def test_every_answer_is_observed_for_the_budget() -> None:
    seen: list[Answer] = []
    text = b"HTTP/1.1 403 No\r\nX-RateLimit-Remaining: 0\r\ncontent-length: 0\r\n\r\n"
    with serving(text) as server:
        client = LightClient(
            "owner/state", token=lambda: None, api_url=server.url, clock=VirtualClock(), observe=seen.append
        )
        with client, pytest.raises(Exception, match="403"):
            client.perform(ReadHead("main"))

    assert [(each.status, each.headers["x-ratelimit-remaining"]) for each in seen] == [(403, "0")]
