"""The quick lane answers as the usual way does, and leaves to it whatever is unusual."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPResponse
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import PropertyMock, patch

import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from holdfast.errors import SpoolUnwritable
from holdfast.sidecar.quick_connections import QuickProtocol
from holdfast.sidecar.quick_lane import QuickLane
from tests.fakes.heard import heard_events
from tests.fakes.sidecar import RunningSidecar, running_sidecar

LONGEST_S = 60
CHECKPOINT = b'{"trigger": "manual", "phase": "plan", "state": {"answer": 42}}'
JSON = ("Content-Type: application/json",)


class Seen:
    """What the lane said of each request: True where it took it in, False where it left it to the others.

    `unparsed` says the same of those whose head it may know.
    """

    def __init__(self) -> None:
        self.taken: list[bool] = []
        self.unparsed: list[bool] = []
        self._take, self._take_known, self._find = QuickLane.take, QuickLane.take_known, QuickLane.find_known

    def take(self, *arguments: Any, **named: Any) -> bool:
        self.taken.append(self._take(*arguments, **named))
        return self.taken[-1]

    def find_known(self, *arguments: Any) -> Any:
        found = self._find(*arguments)
        if found is None:
            self.unparsed.append(False)
        return found

    def take_known(self, *arguments: Any) -> bool:
        self.unparsed.append(self._take_known(*arguments))
        return self.unparsed[-1]


@pytest.fixture
def seen() -> Iterator[Seen]:
    seen = Seen()
    with (
        patch.object(QuickLane, "take", lambda *arguments, **named: seen.take(*arguments, **named)),
        patch.object(QuickLane, "find_known", lambda *arguments: seen.find_known(*arguments)),
        patch.object(QuickLane, "take_known", lambda *arguments: seen.take_known(*arguments)),
    ):
        yield seen


def post(run_id: str, body: bytes = CHECKPOINT, headers: tuple[str, ...] = JSON, query: str = "") -> bytes:
    """Return a request whose head and body are sent as one."""
    lines = [f"POST /v1/runs/{run_id}/checkpoints{query} HTTP/1.1", f"Content-Length: {len(body)}", *headers]
    if not any(line.startswith("Host:") for line in headers):
        lines.append("Host: 127.0.0.1")
    return "\r\n".join([*lines, "", ""]).encode() + body


def connect(sidecar: RunningSidecar) -> socket.socket:
    address = sidecar.client.base_url
    return socket.create_connection((address.host, address.port or 80), timeout=LONGEST_S)


def exchange(sidecar: RunningSidecar, *requests: bytes) -> list[tuple[int, dict[str, str], dict[str, Any]]]:
    """Send all of it at once over one connection; return status, headers and document of each answer."""
    with closing(connect(sidecar)) as connection:
        connection.sendall(b"".join(requests))
        return [_read_answer(connection) for _ in requests]


def exchange_by_turns(
    sidecar: RunningSidecar, *requests: bytes
) -> list[tuple[int, dict[str, str], dict[str, Any]]]:
    """Do the same, each request once the one before has its answer."""
    with closing(connect(sidecar)) as connection:
        return [_send_and_read(connection, request) for request in requests]


def _send_and_read(connection: socket.socket, request: bytes) -> tuple[int, dict[str, str], dict[str, Any]]:
    connection.sendall(request)
    return _read_answer(connection)


def _read_answer(connection: socket.socket) -> tuple[int, dict[str, str], dict[str, Any]]:
    response = HTTPResponse(_Unbuffered(connection))  # type: ignore[arg-type]
    response.begin()
    headers = {name.lower(): value for name, value in response.getheaders()}
    return response.status, headers, json.loads(response.read())


class _Unbuffered:
    """A connection of which no answer reads further than to its end."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def makefile(self, _mode: str) -> Any:
        return self._connection.makefile("rb", buffering=0)


def metric(sidecar: RunningSidecar, name: str) -> float:
    lines = sidecar.client.get("/metrics").text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def test_both_ways_answer_alike(sidecar: RunningSidecar, seen: Seen) -> None:
    given = (*JSON, "X-Request-Id: mine-1")

    ((status, headers, receipt),) = exchange(sidecar, post("both", headers=given))
    # An encoded letter is unusual, and means the same run.
    ((usual_status, usual_headers, usual_receipt),) = exchange(sidecar, post("b%6fth", headers=given))

    assert seen.taken == [True]
    assert (status, usual_status) == (202, 202)
    assert {**headers, "date": ""} == {**usual_headers, "date": ""}
    assert headers["x-request-id"] == "mine-1"
    assert headers["x-content-type-options"] == "nosniff"
    assert receipt.pop("checkpoint_id") != usual_receipt.pop("checkpoint_id")
    assert usual_receipt == {
        **receipt,
        "sequence_number": 2,
        "file_path": receipt["file_path"].replace("cp_001", "cp_002"),
    }


def test_both_ways_are_counted_alike(sidecar: RunningSidecar, seen: Seen) -> None:
    names = (
        'holdfast_submits_total{outcome="accepted"}',
        "holdfast_acknowledgement_seconds_count",
        "holdfast_checkpoint_bytes_sum",
        'holdfast_http_requests_total{method="POST",route="/v1/runs/{run_id}/checkpoints",status="202"}',
    )
    figures = [[metric(sidecar, name) for name in names]]
    for path in ("counted", "c%6funted"):
        exchange(sidecar, post(path))
        figures.append([metric(sidecar, name) for name in names])

    assert seen.taken == [True]
    grown = [[after - before for before, after in zip(*pair, strict=True)] for pair in pairwise(figures)]
    assert grown == [[1, 1, len(CHECKPOINT), 1]] * 2


def test_a_request_without_an_id_gets_a_new_one(sidecar: RunningSidecar, seen: Seen) -> None:
    answers = exchange(sidecar, post("unnamed"), post("unnamed"))

    assert seen.taken == [True, True]
    assert len({headers["x-request-id"] for _, headers, _ in answers}) == 2


def test_requests_that_come_together_are_answered_in_their_order(sidecar: RunningSidecar, seen: Seen) -> None:
    bodies = [json.dumps({"trigger": "manual", "state": number}).encode() for number in range(20)]

    answers = exchange(sidecar, *(post("together", body) for body in bodies))

    assert [receipt["sequence_number"] for _, _, receipt in answers] == list(range(1, 21))
    assert seen.taken == [True] * 20
    stored = sidecar.client.get("/v1/runs/together/checkpoints/20").json()
    assert stored["state_snapshot"] == 19


def test_a_usual_request_between_two_keeps_its_place(sidecar: RunningSidecar, seen: Seen) -> None:
    answers = exchange(sidecar, post("mixed"), post("mixed", query="?wait=verified&timeout=0"), post("mixed"))

    assert [receipt["sequence_number"] for _, _, receipt in answers] == [1, 2, 3]
    assert seen.taken == [True, True]


def test_the_same_checkpoint_again_is_stored_once(sidecar: RunningSidecar, seen: Seen) -> None:
    body = b'{"trigger":"manual","state":1,"checkpoint_id":"7b0a1e52-3c4d-4e5f-8a6b-9c0d1e2f3a4b"}'

    answers = exchange(sidecar, post("again", body), post("again", body))

    assert [(status, receipt["sequence_number"]) for status, _, receipt in answers] == [(202, 1), (202, 1)]
    assert seen.taken == [True, True]


def test_what_the_commit_refuses_is_told_by_the_usual_way(sidecar: RunningSidecar, seen: Seen) -> None:
    body = b'{"trigger":"manual","state":%d,"checkpoint_id":"5f0a1e52-3c4d-4e5f-8a6b-9c0d1e2f3a4b"}'
    refused = 'holdfast_submits_total{outcome="refused"}'
    before = metric(sidecar, refused)

    (first, second, third) = exchange(
        sidecar, post("changed", body % 1), post("changed", body % 2), post("changed")
    )

    assert seen.taken == [True, True, True]
    assert first[0] == third[0] == 202
    assert second[0] == 409
    assert second[1]["content-type"] == "application/problem+json"
    assert second[2]["field"] == "checkpoint_id"
    assert metric(sidecar, refused) == before + 1


@pytest.mark.slow
def test_a_disk_that_refuses_is_told_by_the_usual_way(tmp_path: Path, seen: Seen) -> None:
    with running_sidecar(tmp_path) as sidecar:
        full = SpoolUnwritable("the disk is full")
        with patch.object(sidecar.assembly.spool, "put_all", side_effect=full):
            ((status, _, problem),) = exchange(sidecar, post("full"))
        ((after, _, _),) = exchange(sidecar, post("full"))

    assert (seen.taken, seen.unparsed) == ([True], [False, True])
    assert (status, after) == (507, 202), problem


@pytest.mark.slow
def test_a_failure_that_ends_the_sidecar_is_told_as_such(tmp_path: Path, seen: Seen) -> None:
    def put(*_: Any, **__: Any) -> Any:
        sidecar.assembly.stop.set()  # as it is done then, at the worst of moments
        raise SpoolUnwritable("the disk failed")

    with running_sidecar(tmp_path) as sidecar, patch.object(sidecar.assembly.spool, "put_all", put):
        ((status, _, _),) = exchange(sidecar, post("last"))

    assert (status, seen.taken) == (507, [True])


@pytest.mark.parametrize(
    ("request_", "status", "code"),
    [
        (post("odd", headers=(*JSON, "Host: evil.example")), 403, "foreign_host"),
        (post("odd", headers=(*JSON, "Host: 127.0.0.1", "Host: 127.0.0.1")), 400, "several_hosts"),
        (post("odd", headers=(*JSON, "Origin: http://evil.example")), 403, "foreign_origin"),
        (post("odd", headers=("Content-Type: text/plain",)), 415, "not_json"),
        (post("odd", headers=(*JSON, "Content-Encoding: gzip")), 415, "encoded"),
        (post("odd", headers=(*JSON, "Idempotency-Key: \x01")), 400, "bad_http"),
        (post("odd", headers=(*JSON, f"Idempotency-Key: {'k' * 256}")), 422, "invalid"),
        (post("o/dd"), 404, "no_such_address"),
        (post("odd", b"{"), 400, "malformed_json"),
        (post("odd", b'{"trigger":"lunch","state":1}'), 422, "invalid"),
        (
            post("odd", b'{"trigger":"manual","state":"' + b"x" * 40_000 + b'"}', query="?wait=soon"),
            422,
            "invalid",
        ),
    ],
)
def test_what_is_refused_is_refused_by_the_usual_way(
    sidecar: RunningSidecar, seen: Seen, request_: bytes, status: int, code: str
) -> None:
    ((answered, headers, problem),) = exchange(sidecar, request_)

    assert (answered, problem["code"]) == (status, code), problem
    assert headers["content-type"] == "application/problem+json"
    assert True not in seen.taken
    assert sidecar.client.get("/v1/runs/odd").status_code == 404


@pytest.mark.parametrize(
    "request_",
    [
        post("left", headers=(*JSON, "Idempotency-Key: order-17")),
        post("left", b'{"trigger":"manual","state":"' + b"x" * 40_000 + b'"}'),
        post("left", query="?wait=verified&timeout=0"),
    ],
)
def test_what_is_unusual_is_taken_in_by_the_usual_way(
    sidecar: RunningSidecar, seen: Seen, request_: bytes
) -> None:
    ((status, _, _),) = exchange(sidecar, request_)

    assert status in (201, 202)
    assert True not in seen.taken


@pytest.mark.slow
def test_a_token_is_asked_for(tmp_path: Path, seen: Seen) -> None:
    with running_sidecar(tmp_path, api_token="sesame") as sidecar:
        ((unknown, _, _),) = exchange(sidecar, post("closed"))
        ((known, _, _),) = exchange(sidecar, post("closed", headers=(*JSON, "Authorization: Bearer sesame")))

    assert (unknown, known) == (401, 202)
    assert seen.taken == [False, True]


@pytest.mark.slow
def test_a_limit_that_was_set_holds_without_a_length(tmp_path: Path, seen: Seen) -> None:
    body = b'{"trigger":"manual","state":"' + b"x" * 3000 + b'"}'
    head = post("limited", b"", (*JSON, "Transfer-Encoding: chunked")).replace(b"Content-Length: 0\r\n", b"")
    with running_sidecar(tmp_path, max_body_bytes=2048) as sidecar:
        ((status, _, problem),) = exchange(sidecar, head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

    assert (status, problem["code"]) == (413, "too_large")
    assert seen.taken == [False]


@pytest.mark.slow
def test_a_sidecar_that_is_about_to_end_takes_nothing_in(tmp_path: Path, seen: Seen) -> None:
    with running_sidecar(tmp_path) as sidecar:
        with patch("holdfast.sidecar.service.Service.is_stopping", True):
            ((status, _, problem),) = exchange(sidecar, post("late"))
        ((after, _, receipt),) = exchange(sidecar, post("late"))

    assert (status, problem["code"]) == (503, "stopping")
    assert (after, receipt["sequence_number"]) == (202, 1)
    assert seen.taken == [False, True]


@pytest.mark.slow
def test_every_request_is_logged_where_debugging_asks_for_it(tmp_path: Path, seen: Seen) -> None:
    with running_sidecar(tmp_path, log_level="debug") as sidecar:
        ((status, _, _),) = exchange(sidecar, post("logged"))

    assert status == 202
    assert seen.taken == []


def test_a_client_that_asks_for_it_is_hung_up_on(sidecar: RunningSidecar, seen: Seen) -> None:
    with closing(connect(sidecar)) as connection:
        connection.sendall(post("hung-up", headers=(*JSON, "Connection: close")))
        received = b"".join(iter(lambda: connection.recv(65536), b""))

    assert received.startswith(b"HTTP/1.1 202 Accepted\r\n")
    assert b"connection: close\r\n" in received.lower()
    assert seen.taken == [True]


@pytest.mark.slow
def test_a_client_that_has_gone_has_its_checkpoint_stored(tmp_path: Path, seen: Seen) -> None:
    with running_sidecar(tmp_path) as sidecar:
        put_all = sidecar.assembly.spool.put_all
        connection = connect(sidecar)

        def put(*arguments: Any, **named: Any) -> Any:
            connection.close()
            return put_all(*arguments, **named)

        with patch.object(sidecar.assembly.spool, "put_all", put):
            connection.sendall(post("gone"))
            while connection.fileno() >= 0:
                sidecar.client.get("/healthz")
        ((_, _, receipt),) = exchange(sidecar, post("gone"))

    assert seen.taken == [True]
    assert receipt["sequence_number"] == 2


def test_a_body_that_comes_after_its_head_is_waited_for_by_the_usual_way(
    sidecar: RunningSidecar, seen: Seen
) -> None:
    has_head, is_open_to = threading.Event(), QuickLane.is_open_to

    def look(lane: QuickLane, scope: Any) -> bool:
        has_head.set()
        return is_open_to(lane, scope)

    request = post("parted")
    with patch.object(QuickLane, "is_open_to", look), closing(connect(sidecar)) as connection:
        connection.sendall(request[:-10])
        assert has_head.wait(LONGEST_S)
        connection.sendall(request[-10:] + post("parted"))
        answers = [_read_answer(connection) for _ in range(2)]

    assert [receipt["sequence_number"] for _, _, receipt in answers] == [1, 2]
    assert seen.taken == [True]


def of_size(size_bytes: int) -> bytes:
    return b'{"trigger":"manual","state":"' + b"x" * size_bytes + b'"}'


def test_a_head_that_came_before_is_not_parsed_again(sidecar: RunningSidecar, seen: Seen) -> None:
    answers = exchange_by_turns(sidecar, *(post("sent-again", of_size(size)) for size in (10, 10, 3000, 1)))

    assert (seen.taken, seen.unparsed) == ([True], [False, True, True, True])
    parsed, *others = [{**headers, "date": "", "x-request-id": ""} for _, headers, _ in answers]
    assert others == [parsed] * 3
    assert [(status, receipt["sequence_number"]) for status, _, receipt in answers] == [
        (202, 1),
        (202, 2),
        (202, 3),
        (202, 4),
    ]
    assert len({headers["x-request-id"] for _, headers, _ in answers}) == 4
    stored = sidecar.client.get("/v1/runs/sent-again/checkpoints/3").json()
    assert stored["state_snapshot"] == "x" * 3000


def test_what_is_not_parsed_is_counted_alike(sidecar: RunningSidecar, seen: Seen) -> None:
    names = ('holdfast_submits_total{outcome="accepted"}', "holdfast_checkpoint_bytes_sum")
    before = [metric(sidecar, name) for name in names]

    exchange_by_turns(sidecar, *[post("counted-too")] * 3)

    assert seen.unparsed.count(True) == 2
    assert [metric(sidecar, name) for name in names] == [before[0] + 3, before[1] + 3 * len(CHECKPOINT)]


def test_what_is_refused_under_a_known_head_is_refused_by_the_usual_way(
    sidecar: RunningSidecar, seen: Seen
) -> None:
    known = post("refused")
    changed = b'{"trigger":"manual","state":%d,"checkpoint_id":"0d0a1e52-3c4d-4e5f-8a6b-9c0d1e2f3a4b"}'

    answers = exchange_by_turns(
        sidecar,
        known,
        post("refused", b"{"),
        post("refused", changed % 1),
        post("refused", changed % 2),
        known,
    )

    assert [status for status, _, _ in answers] == [202, 400, 202, 409, 202]
    assert answers[1][2]["code"] == "malformed_json"
    assert answers[3][2]["field"] == "checkpoint_id"
    assert [answers[number][2]["sequence_number"] for number in (0, 2, 4)] == [1, 2, 3]
    assert seen.unparsed == [False, False, True, True, True]


@pytest.mark.slow
def test_a_token_that_was_replaced_opens_no_known_head(tmp_path: Path, seen: Seen) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("sesame")
    known = post("closed", headers=(*JSON, "Authorization: Bearer sesame"))
    with (
        running_sidecar(tmp_path, api_token_file=token_file) as sidecar,
        closing(connect(sidecar)) as connection,
    ):
        before = [_send_and_read(connection, known)[0] for _ in range(2)]
        token_file.write_text("another one")
        os.utime(token_file, ns=(1, 1))
        after, _, problem = _send_and_read(connection, known)

    assert (before, after, problem["code"]) == ([202, 202], 401, "token_needed")
    assert seen.unparsed == [False, True, False]


@pytest.mark.slow
def test_requests_behind_one_that_is_not_parsed_keep_their_places(tmp_path: Path, seen: Seen) -> None:
    has_arrived, may_commit = threading.Event(), threading.Event()
    with running_sidecar(tmp_path) as sidecar, closing(connect(sidecar)) as connection:
        _send_and_read(connection, post("queued"))
        put_all = sidecar.assembly.spool.put_all

        def put(*arguments: Any, **named: Any) -> Any:
            has_arrived.set()
            assert may_commit.wait(LONGEST_S)
            return put_all(*arguments, **named)

        with patch.object(sidecar.assembly.spool, "put_all", put):
            connection.sendall(post("queued"))
            assert has_arrived.wait(LONGEST_S)
            connection.sendall(post("queued", b"{"))
            connection.sendall(post("queued"))
            may_commit.set()
            answers = [_read_answer(connection) for _ in range(3)]

    assert [status for status, _, _ in answers] == [202, 400, 202]
    assert [answers[number][2]["sequence_number"] for number in (0, 2)] == [2, 3]
    assert seen.unparsed[1] is True


def test_what_looks_like_a_known_head_amid_another_one_is_a_part_of_that(
    sidecar: RunningSidecar, seen: Seen
) -> None:
    known = post("inner")
    begun = b"POST /v1/runs/outer/checkpoints HTTP/1.1\r\nX-Note: "
    with closing(connect(sidecar)) as connection:
        _send_and_read(connection, known)
        # As one with a request before it, so that its beginning arrives while an answer is due.
        connection.sendall(known + begun)
        first = _read_answer(connection)
        status, _, receipt = _send_and_read(connection, known)

    assert first[0] == status == 202
    assert (receipt["run_id"], receipt["sequence_number"]) == ("outer", 1)
    assert seen.unparsed == [False, False]


@pytest.mark.parametrize(
    "head",
    [
        ("Connection: close",),
        (f"X-Note: {'x' * 1100}",),
    ],
)
def test_unusual_heads_are_parsed_each_time(
    sidecar: RunningSidecar, seen: Seen, head: tuple[str, ...]
) -> None:
    request = post("parsed", headers=(*JSON, *head))
    for _ in range(2):
        with closing(connect(sidecar)) as connection:
            connection.sendall(request)
            received = connection.recv(65536)
            assert received.startswith(b"HTTP/1.1 202")

    assert True not in seen.unparsed


@pytest.mark.slow
def test_a_sidecar_that_is_about_to_end_hangs_up_after_what_is_not_parsed(tmp_path: Path, seen: Seen) -> None:
    has_arrived, may_commit = threading.Event(), threading.Event()
    with running_sidecar(tmp_path) as sidecar, closing(connect(sidecar)) as connection:
        _send_and_read(connection, post("last"))
        put_all = sidecar.assembly.spool.put_all

        def put(*arguments: Any, **named: Any) -> Any:
            has_arrived.set()
            assert may_commit.wait(LONGEST_S)
            return put_all(*arguments, **named)

        with patch.object(sidecar.assembly.spool, "put_all", put):
            connection.sendall(post("last"))
            assert has_arrived.wait(LONGEST_S)
            sidecar.assembly.stop.set()
            may_commit.set()
            status, _, receipt = _read_answer(connection)
        assert connection.recv(1) == b""

    assert (status, receipt["sequence_number"]) == (202, 2)
    assert seen.unparsed == [False, True]


@pytest.mark.slow
def test_a_client_that_has_gone_has_what_is_not_parsed_stored(tmp_path: Path, seen: Seen) -> None:
    with running_sidecar(tmp_path) as sidecar:
        connection = connect(sidecar)
        _send_and_read(connection, post("left"))
        put_all = sidecar.assembly.spool.put_all

        def put(*arguments: Any, **named: Any) -> Any:
            connection.close()
            return put_all(*arguments, **named)

        with patch.object(sidecar.assembly.spool, "put_all", put):
            connection.sendall(post("left"))
            while connection.fileno() >= 0:
                sidecar.client.get("/healthz")
        ((_, _, receipt),) = exchange(sidecar, post("left"))

    assert seen.unparsed[:2] == [False, True]
    assert receipt["sequence_number"] == 3


@pytest.mark.slow
@pytest.mark.parametrize(("query", "taken_in"), [("", 2), ("?wait=verified&timeout=0", 1)])
def test_a_client_that_has_gone_after_several_requests_is_no_failure(
    tmp_path: Path, query: str, taken_in: int
) -> None:
    """While one of them is in the lane, nothing is read, so that the loss shows with the next one."""
    has_lost, lose = threading.Event(), QuickProtocol.connection_lost

    def note_loss(protocol: QuickProtocol, error: Exception | None) -> None:
        lose(protocol, error)
        has_lost.set()

    with running_sidecar(tmp_path) as sidecar, closing(connect(sidecar)) as connection:
        put_all = sidecar.assembly.spool.put_all

        def put(*arguments: Any, **named: Any) -> Any:
            connection.close()
            begun.append(1)
            assert len(begun) < taken_in or has_lost.wait(LONGEST_S)
            return put_all(*arguments, **named)

        begun: list[int] = []
        with (
            patch.object(QuickProtocol, "connection_lost", note_loss),
            patch.object(sidecar.assembly.spool, "put_all", put),
            heard_events() as heard,
        ):
            connection.sendall(post("gone", query=query) * (taken_in + 1))
            assert has_lost.wait(LONGEST_S)
            ((status, _, receipt),) = exchange(sidecar, post("gone"))

    assert (status, receipt["sequence_number"]) == (202, taken_in + 1)
    assert not heard.names() & {"answer_failed", "request_failed"}


@pytest.mark.slow
def test_no_more_heads_are_kept_in_mind_than_a_limit(tmp_path: Path, seen: Seen) -> None:
    runs = ("one", "two", "three", "two", "one")
    with patch("holdfast.sidecar.quick_lane.MOST_KNOWN_HEADS", 2), running_sidecar(tmp_path) as sidecar:
        answers = exchange_by_turns(sidecar, *(post(run) for run in runs))

    assert [status for status, _, _ in answers] == [202] * 5
    assert seen.unparsed == [False, False, False, True, False]


@pytest.mark.parametrize("name", ["X-Request-Id", "Traceparent"])
def test_heads_that_come_only_once_are_not_kept_in_mind(
    sidecar: RunningSidecar, seen: Seen, name: str
) -> None:
    request = post("unique", headers=(*JSON, f"{name}: mine-7"))

    answers = exchange_by_turns(sidecar, request, request)

    assert [status for status, _, _ in answers] == [202, 202]
    assert seen.unparsed == [False, False]


@pytest.mark.slow
def test_a_request_behind_another_is_refused_before_its_body_has_come(tmp_path: Path, seen: Seen) -> None:
    begun = post("closed", b"").replace(b"Content-Length: 0", b"Content-Length: 100")
    with running_sidecar(tmp_path, api_token="sesame") as sidecar, closing(connect(sidecar)) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + begun)
        answers = [_read_answer(connection)[0] for _ in range(2)]

    assert answers == [200, 401]
    assert seen.taken == []


def test_a_client_that_does_not_read_its_answers_is_left_to_the_usual_way(
    sidecar: RunningSidecar, seen: Seen
) -> None:
    known = post("unread")
    exchange_by_turns(sidecar, known, known)
    paused = patch.object(FlowControl, "write_paused", PropertyMock(return_value=True), create=True)
    with paused, closing(connect(sidecar)) as connection:
        status, _, _ = _send_and_read(connection, known)

    assert status == 202
    assert (seen.taken, seen.unparsed) == ([True], [False, True])


@pytest.mark.parametrize("count", [1, 2])
def test_an_answer_that_cannot_be_written_is_a_500(sidecar: RunningSidecar, seen: Seen, count: int) -> None:
    run_id = f"unwritten-{count}"
    with closing(connect(sidecar)) as connection:
        for _ in range(count - 1):
            _send_and_read(connection, post(run_id))
        flaw = RuntimeError("nobody foresaw this")
        with patch("holdfast.sidecar.quick_lane._write", side_effect=flaw), heard_events() as heard:
            broken = _send_and_read(connection, post(run_id))[0]
            heard.wait_for("request_failed", exc_info=flaw)
        after, _, receipt = _send_and_read(connection, post(run_id))

    # What is on disk stays there: the client may send it again.
    assert (broken, after, receipt["sequence_number"]) == (500, 202, count + 1)
    assert seen.unparsed.count(True) == count


@pytest.mark.slow
@pytest.mark.parametrize("are_known", [False, True])
def test_a_disk_that_fails_is_counted_also_if_the_client_has_gone(
    tmp_path: Path, seen: Seen, are_known: bool
) -> None:
    failed = 'holdfast_submits_total{outcome="failed"}'
    with running_sidecar(tmp_path) as sidecar:
        connection = connect(sidecar)
        if are_known:
            _send_and_read(connection, post("gone"))
        has_lost, lose = threading.Event(), QuickProtocol.connection_lost

        def note_loss(protocol: QuickProtocol, error: Exception | None) -> None:
            lose(protocol, error)
            has_lost.set()

        def put(*_: Any, **__: Any) -> Any:
            connection.close()
            assert has_lost.wait(LONGEST_S)
            raise SpoolUnwritable("the disk is full")

        with (
            patch.object(QuickProtocol, "connection_lost", note_loss),
            patch.object(sidecar.assembly.spool, "put_all", put),
            heard_events() as heard,
        ):
            connection.sendall(post("gone"))
            heard.wait_for("checkpoint_not_stored" if are_known else "request_answered")
        assert metric(sidecar, failed) == 1

    assert seen.unparsed[:2] == ([False, True] if are_known else [False, False])
