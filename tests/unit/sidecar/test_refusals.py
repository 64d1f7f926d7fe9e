"""What must not get in: each is refused with a problem that says what to do, and nothing is spooled."""

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import httpx
import pytest

from holdfast.errors import HoldfastError, SweepBusy, Throttled, Unavailable
from holdfast.sidecar import bodies
from tests.fakes.sidecar import RunningSidecar, running_sidecar

DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"", 400, None),
        (b"{", 400, None),
        (b"\xef\xbb\xbf{}", 400, None),
        (b'{"trigger":"manual","state":{"a":NaN}}', 400, "state.a"),
        (b'{"trigger":"manual","state":{"a":1,"a":2}}', 400, "state.a"),
        (b'{"trigger":"manual","state":' + DEEP + b"}", 400, "state"),
        (b'{"trigger":"manual","state":"\\ud800"}', 400, "state"),
        (b'{"trigger":"manual","state":"\xff"}', 400, "state"),
        (b"null", 422, None),
        (b"[]", 422, None),
        (b'{"trigger":"manual"}', 422, "state"),
        (b'{"state":1}', 422, "trigger"),
        (b'{"trigger":"lunch","state":1}', 422, "trigger"),
        (b'{"trigger":7,"state":1}', 422, "trigger"),
        (b'{"trigger":"manual","state":1,"phase":[]}', 422, "phase"),
        (b'{"trigger":"manual","state":1,"sequence_number":0}', 422, "sequence_number"),
        (b'{"trigger":"manual","state":1,"run_id":"another"}', 422, "run_id"),
        (b'{"trigger":"manual","state":1,"checkpoint_id":"x"}', 422, "checkpoint_id"),
        (b'{"trigger":"manual","state":{"cost_accumulated":"much"}}', 422, "state.cost_accumulated"),
    ],
)
def test_a_wrong_checkpoint_is_refused_with_the_field(
    sidecar: RunningSidecar, body: bytes, status: int, field: str | None
) -> None:
    answer = sidecar.post(body, "wrong")

    problem = answer.json()
    assert answer.status_code == status, problem
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["status"] == status
    assert (problem.get("field") or "").startswith(field or "")
    assert "Traceback" not in answer.text
    assert sidecar.client.get("/v1/runs/wrong").status_code == 404


@pytest.mark.parametrize(
    "run_id",
    [
        "..",
        "%2e%2e",
        "..%2f..",
        "a%2Fb",
        "a%5cb",
        "a%00b",
        "a%0ab",
        ".git",
        "-x",
        "con",
        "x" * 129,
        "a..b",
        "é",
    ],
)
def test_a_run_id_that_could_lead_elsewhere_is_refused(sidecar: RunningSidecar, run_id: str) -> None:
    # A client would tidy the address up; so it is written by hand.
    head = f"GET /v1/runs/{run_id}/checkpoints HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    answer = _send(sidecar, head.encode())

    assert answer.startswith(b"HTTP/1.1 4"), answer
    assert b'"field":"run_id"' in answer or b'"code":"bad_http"' in answer


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:8723"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://localhost:5678"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
def test_a_request_that_a_page_could_make_is_refused(
    sidecar: RunningSidecar, headers: dict[str, str], status: int
) -> None:
    answer = sidecar.post(b'{"trigger":"manual","state":1}', "page", **headers)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert "access-control-allow-origin" not in answer.headers
    assert sidecar.client.get("/v1/runs/page").status_code == 404


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST:1", "[::1]:8723", "127.0.0.1"])
def test_the_names_of_loopback_are_known(sidecar: RunningSidecar, name: str) -> None:
    assert sidecar.client.get("/healthz", headers={"Host": name}).status_code == 200


def test_a_page_of_the_sidecar_itself_may_call_it(sidecar: RunningSidecar) -> None:
    origin = str(sidecar.client.base_url).rstrip("/")

    assert sidecar.client.get("/healthz", headers={"Origin": origin}).status_code == 200


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/runs?resumable=maybe", "resumable"),
        ("/v1/runs?resumable=true&resumable=false", "resumable"),
        ("/v1/runs/a/checkpoints/0", "at"),
        ("/v1/runs/a/checkpoints/x", "at"),
        ("/v1/runs/a/checkpoints/9999999999", "at"),
        ("/v1/runs/a/resume?at=-1", "at"),
        ("/v1/runs/a/diff?from=1", "to"),
        ("/v1/runs/a/diff?to=1", "from"),
    ],
)
def test_a_wrong_parameter_is_named(sidecar: RunningSidecar, path: str, field: str) -> None:
    answer = sidecar.client.get(path)

    assert (answer.status_code, answer.json()["field"]) == (422, field)


@pytest.mark.parametrize("query", ["wait=spooled", "timeout=-1", "timeout=nan", "timeout=301", "timeout=x"])
def test_a_wrong_wait_is_refused_before_anything_is_stored(sidecar: RunningSidecar, query: str) -> None:
    answer = sidecar.client.post(
        f"/v1/runs/impatient/checkpoints?{query}", json={"trigger": "manual", "state": 1}
    )

    assert answer.status_code == 422
    assert sidecar.client.get("/v1/runs/impatient").status_code == 404


def test_an_address_without_anything_says_where_to_look(sidecar: RunningSidecar) -> None:
    answer = sidecar.client.get("/v2/runs")

    assert answer.status_code == 404
    assert "/openapi.json" in answer.json()["detail"]


def test_a_wrong_method_is_told_the_right_ones(sidecar: RunningSidecar) -> None:
    answer = sidecar.client.delete("/v1/runs/a/checkpoints")

    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD, POST"


def test_what_is_no_http_is_refused(sidecar: RunningSidecar) -> None:
    answer = _send(sidecar, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 400")
    assert b"application/problem+json" in answer


def test_a_head_without_end_is_refused(sidecar: RunningSidecar) -> None:
    answer = _send(sidecar, b"GET / HTTP/1.1\r\n" + b"X-Padding: " + b"x" * 70_000)

    assert answer.startswith(b"HTTP/1.1 431")


def test_two_hosts_are_refused(sidecar: RunningSidecar) -> None:
    answer = _send(
        sidecar, b"GET /healthz HTTP/1.1\r\nHost: evil\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )

    assert answer.startswith(b"HTTP/1.1 400")
    assert b'"code":"several_hosts"' in answer


CHUNKED = (
    b"POST /v1/runs/framed/checkpoints HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
)


@pytest.mark.parametrize(
    "head",
    [
        CHUNKED + b"Transfer-Encoding: gzip, chunked\r\n",
        CHUNKED + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        CHUNKED + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Transfer-Encoding: chunked\r\n",
    ],
)
def test_a_body_whose_length_others_may_read_otherwise_is_refused(
    sidecar: RunningSidecar, head: bytes
) -> None:
    body = b'{"trigger":"manual","state":1}'

    answer = _send(sidecar, head + b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))

    assert answer.startswith(b"HTTP/1.1 400"), answer
    assert sidecar.client.get("/v1/runs/framed").status_code == 404


@pytest.mark.parametrize("path", [b"/v1/runs/framed/checkpoints", b"/healthz", b"/nowhere"])
@pytest.mark.parametrize(
    ("rest", "status"),
    [
        (b"X-A: b\r\n" * 1000, b"400"),
        (b"X-A: " + b"b" * 500_000, b"431"),
    ],
)
def test_trailers_are_refused_before_they_fill_the_memory(
    sidecar: RunningSidecar, path: bytes, rest: bytes, status: bytes
) -> None:
    head = CHUNKED.replace(b"/v1/runs/framed/checkpoints", path) + b"Transfer-Encoding: chunked\r\n\r\n"

    received = _press(sidecar, head + b"1\r\n{\r\n0\r\n", rest)

    # It was closed. Only who has no answer yet gets one.
    assert received.startswith(b"HTTP/1.1 " + (status if b"framed" in path else b""))


def test_an_endless_chunk_extension_is_refused(sidecar: RunningSidecar) -> None:
    received = _press(sidecar, CHUNKED + b"Transfer-Encoding: chunked\r\n\r\n", b"1;a=" + b"b" * 500_000)

    assert received.startswith(b"HTTP/1.1 431")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSidecar]:
    """A sidecar with a small limit."""
    with running_sidecar(tmp_path_factory.mktemp("small"), max_body_bytes=4096) as running:
        yield running


def test_a_large_body_is_refused_by_its_length_before_it_is_sent(small: RunningSidecar) -> None:
    head = (
        b"POST /v1/runs/large/checkpoints HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: 50000000\r\n\r\n"
    )

    answer = _send(small, head, is_whole=False)

    assert answer.startswith(b"HTTP/1.1 413")
    assert b'"limit_bytes":4096' in answer


def test_a_client_that_asks_first_is_told_so(small: RunningSidecar) -> None:
    head = (
        b"POST /v1/runs/large/checkpoints HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
        b"Content-Type: application/json\r\nContent-Length: 50000000\r\n\r\n"
    )

    answer = _send(small, head, is_whole=False)

    assert answer.startswith(b"HTTP/1.1 413")
    assert b"100 Continue" not in answer


@pytest.mark.slow
def test_a_client_that_sends_all_of_it_can_read_the_answer(small: RunningSidecar) -> None:
    answer = small.post(b"x" * 20_000_000, "large", Connection="close")

    assert answer.status_code == 413
    assert answer.json()["limit_bytes"] == 4096
    assert "raise HOLDFAST_MAX_BODY_BYTES, up to 33,554,432" in answer.json()["detail"]


def test_a_limit_that_cannot_be_raised_is_not_said_to_be(small: RunningSidecar) -> None:
    answer = small.client.post("/v1/runs/a/complete", json={"status": "x" * 70_000})

    assert answer.status_code == 413
    assert "HOLDFAST_MAX_BODY_BYTES" not in answer.json()["detail"]


def test_a_body_without_a_length_is_counted(small: RunningSidecar) -> None:
    chunks = (b"x" * 1000 for _ in range(50))

    answer = small.client.post(
        "/v1/runs/large/checkpoints", content=chunks, headers={"Content-Type": "application/json"}
    )

    assert answer.status_code == 413


def test_nothing_of_that_is_spooled(small: RunningSidecar) -> None:
    assert small.client.get("/v1/runs/large").status_code == 404
    assert small.submit("small").status_code == 202


@pytest.mark.slow
def test_a_full_spool_is_told_and_recovers(tmp_path: Path) -> None:
    with running_sidecar(tmp_path, max_spool_items=1, repo="acme/none", api_url="http://127.0.0.1:9") as full:
        first = full.submit("full")
        second = full.submit("full")
        ready = full.client.get("/readyz")

        assert first.status_code == 202
        assert second.status_code == 507
        assert "let it drain" in second.json()["detail"]
        assert (ready.status_code, ready.json()["code"]) == (503, "spool_full")
        assert full.client.get("/healthz").status_code == 200


@pytest.mark.slow
def test_a_token_keeps_others_out(tmp_path: Path) -> None:
    with running_sidecar(tmp_path, api_token="right") as guarded:
        client = guarded.client
        right = {"Authorization": "Bearer right"}

        assert client.get("/healthz").status_code == 200
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic right"}):
            answer = client.get("/v1/runs", headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        assert client.get("/metrics").status_code == 401
        assert client.get("/v1/runs", headers=right).status_code == 200


@pytest.mark.slow
def test_a_token_in_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    with running_sidecar(tmp_path / "data", api_token_file=file) as guarded:

        def status(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            return guarded.client.get("/v1/status", headers=headers).status_code

        assert (status("old"), status("new!")) == (200, 401)
        file.write_text("new!")
        assert (status("old"), status("new!")) == (401, 200)
        file.write_text("")
        assert (status("old"), status("new!")) == (401, 401)


@pytest.mark.slow
def test_whoever_may_not_come_in_is_not_listened_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lingered: list[object] = []

    async def note(receive: object) -> None:
        lingered.append(receive)

    monkeypatch.setattr(bodies, "linger", note)
    with running_sidecar(tmp_path, api_token="right") as guarded:
        head = CHUNKED + b"Content-Length: 50000000\r\n"
        # Each returns once the connection is closed.
        unknown = _send(guarded, head + b"\r\n")
        foreign = _send(guarded, head.replace(b"localhost", b"evil.example") + b"\r\n")
        heard = list(lingered)
        known = _send(guarded, head + b"Authorization: Bearer right\r\n\r\n")

    assert (unknown[:12], foreign[:12], heard) == (b"HTTP/1.1 401", b"HTTP/1.1 403", [])
    assert (known[:12], len(lingered)) == (b"HTTP/1.1 413", 1)


def _press(sidecar: RunningSidecar, beginning: bytes, rest: bytes) -> bytes:
    """Return what is answered until the connection is closed, perhaps before all of this was taken."""
    received = b""
    with _connect(sidecar) as connection, suppress(ConnectionError):
        connection.sendall(beginning)
        with suppress(ConnectionError):
            connection.sendall(rest)
        while chunk := connection.recv(65536):
            received += chunk
    return received


def _connect(sidecar: RunningSidecar) -> socket.socket:
    url = httpx.URL(str(sidecar.client.base_url))
    return socket.create_connection((url.host, url.port or 80), timeout=60)


def _send(sidecar: RunningSidecar, request: bytes, *, is_whole: bool = True) -> bytes:
    """Return what is answered to these very bytes."""
    with _connect(sidecar) as connection:
        connection.sendall(request)
        received = b""
        while (is_whole or not _is_complete(received)) and (chunk := connection.recv(65536)):
            received += chunk
        return received


def _is_complete(answer: bytes) -> bool:
    """Whether the whole answer has come, by its own length."""
    head, _, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return length is not None and len(body) >= int(length[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "error", "code", "retry_after"),
    [
        ("cleanup", SweepBusy("another clean-up is under way"), "cleanup_busy", "5"),
        (
            "complete",
            Throttled("index.json", "no calls left", kind="primary", retry_after_s=90.0),
            "github_unavailable",
            "90",
        ),
        ("complete", Unavailable("index.json", "no answer"), "github_unavailable", "5"),
    ],
)
def test_who_has_to_wait_is_told_how_long(
    sidecar: RunningSidecar,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    error: HoldfastError,
    code: str,
    retry_after: str,
) -> None:
    monkeypatch.setattr(sidecar.holdfast, call, Mock(side_effect=error))
    address = {"cleanup": "/v1/cleanup", "complete": "/v1/runs/waits/complete"}[call]

    answer = sidecar.client.post(address)

    assert (answer.status_code, answer.json()["code"]) == (503, code)
    assert answer.headers["retry-after"] == retry_after
