import base64
import contextlib
import json
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import holdfast.emulator
from holdfast.emulator import (
    AnswerWith,
    Call,
    Cut,
    Delay,
    Emulator,
    EmulatorOptions,
    EmulatorServer,
    Request,
    Rule,
    Truncate,
    WrongLength,
    serve,
)

REPO = "/repos/holdfast/checkpoints"


def talk(server: EmulatorServer, sent: bytes) -> bytes:
    """Send bytes, and return everything that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    return received


def test_connection_is_kept_for_several_requests(server: EmulatorServer) -> None:
    request = b"GET /user HTTP/1.1\r\nhost: localhost\r\nuser-agent: test\r\n\r\n"

    received = talk(server, request * 3)

    assert received.count(b"HTTP/1.1 200 OK\r\n") == 3


def test_connection_is_closed_when_asked(server: EmulatorServer) -> None:
    request = b"GET /user HTTP/1.1\r\nuser-agent: test\r\nconnection: close\r\n\r\n"

    assert talk(server, request * 2).count(b"HTTP/1.1 200 OK") == 1


def test_body_may_come_in_chunks(server: EmulatorServer) -> None:
    body = json.dumps({"message": "m", "content": base64.b64encode(b"hello").decode()}).encode()

    answer = httpx.put(f"{server.url}{REPO}/contents/a", content=iter([body[:7], body[7:]]))

    assert answer.status_code == 201


def test_body_is_awaited_with_a_continue(server: EmulatorServer) -> None:
    headers = "user-agent: t\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
    head = f"PUT {REPO}/contents/a HTTP/1.1\r\n{headers}"

    received = talk(server, head.encode() + b"{}")

    assert received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 422 ")


def test_head_has_no_body(server: EmulatorServer) -> None:
    answer = httpx.head(f"{server.url}/user")

    assert answer.status_code == 200
    assert answer.content == b""
    assert int(answer.headers["content-length"]) > 0


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\ncontent-length: 999999999999\r\n\r\n", b"413"),
        (b"GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", b"400"),
        (b"GET / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nffffffffff\r\n", b"413"),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 70_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nuser-agent: t\r\norigin: http://evil.example\r\n\r\n", b"403"),
        (b"GET / HTTP/1.1\r\nuser-agent: t\r\nsec-fetch-site: cross-site\r\n\r\n", b"403"),
        (b"GET / HTTP/1.1\r\nuser-agent: t\r\nhost: evil.example\r\n\r\n", b"403"),
        (b"GET / HTTP/1.1\r\nuser-agent: t\r\nhost: 127.0.0.1:80.evil\r\n\r\n", b"403"),
        (b"GET / HTTP/1.1\r\nhost: evil.example\r\nhost: localhost\r\n\r\n", b"400"),
    ],
)
def test_what_is_no_proper_request_is_refused(server: EmulatorServer, sent: bytes, status: bytes) -> None:
    assert talk(server, sent).startswith(b"HTTP/1.1 " + status)


def test_caller_that_goes_away_in_the_middle_is_forgotten(server: EmulatorServer) -> None:
    assert talk(server, f"PUT {REPO}/contents/a HTTP/1.1\r\ncontent-length: 50\r\n\r\n{{".encode()) == b""
    assert server.emulator.journal.entries == []


def test_cut_connection_sends_no_byte(server: EmulatorServer) -> None:
    server.emulator.faults.add(Rule(Cut(after_write=True)))

    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(f"{server.url}/user")


def test_truncated_and_overlong_answers_break_off(server: EmulatorServer) -> None:
    server.emulator.faults.add(Rule(Truncate(), times=1))
    server.emulator.faults.add(Rule(WrongLength(5), nth=2))

    for _ in range(2):
        with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
            httpx.get(f"{server.url}/user")


def test_trouble_inside_the_server_is_500_and_the_next_request_is_served(server: EmulatorServer) -> None:
    def fail(request: Request) -> None:
        raise OSError("no space left on device")

    server.emulator.faults.add(Rule(Call(before=fail), times=1))

    answers = [httpx.get(f"{server.url}/user") for _ in range(2)]

    assert [answer.status_code for answer in answers] == [500, 200]
    assert "no space left" in answers[0].json()["message"]


def test_delay_waits_before_the_answer(emulator: Emulator) -> None:
    slept: list[float] = []
    emulator.faults.add(Rule(Delay(0.2)))

    with EmulatorServer(emulator, sleep=slept.append) as server:
        httpx.get(f"{server.url}/user")

    assert slept == [0.2]


def test_stopped_server_refuses_connections_and_closes_open_ones(emulator: Emulator) -> None:
    server = EmulatorServer(emulator).start()
    with httpx.Client(base_url=server.url) as client:
        client.get("/user")
        server.stop()

        with pytest.raises(httpx.TransportError):
            client.get("/user")


def test_port_that_is_taken_is_an_os_error(server: EmulatorServer) -> None:
    with pytest.raises(OSError, match="in use"):
        EmulatorServer(server.emulator, port=server.port)


@pytest.mark.slow
def test_writers_of_different_files_do_not_disturb_each_other(server: EmulatorServer, folder: Path) -> None:
    def write(writer: int) -> list[int]:
        with httpx.Client(base_url=f"{server.url}{REPO}/contents/", timeout=60) as client:
            return [
                client.put(f"w{writer}/{number}", json={"message": "m", "content": ""}).status_code
                for number in range(10)
            ]

    with ThreadPoolExecutor(8) as pool:
        statuses = [status for part in pool.map(write, range(8)) for status in part]

    counted = subprocess.run(
        ["git", "-C", str(folder), "rev-list", "--count", "main"], capture_output=True, check=True, text=True
    )
    assert statuses == [201] * 80
    assert counted.stdout.strip() == "80"


@pytest.mark.slow
def test_two_emulators_over_one_folder_lose_nothing(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        servers = []
        for _ in range(2):
            emulator = Emulator(EmulatorOptions(root=tmp_path))
            stack.callback(emulator.close)
            servers.append(stack.enter_context(EmulatorServer(emulator)))
        client = stack.enter_context(httpx.Client(timeout=60))

        def write(number: int) -> int:
            url = f"{servers[number % 2].url}{REPO}/contents/{number}"
            return client.put(url, json={"message": "m", "content": ""}).status_code

        with ThreadPoolExecutor(4) as pool:
            statuses = list(pool.map(write, range(40)))
        listed = client.get(f"{servers[0].url}{REPO}/contents").json()

    assert statuses == [201] * 40
    assert len(listed) == 40


WRITER = """
import pathlib, sys
from holdfast.emulator import *
emulator = Emulator(EmulatorOptions(root=pathlib.Path(sys.argv[1])))
for number in range(20):
    target = f"/repos/holdfast/checkpoints/contents/{sys.argv[2]}-{number}"
    body = b'{"message": "m", "content": ""}'
    answer = emulator.handle(Request.from_target("PUT", target, {"user-agent": "test"}, body))
    assert answer.status == 201, answer
"""


@pytest.mark.processes
def test_several_processes_over_one_folder_lose_nothing(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(number)]) for number in range(3)
    ]
    codes = [writer.wait(timeout=60) for writer in writers]

    listed = subprocess.run(
        ["git", "-C", str(tmp_path / "holdfast/checkpoints.git"), "ls-tree", "--name-only", "main"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert codes == [0, 0, 0]
    assert len(listed.stdout.split()) == 60


def test_serve_tells_its_address_and_ends_when_told(tmp_path: Path) -> None:
    stop = threading.Event()
    statuses: list[int] = []

    def ready(url: str) -> None:
        statuses.append(httpx.get(f"{url}/user").status_code)
        stop.set()

    paths: list[str] = []
    serve(
        EmulatorOptions(root=tmp_path),
        faults=[Rule(AnswerWith(503))],
        on_ready=ready,
        on_request=lambda entry: paths.append(entry.path),
        stop=stop,
    )

    assert statuses == [503]
    assert paths == ["/user"]


def test_every_public_name_can_be_had() -> None:
    for name in holdfast.emulator.__all__:
        assert getattr(holdfast.emulator, name)
    with pytest.raises(AttributeError, match="nonsense"):
        getattr(holdfast.emulator, "nonsense")  # noqa: B009


@pytest.mark.processes
def test_importing_the_package_is_light() -> None:
    code = (
        "import sys, holdfast.emulator; sys.exit(bool({'pygit2', 'graphql', 'httpx'} & sys.modules.keys()))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
