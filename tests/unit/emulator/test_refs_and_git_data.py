import base64

import httpx
import pytest

from holdfast.emulator import Emulator, HeadMoves, Rule

UNKNOWN = "1" * 40


@pytest.fixture
def head(client: httpx.Client) -> str:
    for name in ("a", "b"):
        body = {"message": name, "content": base64.b64encode(name.encode()).decode()}
        answer = client.put(f"contents/d/{name}", json=body)
    return str(answer.json()["commit"]["sha"])


def commit(client: httpx.Client, *parents: str, **tree: object) -> str:
    made = client.post("git/trees", json={"tree": [{"path": "x", "content": "x"}], **tree}).json()
    body = {"message": "m", "tree": made["sha"], "parents": list(parents)}
    return str(client.post("git/commits", json=body).json()["sha"])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "git/ref/heads/main"),
        ("GET", "git/matching-refs/heads"),
        ("POST", "git/refs"),
        ("PATCH", "git/refs/heads/main"),
        ("DELETE", "git/refs/heads/main"),
        ("POST", "git/blobs"),
        ("GET", f"git/blobs/{UNKNOWN}"),
        ("POST", "git/trees"),
        ("GET", "git/trees/main"),
        ("POST", "git/commits"),
        ("GET", f"git/commits/{UNKNOWN}"),
        ("GET", "commits"),
        ("GET", "commits/main"),
        ("GET", "compare/a...b"),
    ],
)
def test_git_data_of_an_empty_repository_is_409(client: httpx.Client, method: str, path: str) -> None:
    answer = client.request(method, path)

    assert (answer.status_code, answer.json()["message"]) == (409, "Git Repository is empty.")


def test_branches_of_an_empty_repository_are_an_empty_list(client: httpx.Client) -> None:
    assert client.get("branches").json() == []
    assert client.get("branches/main").status_code == 404


def test_branch_without_parent_can_be_made(client: httpx.Client, head: str) -> None:
    orphan = commit(client)

    made = client.post("git/refs", json={"ref": "refs/heads/checkpoints", "sha": orphan})

    assert made.status_code == 201
    assert client.get("git/ref/heads/checkpoints").json()["object"]["sha"] == orphan
    assert [item["name"] for item in client.get("contents?ref=checkpoints").json()] == ["x"]


@pytest.mark.parametrize(
    ("ref", "sha", "message"),
    [
        ("refs/heads/main", None, "Reference already exists"),
        ("refs/heads/new", UNKNOWN, "Object does not exist"),
        ("heads/new", None, "heads/new is not a valid ref name."),
        ("refs/heads/a..b", None, "refs/heads/a..b is not a valid ref name."),
        ("refs/heads/main/below", None, "Reference update failed"),
    ],
)
def test_ref_that_cannot_be_made_is_422(
    client: httpx.Client, head: str, ref: str, sha: str | None, message: str
) -> None:
    answer = client.post("git/refs", json={"ref": ref, "sha": sha or head})

    assert (answer.status_code, answer.json()["message"]) == (422, message)


def test_ref_moves_forward_and_back_only_by_force(client: httpx.Client, head: str) -> None:
    ahead, aside = commit(client, head), commit(client)

    forward = client.patch("git/refs/heads/main", json={"sha": ahead})
    refused = client.patch("git/refs/heads/main", json={"sha": aside})
    forced = client.patch("git/refs/heads/main", json={"sha": aside, "force": True})

    assert forward.status_code == 200
    assert (refused.status_code, refused.json()["message"]) == (422, "Update is not a fast forward")
    assert forced.json()["object"]["sha"] == aside


def test_ref_that_moved_meanwhile_is_no_fast_forward(
    emulator: Emulator, client: httpx.Client, head: str
) -> None:
    ahead = commit(client, head)
    emulator.faults.add(Rule(HeadMoves(), target="patch"))

    answer = client.patch("git/refs/heads/main", json={"sha": ahead})

    assert (answer.status_code, answer.json()["message"]) == (422, "Update is not a fast forward")


def test_missing_ref_is_refused(client: httpx.Client, head: str) -> None:
    assert client.get("git/ref/heads/nowhere").status_code == 404
    assert client.get("git/matching-refs/heads/nowhere").json() == []
    assert client.patch("git/refs/heads/nowhere", json={"sha": head}).status_code == 422
    assert client.delete("git/refs/heads/nowhere").status_code == 422
    assert client.patch("git/refs/heads/main", json={"sha": UNKNOWN}).status_code == 422
    assert client.patch("git/refs/heads/main", json={}).status_code == 422
    assert client.patch("git/refs/heads/main", json={"sha": head, "force": "no"}).status_code == 422


def test_tree_on_a_base_changes_and_deletes(client: httpx.Client, head: str) -> None:
    base = client.get(f"git/commits/{head}").json()["tree"]["sha"]
    items = [
        {"path": "d/a", "mode": "100644", "type": "blob", "sha": None},
        {"path": "e/f", "mode": "100755", "type": "blob", "content": "new"},
    ]

    made = client.post("git/trees", json={"base_tree": base, "tree": items}).json()["sha"]

    shown = client.get(f"git/trees/{made}?recursive=0").json()
    assert [(item["path"], item["mode"], item["type"]) for item in shown["tree"]] == [
        ("d", "040000", "tree"),
        ("d/b", "100644", "blob"),
        ("e", "040000", "tree"),
        ("e/f", "100755", "blob"),
    ]
    assert shown["truncated"] is False


def test_tree_without_a_base_holds_nothing_else(client: httpx.Client, head: str) -> None:
    made = client.post("git/trees", json={"tree": [{"path": "x", "content": "x"}]}).json()

    assert [item["path"] for item in made["tree"]] == ["x"]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"path": "gone", "sha": None}, "GitRPC::BadObjectState"),
        ({"path": "x"}, "Must supply either tree.sha or tree.content"),
        ({"path": "x", "sha": UNKNOWN}, f"tree.sha {UNKNOWN} is not a valid blob"),
        ({"path": "x", "content": "", "mode": "7"}, "Must supply a valid tree.mode"),
        ({"path": "/x", "content": ""}, "path cannot start with a slash"),
        ({}, "Must supply a valid tree.path"),
        ({"path": "d/a/x", "content": ""}, "tree.path d/a is a file, not a folder"),
    ],
)
def test_tree_item_that_cannot_be_is_422(
    client: httpx.Client, head: str, item: dict[str, object], message: str
) -> None:
    base = client.get("git/trees/main").json()["sha"]

    answer = client.post("git/trees", json={"base_tree": base, "tree": [item]})

    assert (answer.status_code, answer.json()["message"]) == (422, message)


def test_tree_can_be_named_by_branch_commit_or_path(client: httpx.Client, head: str) -> None:
    trees = [client.get(f"git/trees/{name}").json() for name in ("main", head, "main:d")]

    assert trees[0]["sha"] == trees[1]["sha"]
    assert [item["path"] for item in trees[2]["tree"]] == ["a", "b"]
    assert client.get("git/trees/main:d/a").status_code == 404
    assert client.get("git/trees/nowhere").status_code == 404


@pytest.mark.parametrize("limit", [{"tree_entry_limit": 2}, {"tree_bytes_limit": 500}])
def test_tree_beyond_a_limit_is_truncated(
    emulator: Emulator, client: httpx.Client, head: str, limit: dict[str, int]
) -> None:
    emulator.change_options(**limit)

    shown = client.get("git/trees/main?recursive=1").json()

    assert shown["truncated"] is True
    assert len(shown["tree"]) == 2


def test_blob_keeps_its_bytes_in_either_encoding(client: httpx.Client, head: str) -> None:
    raw = {"accept": "application/vnd.github.raw+json"}
    text = client.post("git/blobs", json={"content": "é"}).json()["sha"]
    packed = base64.b64encode(b"\0\xff").decode()
    binary = client.post("git/blobs", json={"content": packed, "encoding": "base64"}).json()["sha"]

    assert client.get(f"git/blobs/{text}", headers=raw).content == "é".encode()
    assert base64.b64decode(client.get(f"git/blobs/{binary}").json()["content"]) == b"\0\xff"


def test_blob_that_cannot_be_is_refused(client: httpx.Client, head: str) -> None:
    assert client.post("git/blobs", json={}).status_code == 422
    assert client.post("git/blobs", json={"content": "x", "encoding": "rot13"}).status_code == 422
    assert client.post("git/blobs", json={"content": "abc", "encoding": "base64"}).status_code == 422
    assert client.get(f"git/blobs/{UNKNOWN}").status_code == 404
    assert client.get(f"git/blobs/{head}").status_code == 404


def test_commit_defaults_its_committer_to_its_author(client: httpx.Client, head: str) -> None:
    tree = client.get("git/trees/main").json()["sha"]
    author = {"name": "Ada", "email": "ada@example.org", "date": "2020-01-01T00:00:00Z"}

    made = client.post("git/commits", json={"message": "m", "tree": tree, "author": author}).json()

    assert made["committer"] == author
    assert made["parents"] == []


@pytest.mark.parametrize(
    "fields", [{"tree": UNKNOWN}, {"parents": [UNKNOWN]}, {"parents": "x"}, {"message": 1}]
)
def test_commit_of_unknown_objects_is_422(client: httpx.Client, head: str, fields: dict[str, object]) -> None:
    tree = client.get("git/trees/main").json()["sha"]

    assert client.post("git/commits", json={"message": "m", "tree": tree, **fields}).status_code == 422


def test_history_comes_in_pages_with_links(client: httpx.Client, head: str) -> None:
    for number in range(3):
        client.put(f"contents/n{number}", json={"message": f"n{number}", "content": ""})

    first = client.get("commits?per_page=2")
    last = client.get("commits?per_page=2&page=3")

    assert [commit["commit"]["message"] for commit in first.json()] == ["n2", "n1"]
    assert first.links["next"]["url"].endswith("page=2")
    assert last.links["prev"]["url"].endswith("page=2")
    assert [commit["commit"]["message"] for commit in last.json()] == ["a"]
    assert "next" not in last.links
    assert client.get("commits?sha=nowhere").status_code == 404


def test_comparison_counts_both_sides(client: httpx.Client, head: str) -> None:
    side = commit(client, head)
    client.post("git/refs", json={"ref": "refs/heads/side", "sha": side})
    client.put("contents/c", json={"message": "c", "content": ""})

    shown = client.get("compare/main...side").json()

    assert (shown["status"], shown["ahead_by"], shown["behind_by"]) == ("diverged", 1, 1)
    assert [entry["sha"] for entry in shown["commits"]] == [side]
    assert client.get("compare/side...side").json()["status"] == "identical"
    assert client.get("compare/main...nowhere").status_code == 404
    assert client.get("commits/nowhere").status_code == 422
