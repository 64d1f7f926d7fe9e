import json
from collections.abc import Iterator
from typing import Any

import pytest
import respx

from holdfast.errors import Conflict, Missing, Throttled, Unavailable
from holdfast.format.git_ids import blob_sha
from holdfast.github.calls import NO_GRAPHQL, Answer, Call, ReadBlob, ReadPage
from holdfast.github.client import GitHubClient
from holdfast.github.listing import read_snapshot
from holdfast.github.results import File
from holdfast.github.write_calls import CommitFiles, Revision
from tests.fakes.clock import VirtualClock

API = "https://api.github.com"
ENDPOINT = f"{API}/graphql"
HEAD, SHA = "a" * 40, "b" * 40
COMMIT = CommitFiles("checkpoints", HEAD, "Headline", "Body", {"runs/a.json": b"{}"}, ("old.json",))
PAGE = ReadPage("checkpoints", ("a.json", "b.json"))
EMPTY_BLOB = blob_sha(b"{}")
COMMITTED = {"createCommitOnBranch": {"commit": {"oid": SHA, "f0": {"oid": EMPTY_BLOB}}}}


@pytest.fixture(scope="module")
def client() -> Iterator[GitHubClient]:
    with GitHubClient("owner/state", token=lambda: "t", api_url=None, clock=VirtualClock()) as client:
        yield client


def answer(respx_mock: respx.MockRouter, content: Any, **more: Any) -> respx.Route:
    return respx_mock.post(ENDPOINT).respond(**{"status_code": 200, "json": content, **more})


def blob(content: bytes, **changes: Any) -> dict[str, Any]:
    found = {
        "oid": blob_sha(content),
        "text": content.decode(),
        "isBinary": False,
        "isTruncated": False,
    }
    return {"object": found | changes}


def snapshot_of(**files: Any) -> dict[str, Any]:
    return {"data": {"repository": {"ref": {"target": {"oid": HEAD, **files}}}}}


def test_commit_is_one_mutation_that_asks_back_what_it_wrote(
    respx_mock: respx.MockRouter, client: GitHubClient
) -> None:
    route = answer(respx_mock, {"data": COMMITTED})

    assert client.perform(COMMIT) == Revision(SHA, {"runs/a.json": EMPTY_BLOB})

    sent = json.loads(route.calls.last.request.content)
    assert route.call_count == 1
    assert "runs/a.json" not in sent["query"]
    assert sent["variables"]["p0"] == "runs/a.json"
    assert sent["variables"]["input"] == {
        "branch": {"repositoryNameWithOwner": "owner/state", "branchName": "checkpoints"},
        "expectedHeadOid": HEAD,
        "message": {"headline": "Headline", "body": "Body"},
        "fileChanges": {
            "additions": [{"path": "runs/a.json", "contents": "e30="}],
            "deletions": [{"path": "old.json"}],
        },
    }


def test_file_over_ten_megabytes_is_not_asked_back(
    respx_mock: respx.MockRouter, client: GitHubClient
) -> None:
    route = answer(respx_mock, {"data": COMMITTED})
    additions = {"large.bin": b"x" * 10_000_001, "runs/a.json": b"{}"}

    revision = client.perform(CommitFiles("checkpoints", HEAD, "Headline", "", additions))

    variables = json.loads(route.calls.last.request.content)["variables"]
    assert revision.blob_shas == {"runs/a.json": EMPTY_BLOB}
    assert (variables["p0"], "p1" in variables) == ("runs/a.json", False)


UNCLEAR: list[Any] = [
    {"data": {"createCommitOnBranch": None}},
    {"data": {"createCommitOnBranch": {"commit": None}}},
    {"data": {"createCommitOnBranch": {"commit": {"oid": SHA, "f0": None}}}},
    {"data": {"createCommitOnBranch": {"commit": {"oid": SHA, "f0": {"oid": SHA}}}}},
    {"data": {"createCommitOnBranch": {"commit": {"oid": SHA}}}},
    {"data": None},
    {"data": []},
    {},
    [],
    None,
    {
        "data": COMMITTED,
        "errors": [{"type": "NOT_FOUND", "path": ["createCommitOnBranch", "commit", "f0"], "message": "big"}],
    },
    {"errors": ["not an object"]},
    {"errors": [{"message": "Something went wrong while executing your query."}]},
]


@pytest.mark.parametrize("content", UNCLEAR, ids=json.dumps)
def test_unclear_answer_to_a_commit_is_unavailable(
    respx_mock: respx.MockRouter, client: GitHubClient, content: Any
) -> None:
    answer(respx_mock, content)

    with pytest.raises(Unavailable):
        client.perform(COMMIT)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_commit_that_met_a_server_error_may_have_been_made(
    respx_mock: respx.MockRouter, client: GitHubClient, status: int
) -> None:
    answer(respx_mock, {}, status_code=status)

    with pytest.raises(Unavailable):
        client.perform(COMMIT)


def test_torn_answer_to_a_commit_is_unavailable(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    respx_mock.post(ENDPOINT).respond(200, content=b'{"data": {"createCommit')

    with pytest.raises(Unavailable):
        client.perform(COMMIT)


def test_head_that_moved_is_a_conflict(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    message = f'Expected branch to point to "{HEAD}" but it did not.  Pull and try again.'
    errors = [{"type": "STALE_DATA", "path": ["createCommitOnBranch"], "message": message}]
    answer(respx_mock, {"data": {"createCommitOnBranch": None}, "errors": errors})

    with pytest.raises(Conflict) as caught:
        client.perform(COMMIT)

    assert caught.value.kind == "head_moved"


@pytest.mark.parametrize("status", [404, 405, 501])
@pytest.mark.parametrize("call", [COMMIT, PAGE], ids=["commit", "snapshot"])
def test_server_without_graphql_is_told_apart(
    respx_mock: respx.MockRouter, client: GitHubClient, call: Call[Any], status: int
) -> None:
    answer(respx_mock, {"message": "Not Found"}, status_code=status)

    with pytest.raises(Missing) as caught:
        client.perform(call)

    assert caught.value.path == NO_GRAPHQL


def test_limit_in_a_successful_answer_is_a_limit(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    answer(respx_mock, {"message": "You have exceeded a secondary rate limit."}, headers={"retry-after": "7"})

    with pytest.raises(Throttled) as caught:
        client.perform(COMMIT)

    assert (caught.value.kind, caught.value.retry_after_s, caught.value.resource) == (
        "secondary",
        7,
        "graphql",
    )


def test_enterprise_server_keeps_graphql_beside_its_rest(respx_mock: respx.MockRouter) -> None:
    respx_mock.post("https://ghe.test/api/graphql").respond(200, json=snapshot_of())

    with GitHubClient(
        "owner/state", token=lambda: "t", api_url="https://ghe.test/api/v3", clock=VirtualClock()
    ) as client:
        assert client.perform(ReadPage("checkpoints", ())).head_sha == HEAD


def test_snapshot_is_one_query(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    route = answer(respx_mock, snapshot_of(f0=blob(b"one"), f1=None))

    snapshot = client.perform(PAGE)

    sent = json.loads(route.calls.last.request.content)
    assert snapshot.head_sha == HEAD
    assert snapshot.files == {"a.json": File(b"one", blob_sha(b"one")), "b.json": None}
    assert sent["variables"] == {
        "owner": "owner",
        "name": "state",
        "ref": "refs/heads/checkpoints",
        "p0": "a.json",
        "p1": "b.json",
    }
    assert route.call_count == 1


def test_folder_at_the_path_is_no_file(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    answer(respx_mock, snapshot_of(f0={"object": {}}, f1={"object": None}))

    assert client.perform(PAGE).files == {"a.json": None, "b.json": None}


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"text": None, "isBinary": True},
        {"text": "on", "isTruncated": True},
        {"text": "one?"},
        {"text": "one", "isBinary": True},
    ],
)
def test_file_that_graphql_does_not_give_whole_is_read_as_a_blob(
    respx_mock: respx.MockRouter, changes: dict[str, Any]
) -> None:
    seen: list[Answer] = []
    sha = blob_sha(b"one")
    answer(respx_mock, snapshot_of(f0=blob(b"one", **changes), f1=None))
    respx_mock.get(f"{API}/repos/owner/state/git/blobs/{sha}").respond(200, content=b"one")

    with GitHubClient(
        "owner/state", token=lambda: "t", api_url=None, clock=VirtualClock(), observe=seen.append
    ) as client:
        assert read_snapshot(client, "checkpoints", PAGE.paths).files["a.json"] == File(b"one", sha)
    assert [answer.call for answer in seen] == [PAGE, ReadBlob(sha)]


def test_file_reported_as_not_found_is_not_there(respx_mock: respx.MockRouter, client: GitHubClient) -> None:
    errors = [{"type": "NOT_FOUND", "path": ["repository", "ref", "target", "f1"], "message": "No such file"}]
    answer(respx_mock, snapshot_of(f0=blob(b"one"), f1=None) | {"errors": errors})

    assert client.perform(PAGE).files["b.json"] is None


@pytest.mark.parametrize(
    "content",
    [
        {"data": {"repository": {"ref": None}}},
        {"data": {"repository": None}},
        {
            "data": {"repository": None},
            "errors": [{"type": "NOT_FOUND", "path": ["repository"], "message": "Could not resolve"}],
        },
    ],
)
def test_snapshot_of_no_branch_is_missing(
    respx_mock: respx.MockRouter, client: GitHubClient, content: dict[str, Any]
) -> None:
    answer(respx_mock, content)

    with pytest.raises(Missing) as caught:
        client.perform(PAGE)

    assert caught.value.path == "checkpoints"


@pytest.mark.parametrize(
    "content",
    [
        {"data": {}},
        {"data": {"repository": {"ref": {"target": {}}}}},
        {"data": {"repository": {"ref": {"target": None}}}},
        {"data": {"repository": {"ref": {"target": {"oid": HEAD, "f0": 7, "f1": None}}}}},
        {"data": {"repository": []}},
    ],
    ids=json.dumps,
)
def test_snapshot_that_makes_no_sense_is_unavailable(
    respx_mock: respx.MockRouter, client: GitHubClient, content: dict[str, Any]
) -> None:
    answer(respx_mock, content)

    with pytest.raises(Unavailable):
        client.perform(PAGE)


def test_further_files_are_read_at_the_commit_of_the_first(
    respx_mock: respx.MockRouter, client: GitHubClient
) -> None:
    first = snapshot_of(**{f"f{number}": None for number in range(100)})
    second = {"data": {"repository": {"object": {"oid": HEAD, "f0": blob(b"last")}}}}
    route = respx_mock.post(ENDPOINT)
    route.side_effect = [respx.MockResponse(200, json=first), respx.MockResponse(200, json=second)]

    snapshot = read_snapshot(client, "checkpoints", (f"{number}.json" for number in range(101)))

    variables = json.loads(route.calls.last.request.content)["variables"]
    assert variables == {"owner": "owner", "name": "state", "oid": HEAD, "p0": "100.json"}
    assert [path for path, file in snapshot.files.items() if file] == ["100.json"]


def test_commit_that_is_not_visible_yet_makes_the_snapshot_unavailable(
    respx_mock: respx.MockRouter, client: GitHubClient
) -> None:
    first = snapshot_of(**{f"f{number}": None for number in range(100)})
    second = {"data": {"repository": {"object": None}}}
    route = respx_mock.post(ENDPOINT)
    route.side_effect = [respx.MockResponse(200, json=first), respx.MockResponse(200, json=second)]

    with pytest.raises(Unavailable):
        read_snapshot(client, "checkpoints", (f"{number}.json" for number in range(101)))


def test_a_token_that_an_error_echoes_goes_no_further(respx_mock: respx.MockRouter) -> None:
    answer(respx_mock, {"data": None, "errors": [{"message": "x" * 290 + " echo-of-token"}]})
    client = GitHubClient("owner/state", token=lambda: "echo-of-token", api_url=None, clock=VirtualClock())

    with client, pytest.raises(Unavailable) as caught:
        client.perform(PAGE)

    assert "echo" not in caught.value.reason
