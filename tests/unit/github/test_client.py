import base64
import gc
import json
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
import respx

from holdfast import __version__
from holdfast.errors import (
    Conflict,
    GatewayError,
    InvalidSettings,
    Missing,
    Refused,
    Throttled,
    Unavailable,
)
from holdfast.format.git_ids import blob_sha
from holdfast.github.calls import (
    Answer,
    Call,
    ListFolder,
    ReadBlob,
    ReadFile,
    ReadHead,
    ReadHeadIfChanged,
    ReadTree,
)
from holdfast.github.client import GitHubClient
from holdfast.github.inspection import ReadCommit, ReadRepository, RepositoryRecord
from holdfast.github.patience import waiting_at_most
from holdfast.github.results import HeadReading
from holdfast.github.write_calls import CreateBranch, DeleteFile, Revision, WriteCommit, WriteFile, WriteTree
from tests.fakes.clock import VirtualClock

API = "https://api.github.com"
ROOT = f"{API}/repos/owner/state"
SHA = "a" * 40
RAW = {"content-type": "application/vnd.github.raw+json; charset=utf-8"}
WRITE = WriteFile("runs/a.json", b"{}", "Checkpoint 1", "checkpoints")
WAITS = ("connect", "read", "write", "pool")
WRITTEN = {"content": {"sha": blob_sha(b"{}")}, "commit": {"sha": SHA}}


def open_client(
    token: Callable[[], str | None] = lambda: "secret-token", api_url: str | None = None, **more: Any
) -> GitHubClient:
    return GitHubClient("owner/state", token=token, api_url=api_url, clock=VirtualClock(), **more)


@pytest.fixture(scope="module")
def client() -> Iterator[GitHubClient]:
    with open_client() as client:
        yield client


def answer_head(respx_mock: respx.MockRouter, **answer: Any) -> respx.Route:
    return respx_mock.get(f"{ROOT}/git/ref/heads/main").respond(**answer)


def test_request_says_who_we_are_and_what_we_understand(
    respx_mock: respx.MockRouter, client: GitHubClient
) -> None:
    route = answer_head(respx_mock, json={"object": {"sha": SHA}})

    assert client.perform(ReadHead("main")) == SHA

    headers = route.calls.last.request.headers
    assert headers["user-agent"] == f"holdfast/{__version__}"
    assert headers["x-github-api-version"] == "2022-11-28"
    assert headers["accept"] == "application/vnd.github+json"
    assert headers["authorization"] == "token secret-token"


def test_changed_token_is_used_by_the_next_request(respx_mock: respx.MockRouter) -> None:
    tokens = iter(["old\n", "new", None])
    route = answer_head(respx_mock, json={"object": {"sha": SHA}})

    with open_client(token=lambda: next(tokens)) as client:
        for _ in range(3):
            client.perform(ReadHead("main"))

    sent = [call.request.headers.get("authorization") for call in route.calls]
    assert sent == ["token old", "token new", None]


ECHO = "x" * 290 + " secret-token was not accepted"


@pytest.mark.parametrize(
    "answer",
    [
        {"status_code": 401, "json": {"message": ECHO}},
        {"status_code": 401, "content": b'{"message": "\\u0073ecret-token is unknown"}'},
        {"status_code": 422, "json": {"message": "no", "errors": [{"message": ECHO}]}},
        {"status_code": 403, "json": {}, "headers": {"x-accepted-github-permissions": "secret-token"}},
        {"status_code": 429, "json": {}, "headers": {"x-ratelimit-resource": "secret-token"}},
        {"status_code": 301, "headers": {"location": "http://secret-token.example/"}},
        {"status_code": 502, "json": {"message": ECHO}},
    ],
)
def test_a_token_that_the_server_echoes_goes_no_further(
    respx_mock: respx.MockRouter, client: GitHubClient, answer: Any
) -> None:
    answer_head(respx_mock, **answer)

    with pytest.raises(GatewayError) as caught:
        client.perform(ReadHead("main"))

    shown = f"{caught.value} {caught.value.__dict__}"
    assert "secret" not in shown.replace("[secret]", "")


def test_a_token_that_a_proxy_echoes_goes_no_further(
    respx_mock: respx.MockRouter, client: GitHubClient
) -> None:
    respx_mock.get(f"{ROOT}/git/ref/heads/main").mock(side_effect=httpx.ProxyError("407 for secret-token"))

    with pytest.raises(Unavailable) as caught:
        client.perform(ReadHead("main"))

    assert "secret-token" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.slow
@pytest.mark.parametrize("token", ["two words", "line\nbreak", "schlüssel", "\x00"])
def test_token_that_cannot_be_one_is_refused_before_anything_is_sent(
    respx_mock: respx.MockRouter, token: str
) -> None:
    with open_client(token=lambda: token) as client, pytest.raises(Refused) as caught:
        client.perform(ReadHead("main"))

    assert caught.value.kind == "auth"
    assert token not in str(caught.value)
    assert not respx_mock.calls


def test_every_answer_is_observed_errors_included(respx_mock: respx.MockRouter) -> None:
    seen: list[Answer] = []
    answers = [
        httpx.Response(200, json={"object": {"sha": SHA}}, headers={"X-RateLimit-Remaining": "42"}),
        httpx.Response(
            403, json={"message": "API rate limit exceeded"}, headers={"X-RateLimit-Remaining": "0"}
        ),
        httpx.Response(500),
    ]
    respx_mock.get(f"{ROOT}/git/ref/heads/main").mock(side_effect=answers)

    with open_client(observe=seen.append) as client:
        client.perform(ReadHead("main"))
        with pytest.raises(Throttled):
            client.perform(ReadHead("main"))
        with pytest.raises(Unavailable):
            client.perform(ReadHead("main"))

    assert [answer.status for answer in seen] == [200, 403, 500]
    assert [answer.headers.get("x-ratelimit-remaining") for answer in seen] == ["42", "0", None]
    assert all(answer.call == ReadHead("main") for answer in seen)
    assert seen[0].received_at == VirtualClock().now()


@pytest.mark.parametrize("status", [403, 429, 500, 502, 503])
def test_failed_request_is_sent_only_once(
    respx_mock: respx.MockRouter, client: GitHubClient, status: int
) -> None:
    route = respx_mock.put(f"{ROOT}/contents/runs/a.json").respond(status, headers={"retry-after": "3600"})

    with pytest.raises(GatewayError):
        client.perform(WRITE)

    assert route.call_count == 1


def test_retry_after_that_is_a_date_is_understood(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    headers = {"retry-after": "Fri, 15 Jan 2027 08:02:00 GMT", "date": "Fri, 15 Jan 2027 08:00:00 GMT"}
    answer_head(respx_mock, status_code=429, headers=headers)

    with pytest.raises(Throttled) as caught:
        client.perform(ReadHead("main"))

    assert caught.value.retry_after_s == 120


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (httpx.ConnectError("refused"), "the connection to GitHub failed: ConnectError: refused"),
        (httpx.ReadTimeout("slow"), "GitHub did not answer in time"),
        (httpx.ConnectTimeout("slow"), "GitHub did not answer in time"),
        (httpx.RemoteProtocolError("cut"), "the connection to GitHub failed: RemoteProtocolError: cut"),
        (httpx.DecodingError("gzip"), "the connection to GitHub failed: DecodingError: gzip"),
    ],
)
def test_broken_connection_is_unavailable(
    respx_mock: respx.MockRouter, client: GitHubClient, failure: Exception, words: str
) -> None:
    respx_mock.put(f"{ROOT}/contents/runs/a.json").mock(side_effect=failure)

    with pytest.raises(Unavailable) as caught:
        client.perform(WRITE)

    assert caught.value.reason == words
    assert caught.value.is_late == isinstance(failure, httpx.TimeoutException)


CALLS_WITH_JSON: list[Call[Any]] = [
    ReadRepository(),
    ListFolder("runs", "main"),
    ReadTree(SHA),
    ReadHead("main"),
    ReadCommit(SHA),
    WRITE,
    DeleteFile("runs/a.json", "Delete", "main", SHA),
    WriteTree({"a.json": "{}"}),
    WriteCommit(SHA, "Commit"),
]


@pytest.mark.parametrize("body", [b"", b'{"object": {"sha', b"null", b"7", b"[7]", b"<html>", b"\xff"])
@pytest.mark.parametrize("call", CALLS_WITH_JSON, ids=lambda call: type(call).__name__)
def test_answer_that_makes_no_sense_is_unavailable(
    respx_mock: respx.MockRouter, client: GitHubClient, call: Call[Any], body: bytes
) -> None:
    respx_mock.route(host="api.github.com").respond(200, content=body)

    with pytest.raises((Unavailable, Missing)) as caught:
        client.perform(call)

    is_list_of_branches = isinstance(call, ReadHead) and body == b"[7]"
    assert isinstance(caught.value, Missing) == is_list_of_branches


def test_file_is_read_raw_in_one_request(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    route = respx_mock.get(f"{ROOT}/contents/runs/a.json", params={"ref": "checkpoints"})
    route.respond(200, content=b'{"a":1}', headers=RAW)

    file = client.perform(ReadFile("runs/a.json", "checkpoints"))

    assert (file.content, file.blob_sha) == (b'{"a":1}', blob_sha(b'{"a":1}'))
    assert route.calls.last.request.headers["accept"] == "application/vnd.github.raw+json"
    assert route.call_count == 1


def test_folder_is_not_a_file(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    listing = [{"name": "a.json", "path": "runs/a.json", "type": "file", "sha": SHA}]
    respx_mock.get(f"{ROOT}/contents/runs").respond(200, json=listing)

    with pytest.raises(Missing):
        client.perform(ReadFile("runs", "main"))


@pytest.mark.parametrize("content", [b'[{"path": "elsewhere"}]', b"[1]", b'{"type": "dir"}', b"[torn"])
def test_json_that_is_no_listing_is_a_file_whatever_its_media_type(
    respx_mock: respx.MockRouter, client: GitHubClient, content: bytes
) -> None:
    headers = {"content-type": "application/json; charset=utf-8"}
    respx_mock.get(f"{ROOT}/contents/runs/a.json").respond(200, content=content, headers=headers)

    assert client.perform(ReadFile("runs/a.json", "main")).content == content


def test_path_is_encoded_segment_by_segment(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    route = respx_mock.route(host="api.github.com").respond(200, content=b"", headers=RAW)

    client.perform(ReadFile("runs/a b?x=1#2%20é.json", "feature/x&y"))

    sent = route.calls.last.request.url.raw_path
    assert sent == b"/repos/owner/state/contents/runs/a%20b%3Fx%3D1%232%2520%C3%A9.json?ref=feature%2Fx%26y"


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "a/../b", "..", "./a", "a\nb", "a\x00", "a\ud800"])
def test_path_that_could_leave_its_place_is_refused_unsent(
    respx_mock: respx.MockRouter, client: GitHubClient, path: str
) -> None:
    for call in (ReadFile(path, "main"), WriteFile(path, b"", "m", "main"), ReadHead(path)):
        with pytest.raises(Refused) as caught:
            client.perform(call)
        assert caught.value.kind == "invalid"

    assert not respx_mock.calls


def test_branch_to_make_is_checked_too(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    with pytest.raises(Refused):
        client.perform(CreateBranch("../main", SHA))

    assert not respx_mock.calls


def test_path_too_long_for_a_url_is_refused(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    with pytest.raises(Refused):
        client.perform(ReadFile("a" * 70_000, "main"))

    assert not respx_mock.calls


def test_text_that_is_not_unicode_is_refused(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    with pytest.raises(Refused) as caught:
        client.perform(WriteTree({"a.json": "\ud800"}))

    assert caught.value.kind == "invalid"
    assert not respx_mock.calls


def sent_json(route: respx.Route) -> Any:
    return json.loads(route.calls.last.request.content)


def test_new_file_is_sent_without_a_sha(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    route = respx_mock.put(f"{ROOT}/contents/runs/a.json").respond(201, json=WRITTEN)

    revision = client.perform(WRITE)

    assert revision == Revision(SHA, {"runs/a.json": blob_sha(b"{}")})
    assert sent_json(route) == {"message": "Checkpoint 1", "content": "e30=", "branch": "checkpoints"}


def test_update_names_the_blob_and_default_branch_is_not_named(
    respx_mock: respx.MockRouter, client: GitHubClient
) -> None:
    route = respx_mock.put(f"{ROOT}/contents/runs/a.json").respond(200, json=WRITTEN)

    client.perform(WriteFile("runs/a.json", b"{}", "m", branch="", expected_sha=SHA))

    assert sent_json(route) == {"message": "m", "content": "e30=", "sha": SHA}


def test_blob_other_than_what_was_sent_is_unavailable(
    respx_mock: respx.MockRouter, client: GitHubClient
) -> None:
    respx_mock.put(f"{ROOT}/contents/runs/a.json").respond(201, json={**WRITTEN, "content": {"sha": SHA}})

    with pytest.raises(Unavailable, match="not what was sent"):
        client.perform(WRITE)


def test_blob_that_comes_back_torn_is_unavailable(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    sha = blob_sha(b"whole")
    respx_mock.get(f"{ROOT}/git/blobs/{sha}").respond(200, content=b"who", headers=RAW)

    with pytest.raises(Unavailable):
        client.perform(ReadBlob(sha))


@pytest.mark.parametrize(
    ("more", "can_write"),
    [
        ({"permissions": {"push": True}}, True),
        ({"permissions": {"push": False}}, False),
        ({"permissions": {"push": True}, "archived": True}, False),
        ({}, True),
    ],
)
def test_repository_that_says_no_cannot_be_written(
    respx_mock: respx.MockRouter, client: GitHubClient, more: dict[str, Any], can_write: bool
) -> None:
    record = {
        "full_name": "owner/state",
        "default_branch": "main",
        "html_url": "https://github.com/owner/state",
    }
    respx_mock.get(ROOT).respond(200, json=record | more)

    expected = RepositoryRecord("owner/state", "main", "https://github.com/owner/state", can_write)
    assert client.perform(ReadRepository()) == expected


def test_links_and_submodules_are_neither_file_nor_folder(
    respx_mock: respx.MockRouter, client: GitHubClient
) -> None:
    kinds = {
        "a": ("blob", "100644"),
        "b": ("blob", "120000"),
        "c": ("commit", "160000"),
        "d": ("tree", "040000"),
    }
    tree = [{"path": name, "type": kind, "mode": mode, "sha": SHA} for name, (kind, mode) in kinds.items()]
    respx_mock.get(f"{ROOT}/git/trees/{SHA}").respond(200, json={"tree": tree, "truncated": True})
    content = [
        {"name": kind, "type": kind, "sha": SHA, "size": 0}
        for kind in ("file", "dir", "symlink", "submodule")
    ]
    respx_mock.get(f"{ROOT}/contents/x").respond(200, json=content)

    listing = client.perform(ReadTree(SHA))
    folder = client.perform(ListFolder("x", "main"))

    assert [entry.kind for entry in listing.entries] == ["file", "other", "other", "folder"]
    assert not listing.is_complete
    assert [entry.kind for entry in folder.entries] == ["file", "folder", "other", "other"]


def test_only_a_recursive_tree_says_recursive(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    route = respx_mock.get(f"{ROOT}/git/trees/{SHA}").respond(200, json={"tree": []})

    client.perform(ReadTree(SHA))
    client.perform(ReadTree(SHA, is_recursive=True))

    assert [call.request.url.query for call in route.calls] == [b"", b"recursive=1"]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize(
    "location", [f"{API}/repositories/7/contents/runs/a.json", "/repositories/7/contents/runs/a.json"]
)
def test_redirect_on_the_same_server_is_followed_once_with_everything_kept(
    respx_mock: respx.MockRouter, client: GitHubClient, status: int, location: str
) -> None:
    respx_mock.put(f"{ROOT}/contents/runs/a.json").respond(status, headers={"location": location})
    moved = respx_mock.put(f"{API}/repositories/7/contents/runs/a.json").respond(201, json=WRITTEN)

    assert client.perform(WRITE).commit_sha == SHA

    request = moved.calls.last.request
    assert request.headers["authorization"] == "token secret-token"
    assert sent_json(moved)["message"] == "Checkpoint 1"


def test_large_file_is_sent_whole_again_where_a_redirect_leads(
    respx_mock: respx.MockRouter, client: GitHubClient
) -> None:
    content = bytes(range(256)) * 8192
    location = f"{API}/repositories/7/contents/runs/a.json"
    answer = {"content": {"sha": blob_sha(content)}, "commit": {"sha": SHA}}
    first = respx_mock.put(f"{ROOT}/contents/runs/a.json").respond(307, headers={"location": location})
    moved = respx_mock.put(location).respond(201, json=answer)

    client.perform(replace(WRITE, content=content))

    for route in (first, moved):
        request = route.calls.last.request
        assert base64.b64decode(sent_json(route)["content"]) == content
        assert request.headers["content-length"] == str(len(request.read()))
        assert "transfer-encoding" not in request.headers


@pytest.mark.parametrize(
    "location",
    [
        "https://evil.test/repos/owner/state",
        "http://api.github.com/repos/owner/other",
        "https://api.github.com:8443/repos/owner/other",
        "https://api.github.com.evil.test/x",
        "https://api.github.com@evil.test/x",
        "//evil.test/x",
        "",
        "http://[broken",
    ],
)
def test_redirect_to_another_server_is_refused_and_never_followed(
    respx_mock: respx.MockRouter, client: GitHubClient, location: str
) -> None:
    answer_head(respx_mock, status_code=301, headers={"location": location})

    with pytest.raises(Refused) as caught:
        client.perform(ReadHead("main"))

    assert "HOLDFAST_API_URL" in caught.value.advice
    assert len(respx_mock.calls) == 1


def test_second_redirect_is_refused(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    answer_head(respx_mock, status_code=301, headers={"location": f"{ROOT}/git/ref/heads/main"})

    with pytest.raises(Refused):
        client.perform(ReadHead("main"))

    assert len(respx_mock.calls) == 2


def test_api_below_a_path_is_reached_there(respx_mock: respx.MockRouter) -> None:
    respx_mock.get("https://ghe.test/api/v3/repos/owner/state/git/ref/heads/main").respond(
        200, json={"object": {"sha": SHA}}
    )

    with open_client(api_url="https://ghe.test/api/v3/") as client:
        assert client.perform(ReadHead("main")) == SHA


@pytest.mark.parametrize(
    "repository", ["", "name", "a/b/c", "a/", "/b", "../b", "a/..", "a/b?c", "a b/c", "ä/b"]
)
def test_repository_that_is_no_name_is_refused(repository: str) -> None:
    with pytest.raises(InvalidSettings):
        GitHubClient(repository, token=lambda: None, api_url=None, clock=VirtualClock())


@pytest.mark.parametrize("api_url", ["api.github.com", "ftp://api.github.com", "https://", "http://a:port"])
def test_address_that_is_no_http_url_is_refused(api_url: str) -> None:
    with pytest.raises(InvalidSettings):
        open_client(api_url=api_url)


class _CountingServer(ThreadingHTTPServer):
    """Answers every read of a head, and notes each connection and each target."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.connections = 0
        self.targets: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _CountingServer

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        self.server.targets.append(self.path)
        body = json.dumps({"object": {"sha": SHA}}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


@contextmanager
def serving() -> Iterator[_CountingServer]:
    with _CountingServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.slow
def test_calls_share_one_connection() -> None:
    with serving() as server, open_client(api_url=server.url) as client:
        for _ in range(5):
            client.perform(ReadHead("main"))

        assert (server.connections, len(server.targets)) == (1, 5)


def test_an_answer_does_not_wait_in_memory_for_the_garbage_collector() -> None:
    def held() -> int:
        return sum(type(each) is httpx.Response for each in gc.get_objects())

    with serving() as server, open_client(api_url=server.url) as client:
        gc.collect()
        gc.disable()
        try:
            before = held()
            client.perform(ReadHead("main"))

            assert held() == before
        finally:
            gc.enable()


@pytest.mark.slow
def test_threads_share_the_client() -> None:
    with serving() as server, open_client(api_url=server.url) as client:
        with ThreadPoolExecutor(4) as pool:
            heads = list(pool.map(lambda _: client.perform(ReadHead("main")), range(40)))

        assert heads == [SHA] * 40
        assert server.connections <= 4


def test_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serving() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        with open_client(api_url="http://github.test") as client:
            client.perform(ReadHead("main"))

        assert proxy.targets == ["http://github.test/repos/owner/state/git/ref/heads/main"]


def test_closed_client_performs_nothing(respx_mock: respx.MockRouter) -> None:
    client = open_client()
    client.close()

    with pytest.raises(Unavailable):
        client.perform(ReadHead("main"))


def test_conflict_reaches_the_caller_as_ours(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    respx_mock.put(f"{ROOT}/contents/runs/a.json").respond(
        409, json={"message": f"runs/a.json does not match {SHA}"}
    )

    with pytest.raises(Conflict) as caught:
        client.perform(WRITE)

    assert caught.value.kind == "stale_file"


@respx.mock
def test_unchanged_head_is_asked_for_by_its_etag(client: GitHubClient) -> None:
    route = respx.get(f"{ROOT}/git/ref/heads/checkpoints").mock(return_value=httpx.Response(304))

    reading = client.perform(ReadHeadIfChanged("checkpoints", 'W/"1"'))

    assert reading == HeadReading(None, 'W/"1"')
    assert route.calls.last.request.headers["if-none-match"] == 'W/"1"'


@respx.mock
def test_unchanged_is_no_answer_to_a_plain_request(client: GitHubClient) -> None:
    respx.get(f"{ROOT}/git/ref/heads/checkpoints").mock(return_value=httpx.Response(304))

    with pytest.raises(Unavailable):
        client.perform(ReadHeadIfChanged("checkpoints"))


@pytest.mark.parametrize(
    ("url", "is_secure"),
    [("http://127.0.0.1:9", False), ("https://github.test", True), ("HTTPS://github.test", True)],
)
def test_only_a_server_with_tls_needs_authorities(
    url: str, is_secure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []
    monkeypatch.setattr("ssl.SSLContext.load_verify_locations", lambda *a, **k: read.append((a, k)))

    GitHubClient("octo/cat", token=lambda: None, api_url=url, clock=VirtualClock()).close()

    assert bool(read) is is_secure


def wrapped(content: bytes) -> dict[str, Any]:
    return {"encoding": "base64", "content": base64.encodebytes(content).decode(), "sha": blob_sha(content)}


@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "application/vnd.github+json"])
def test_a_server_that_answers_a_raw_read_with_json_is_understood(
    respx_mock: respx.MockRouter, client: GitHubClient, media_type: str
) -> None:
    content = b'{"state": "\xc3\xa9"}'
    headers = {"content-type": media_type}
    respx_mock.get(url__regex=r".*/git/blobs/.*").respond(json=wrapped(content), headers=headers)
    respx_mock.get(url__regex=r".*/contents/.*").respond(json=wrapped(content), headers=headers)

    assert client.perform(ReadBlob(blob_sha(content))) == content
    assert client.perform(ReadFile("checkpoints/r/latest.json", "checkpoints")).content == content


def test_a_file_that_looks_like_such_an_answer_is_taken_as_it_is(
    respx_mock: respx.MockRouter, client: GitHubClient
) -> None:
    file = json.dumps({"encoding": "base64", "content": "aGVsbG8=", "sha": "0" * 40}).encode()
    headers = {"content-type": "application/json"}
    respx_mock.get(url__regex=r".*/contents/.*").respond(content=file, headers=headers)

    assert client.perform(ReadFile("a.json", "main")).content == file


@pytest.mark.parametrize(("longest_s", "waited_s"), [(3.0, 3.0), (600.0, 30.0)])
def test_who_asks_can_have_less_time_than_usual_for_one_question(longest_s: float, waited_s: float) -> None:
    given: list[dict[str, float]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        given.append(request.extensions["timeout"])
        return httpx.Response(200, json={"object": {"sha": SHA}})

    with open_client(transport=httpx.MockTransport(answer)) as client:
        with waiting_at_most(longest_s):
            client.perform(ReadHead("main"))
        client.perform(ReadHead("main"))

    usual = {**dict.fromkeys(WAITS, 30.0), "connect": 10.0}
    assert given == [{part: min(waited_s, seconds) for part, seconds in usual.items()}, usual]
