import base64
import hashlib
import json
import subprocess
from pathlib import Path

import httpx
import pytest

from holdfast.emulator import Emulator, HeadMoves, Request, Rule

UNKNOWN = "1" * 40


def packed(content: bytes) -> str:
    return base64.b64encode(content).decode()


def put(client: httpx.Client, path: str, content: bytes = b"one", **fields: object) -> httpx.Response:
    body = {"message": f"Write {path}", "content": packed(content), **fields}
    return client.put(f"contents/{path}", json=body)


def delete(client: httpx.Client, path: str, **fields: object) -> httpx.Response:
    return client.request("DELETE", f"contents/{path}", json={"message": "Remove", **fields})


def blob_sha(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True, text=True)
    return done.stdout


def test_new_path_is_created_with_its_true_blob_sha(client: httpx.Client) -> None:
    answer = put(client, "a/b.json", b"hello")

    assert answer.status_code == 201
    assert answer.json()["content"]["sha"] == blob_sha(b"hello")
    assert answer.json()["content"]["size"] == 5
    assert answer.json()["commit"]["message"] == "Write a/b.json"


def test_existing_path_with_its_sha_is_replaced(client: httpx.Client) -> None:
    sha = put(client, "a.json").json()["content"]["sha"]

    answer = put(client, "a.json", b"two", sha=sha)

    assert answer.status_code == 200
    assert (
        client.get("contents/a.json", headers={"accept": "application/vnd.github.raw+json"}).content == b"two"
    )


def test_existing_path_without_sha_is_422(client: httpx.Client) -> None:
    put(client, "a.json")

    answer = put(client, "a.json", b"two")

    assert answer.status_code == 422
    assert answer.json()["message"] == 'Invalid request.\n\n"sha" wasn\'t supplied.'
    assert answer.json()["status"] == "422"
    assert "errors" not in answer.json()


@pytest.mark.parametrize("sha", [UNKNOWN, "not-a-sha", ""])
def test_existing_path_with_another_sha_is_409_naming_path_and_sha(client: httpx.Client, sha: str) -> None:
    put(client, "a/b.json")

    answer = put(client, "a/b.json", b"two", sha=sha)

    assert answer.status_code == 409
    assert answer.json()["message"] == f"a/b.json does not match {sha}"


def test_missing_path_with_a_sha_is_created(client: httpx.Client) -> None:
    put(client, "a.json")

    assert put(client, "b.json", sha=UNKNOWN).status_code == 201


def test_missing_branch_is_404_before_the_sha_is_looked_at(client: httpx.Client) -> None:
    put(client, "a.json")

    answer = put(client, "a.json", branch="elsewhere", sha=UNKNOWN)

    assert answer.status_code == 404
    assert answer.json()["message"] == "Branch elsewhere not found"


def test_ref_in_the_query_of_a_put_is_ignored(client: httpx.Client) -> None:
    put(client, "a.json")

    answer = client.put("contents/b.json?ref=elsewhere", json={"message": "m", "content": packed(b"x")})

    assert answer.status_code == 201


def test_head_that_moves_during_the_put_is_409_and_the_same_put_then_succeeds(
    emulator: Emulator, client: httpx.Client
) -> None:
    head = put(client, "a.json").json()["commit"]["sha"]
    emulator.faults.add(Rule(HeadMoves(), target="put", times=1))

    refused, accepted = put(client, "b.json"), put(client, "b.json")

    moved = accepted.json()["commit"]["parents"][0]["sha"]
    assert refused.status_code == 409
    assert refused.json()["message"] == f"is at {moved} but expected {head}"
    assert accepted.status_code == 201


def test_ruleset_refuses_with_409_in_the_published_shape(emulator: Emulator, client: httpx.Client) -> None:
    put(client, "a.json")
    emulator.switch(ruled_branches=frozenset({"main"}))

    answer = put(client, "b.json")

    assert answer.status_code == 409
    assert answer.json()["message"].startswith("Repository rule violations found")
    assert {"message", "documentation_url", "status"} <= answer.json().keys()


def test_push_protection_refuses_content_with_the_marker_only(
    emulator: Emulator, client: httpx.Client
) -> None:
    emulator.switch(secret_marker="ghp_secret")

    refused, accepted = put(client, "a.json", b"token=ghp_secret"), put(client, "b.json", b"clean")

    assert refused.status_code == 409
    assert refused.json()["metadata"]["secret_scanning"]["bypass_placeholders"]
    assert accepted.status_code == 201


def test_protected_branch_says_what_could_not_be_done(emulator: Emulator, client: httpx.Client) -> None:
    sha = put(client, "a.json").json()["content"]["sha"]
    emulator.switch(protected_branches=frozenset({"main"}))

    messages = [put(client, "b.json").json()["message"], put(client, "a.json", sha=sha).json()["message"]]

    assert messages[0].startswith("Could not create file: ")
    assert messages[1].startswith("Could not update file: ")


@pytest.mark.parametrize("content", ["abc", "ab*d", "=abc", "abc=d", "aé=="])
def test_content_that_is_not_base64_is_422(client: httpx.Client, content: str) -> None:
    answer = client.put("contents/a.json", json={"message": "m", "content": content})

    assert answer.status_code == 422
    assert answer.json()["message"] == "content is not valid Base64"


def test_base64_may_contain_blanks(client: httpx.Client) -> None:
    answer = client.put("contents/a.json", json={"message": "m", "content": "aGVs\nbG8 =\r\n"})

    assert answer.json()["content"]["sha"] == blob_sha(b"hello")


def test_plain_text_of_fitting_length_is_stored_as_junk(client: httpx.Client) -> None:
    assert client.put("contents/a.txt", json={"message": "m", "content": "test"}).status_code == 201


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"content": ""}, '"message" wasn\'t supplied.'),
        ({"message": "m"}, '"content" wasn\'t supplied.'),
        ({}, '"content", "message" weren\'t supplied.'),
        ({"message": "m", "content": 1}, "For 'properties/content', 1 is not a string."),
        ({"message": "m", "content": "", "sha": None}, "For 'properties/sha', nil is not a string."),
        ({"message": "m", "content": "", "author": {"name": "x"}}, '"email" wasn\'t supplied.'),
        ({"message": "m", "content": "", "committer": {}}, '"name", "email" weren\'t supplied.'),
    ],
)
def test_incomplete_body_is_422_and_names_the_field(
    client: httpx.Client, body: dict[str, object], message: str
) -> None:
    answer = client.put("contents/a.json", json=body)

    assert answer.status_code == 422
    assert answer.json()["message"] == f"Invalid request.\n\n{message}"


@pytest.mark.parametrize(
    ("body", "message"), [(b"{", "Problems parsing JSON"), (b"[]", "Body should be a JSON object")]
)
def test_body_that_is_no_json_object_is_400(client: httpx.Client, body: bytes, message: str) -> None:
    answer = client.put("contents/a.json", content=body)

    assert (answer.status_code, answer.json()["message"]) == (400, message)


def test_missing_permission_is_403_and_names_it(emulator: Emulator, client: httpx.Client) -> None:
    emulator.switch(read_only=True)

    answer = put(client, "a.json")

    assert answer.status_code == 403
    assert answer.json()["message"] == "Resource not accessible by personal access token"
    assert answer.headers["x-accepted-github-permissions"] == "contents=write"


def test_identical_content_makes_an_empty_commit(client: httpx.Client, folder: Path) -> None:
    first = put(client, "a.json").json()

    second = put(client, "a.json", sha=first["content"]["sha"]).json()

    assert second["commit"]["sha"] != first["commit"]["sha"]
    assert second["commit"]["tree"]["sha"] == first["commit"]["tree"]["sha"]
    assert git(folder, "rev-list", "--count", "main").strip() == "2"


def test_author_and_committer_are_as_given(client: httpx.Client, folder: Path) -> None:
    author = {"name": "Ada", "email": "ada@example.org", "date": "2020-01-02T03:04:05Z"}

    put(client, "a.json", author=author)

    shown = git(folder, "log", "-1", "--format=%an %ae %aI %cn", "main").strip()
    assert shown == "Ada ada@example.org 2020-01-02T03:04:05+00:00 holdfast"


@pytest.mark.parametrize("path", ["a/../b", "a//b", "./a", ".git/config", "a/.GIT/x"])
def test_path_that_git_cannot_hold_is_422(emulator: Emulator, path: str) -> None:
    target = f"/repos/holdfast/checkpoints/contents/{path}"
    body = json.dumps({"message": "m", "content": ""}).encode()

    answer = emulator.handle(Request.from_target("PUT", target, {"user-agent": "test"}, body))

    assert answer.status == 422
    assert answer.json()["message"] == "path contains a malformed path component"


def test_path_with_reserved_characters_survives_when_encoded(client: httpx.Client, folder: Path) -> None:
    put(client, "a%3Fb%23c%25%20d/%C3%A9.json", b"odd")

    assert git(folder, "show", "main:a?b#c% d/é.json") == "odd"
    assert client.get("contents/a%3Fb%23c%25%20d/%C3%A9.json").json()["name"] == "é.json"


def test_file_below_a_file_is_refused(client: httpx.Client) -> None:
    put(client, "a.json")

    assert put(client, "a.json/b.json").status_code == 422


def test_first_put_into_an_empty_repository_makes_the_default_branch(
    client: httpx.Client, folder: Path
) -> None:
    answer = put(client, "a.json")

    assert answer.status_code == 201
    assert answer.json()["commit"]["parents"] == []
    assert git(folder, "symbolic-ref", "HEAD").strip() == "refs/heads/main"


def test_first_put_into_an_empty_repository_may_name_another_branch(client: httpx.Client) -> None:
    assert put(client, "a.json", branch="checkpoints").status_code == 201
    assert client.get("contents/a.json?ref=checkpoints").status_code == 200


def test_empty_repository_can_be_told_to_know_its_default_branch_only(
    emulator: Emulator, client: httpx.Client
) -> None:
    emulator.change_options(empty_takes_any_branch=False)

    assert put(client, "a.json", branch="checkpoints").status_code == 404
    assert put(client, "a.json", branch="main").status_code == 201


def test_reading_an_empty_repository_is_404(client: httpx.Client) -> None:
    answer = client.get("contents/a.json")

    assert (answer.status_code, answer.json()["message"]) == (404, "This repository is empty.")


def test_file_is_answered_with_line_breaks_in_its_base64(client: httpx.Client) -> None:
    content = bytes(range(256))
    put(client, "a.bin", content)

    shape = client.get("contents/a.bin").json()

    assert shape["encoding"] == "base64"
    assert "\n" in shape["content"].strip()
    assert base64.b64decode(shape["content"]) == content


def test_file_can_be_read_by_branch_tag_and_commit(client: httpx.Client, folder: Path) -> None:
    first = put(client, "a.json", b"one").json()
    git(folder, "tag", "v1", first["commit"]["sha"])
    put(client, "a.json", b"two", sha=first["content"]["sha"])

    raw = {"accept": "application/vnd.github.raw+json"}
    by_ref = {ref: client.get(f"contents/a.json?ref={ref}", headers=raw).content for ref in ("main", "v1")}
    by_commit = client.get(f"contents/a.json?ref={first['commit']['sha']}", headers=raw).content

    assert by_ref == {"main": b"two", "v1": b"one"}
    assert by_commit == b"one"


def test_unknown_ref_and_unknown_path_are_404(client: httpx.Client) -> None:
    put(client, "a.json")

    no_ref, no_path = client.get("contents/a.json?ref=nowhere"), client.get("contents/b.json")

    assert no_ref.json()["message"] == "No commit found for the ref nowhere"
    assert (no_ref.status_code, no_path.status_code) == (404, 404)
    assert client.get("contents/a.json/").status_code == 404


def test_file_above_one_megabyte_has_content_in_raw_form_only(client: httpx.Client) -> None:
    content = b"x" * 1_000_001
    put(client, "big.json", content)

    shape = client.get("contents/big.json").json()
    object_shape = client.get(
        "contents/big.json", headers={"accept": "application/vnd.github.object+json"}
    ).json()
    raw = client.get("contents/big.json", headers={"accept": "application/vnd.github.raw+json"})

    assert (shape["content"], shape["encoding"], shape["size"]) == ("", "none", 1_000_001)
    assert object_shape["encoding"] == "none"
    assert raw.content == content


def test_file_above_the_reading_limit_is_403_too_large(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.emulator.contents.READ_LIMIT_BYTES", 2)
    put(client, "big.json", b"xyz")

    answer = client.get("contents/big.json", headers={"accept": "application/vnd.github.raw"})

    assert answer.status_code == 403
    assert answer.json()["errors"][0]["code"] == "too_large"


def test_directory_is_a_list_without_content(client: httpx.Client) -> None:
    put(client, "d/b.json", b"12")
    put(client, "d/sub/c.json")

    listed = client.get("contents/d").json()

    assert [(item["name"], item["type"], item["size"]) for item in listed] == [
        ("b.json", "file", 2),
        ("sub", "dir", 0),
    ]
    assert all("content" not in item for item in listed)
    assert [item["name"] for item in client.get("contents").json()] == ["d"]


def test_directory_as_object_has_entries(client: httpx.Client) -> None:
    put(client, "d/b.json")

    shape = client.get("contents/d", headers={"accept": "application/vnd.github.object+json"}).json()

    assert shape["type"] == "dir"
    assert [item["path"] for item in shape["entries"]] == ["d/b.json"]


def test_directory_is_cut_at_its_limit(emulator: Emulator, client: httpx.Client) -> None:
    emulator.change_options(directory_limit=2)
    for name in ("a", "b", "c"):
        put(client, f"d/{name}")

    assert [item["name"] for item in client.get("contents/d").json()] == ["a", "b"]


def test_link_is_answered_with_the_file_it_points_at(client: httpx.Client) -> None:
    target = put(client, "d/a.json", b"target").json()
    blob = client.post("git/blobs", json={"content": "a.json"}).json()["sha"]
    dangling = client.post("git/blobs", json={"content": "nowhere"}).json()["sha"]
    items = [
        {"path": "d/link", "mode": "120000", "type": "blob", "sha": blob},
        {"path": "d/dangling", "mode": "120000", "type": "blob", "sha": dangling},
    ]
    tree = client.post(
        "git/trees", json={"base_tree": target["commit"]["tree"]["sha"], "tree": items}
    ).json()["sha"]
    head = client.post(
        "git/commits", json={"message": "m", "tree": tree, "parents": [target["commit"]["sha"]]}
    ).json()["sha"]

    followed = client.get(f"contents/d/link?ref={head}").json()
    unfollowed = client.get(f"contents/d/dangling?ref={head}").json()

    assert base64.b64decode(followed["content"]) == b"target"
    assert (unfollowed["type"], unfollowed["target"]) == ("symlink", "nowhere")


def test_delete_removes_the_file_and_folders_left_empty(client: httpx.Client, folder: Path) -> None:
    put(client, "keep.json")
    sha = put(client, "d/sub/a.json").json()["content"]["sha"]

    answer = delete(client, "d/sub/a.json", sha=sha)

    assert answer.status_code == 200
    assert answer.json()["content"] is None
    assert git(folder, "ls-tree", "-r", "--name-only", "main").split() == ["keep.json"]


def test_delete_takes_its_fields_from_the_query_too(client: httpx.Client) -> None:
    sha = put(client, "a.json").json()["content"]["sha"]

    assert client.delete(f"contents/a.json?message=m&sha={sha}").status_code == 200


def test_delete_refuses_like_put(client: httpx.Client) -> None:
    put(client, "a.json")

    wrong, unsupplied = delete(client, "a.json", sha=UNKNOWN), delete(client, "a.json")

    assert (wrong.status_code, wrong.json()["message"]) == (409, f"a.json does not match {UNKNOWN}")
    assert (unsupplied.status_code, unsupplied.json()["message"]) == (
        422,
        'Invalid request.\n\n"sha" wasn\'t supplied.',
    )
    assert delete(client, "b.json", sha=UNKNOWN).status_code == 404
    assert delete(client, "a.json", sha=UNKNOWN, branch="x").status_code == 404


def test_history_is_what_plain_git_shows(client: httpx.Client, folder: Path) -> None:
    put(client, "checkpoints/run/cp_001_manual.json", b'{"a": 1}')
    sha = put(client, "checkpoints/run/index.json", b"{}").json()["content"]["sha"]
    delete(client, "checkpoints/run/index.json", sha=sha)

    assert git(folder, "log", "--format=%s", "main").split("\n")[:3] == [
        "Remove",
        "Write checkpoints/run/index.json",
        "Write checkpoints/run/cp_001_manual.json",
    ]
    assert git(folder, "show", "main:checkpoints/run/cp_001_manual.json") == '{"a": 1}'
    assert git(folder, "fsck", "--strict", "--full") == ""
