import base64
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.emulator import Emulator, HeadMoves, Rule, Stale

REPO = "holdfast/checkpoints"
ABSENT = "0" * 40

COMMIT = """
mutation ($input: CreateCommitOnBranchInput!) {
  createCommitOnBranch(input: $input) {
    clientMutationId
    commit { oid url committedDate message tree { oid } a: file(path: "a") { oid object { oid } } }
    ref { name target { oid } }
  }
}
"""
UPDATE = "mutation ($input: UpdateRefsInput!) { updateRefs(input: $input) { clientMutationId } }"


@pytest.fixture
def head(client: httpx.Client) -> str:
    answer = client.put("contents/d/old", json={"message": "first\n\nbody", "content": packed(b"old text")})
    return str(answer.json()["commit"]["sha"])


def packed(content: bytes) -> str:
    return base64.b64encode(content).decode()


def ask(client: httpx.Client, query: str, **variables: object) -> Any:
    answer = client.post("http://emulator/graphql", json={"query": query, "variables": variables})
    assert answer.status_code == 200
    return answer.json()


def commit_input(head: str, **fields: object) -> dict[str, object]:
    return {
        "branch": {"repositoryNameWithOwner": REPO, "branchName": "main"},
        "message": {"headline": "Checkpoint"},
        "expectedHeadOid": head,
        "fileChanges": {"additions": [{"path": "a", "contents": packed(b"A")}]},
        **fields,
    }


def in_repository(client: httpx.Client, fields: str) -> Any:
    query = f'{{ repository(owner: "holdfast", name: "checkpoints") {{ {fields} }} }}'
    answer = ask(client, query)
    assert "errors" not in answer, answer
    return answer["data"]["repository"]


def test_commit_of_many_files_is_one_commit_and_says_what_it_wrote(
    client: httpx.Client, head: str, folder: Path
) -> None:
    changes = {
        "additions": [{"path": "a", "contents": packed(b"A")}, {"path": "x/y/b", "contents": packed(b"\0")}],
        "deletions": [{"path": "d/old"}],
    }
    message = {"headline": "Checkpoint", "body": "the ids"}
    asked = commit_input(head, fileChanges=changes, message=message, clientMutationId="mine")

    made = ask(client, COMMIT, input=asked)["data"]["createCommitOnBranch"]

    listed = subprocess.run(
        ["git", "-C", str(folder), "ls-tree", "-r", "--name-only", "main"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert listed.stdout.split() == ["a", "x/y/b"]
    assert made["clientMutationId"] == "mine"
    assert made["ref"] == {"name": "main", "target": {"oid": made["commit"]["oid"]}}
    assert made["commit"]["a"]["oid"] == "8c7e5a667f1b771847fe88c01c3de34413a1b220"
    assert made["commit"]["message"] == "Checkpoint\n\nthe ids"
    assert client.get(f"git/commits/{made['commit']['oid']}").json()["parents"][0]["sha"] == head


def test_commit_without_changes_is_an_empty_commit(client: httpx.Client, head: str) -> None:
    made = ask(client, COMMIT, input=commit_input(head, fileChanges={}))["data"]["createCommitOnBranch"]

    tree = client.get(f"git/commits/{head}").json()["tree"]["sha"]
    assert made["commit"]["tree"]["oid"] == tree
    assert made["commit"]["oid"] != head


def test_branch_can_be_named_by_its_id(client: httpx.Client, head: str) -> None:
    branch = in_repository(client, "defaultBranchRef { id }")["defaultBranchRef"]

    assert "errors" not in ask(client, COMMIT, input=commit_input(head, branch=branch))


def test_stale_head_is_told_exactly_and_changes_nothing(client: httpx.Client, head: str) -> None:
    stale = "1" * 40

    answer = ask(client, COMMIT, input=commit_input(stale))

    assert answer["data"] == {"createCommitOnBranch": None}
    assert answer["errors"] == [
        {
            "type": "STALE_DATA",
            "path": ["createCommitOnBranch"],
            "locations": [{"line": 3, "column": 3}],
            "message": f'Expected branch to point to "{stale}" but it did not.  Pull and try again.',
        }
    ]
    assert client.get("git/ref/heads/main").json()["object"]["sha"] == head


def test_head_that_moves_during_the_mutation_is_stale(
    emulator: Emulator, client: httpx.Client, head: str
) -> None:
    emulator.faults.add(Rule(HeadMoves(), target="mutation"))

    assert ask(client, COMMIT, input=commit_input(head))["errors"][0]["type"] == "STALE_DATA"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"deletions": [{"path": "gone"}]}, "A path was requested for deletion which does not exist"),
        ({"deletions": [{"path": "d"}]}, "A path was requested for deletion which does not exist"),
        ({"additions": [{"path": "a", "contents": "YQ"}]}, "not valid Base64"),
        ({"additions": [{"path": "a", "contents": "YQ==\n"}]}, "not valid Base64"),
        ({"additions": [{"path": "a", "contents": ""}] * 2}, "only once"),
        ({"additions": [{"path": "d/old", "contents": ""}], "deletions": [{"path": "d/old"}]}, "only once"),
        ({"additions": [{"path": "/a", "contents": ""}]}, "path cannot start with a slash"),
        ({"additions": [{"path": "d/old/x", "contents": ""}]}, "d/old is a file"),
        ({"additions": [{"path": "a", "contents": packed(b"x" * 200)}]}, "too large"),
    ],
)
def test_change_that_cannot_be_made_aborts_the_commit(
    emulator: Emulator, client: httpx.Client, head: str, changes: dict[str, object], message: str
) -> None:
    emulator.change_options(commit_payload_limit_bytes=200)

    answer = ask(client, COMMIT, input=commit_input(head, fileChanges=changes))

    assert answer["data"] == {"createCommitOnBranch": None}
    assert answer["errors"][0]["type"] == "UNPROCESSABLE"
    assert message in answer["errors"][0]["message"]
    assert client.get("git/ref/heads/main").json()["object"]["sha"] == head


@pytest.mark.parametrize(
    "branch",
    [
        {"repositoryNameWithOwner": REPO, "branchName": "nowhere"},
        {"repositoryNameWithOwner": "holdfast/elsewhere", "branchName": "main"},
        {"id": "REF_nonsense"},
    ],
)
def test_branch_that_is_not_there_is_not_found(
    client: httpx.Client, head: str, branch: dict[str, str]
) -> None:
    answer = ask(client, COMMIT, input=commit_input(head, branch=branch))

    assert answer["errors"][0]["type"] == "NOT_FOUND"


def test_branch_that_is_not_named_at_all_is_refused(client: httpx.Client, head: str) -> None:
    assert ask(client, COMMIT, input=commit_input(head, branch={}))["errors"][0]["type"] == "UNPROCESSABLE"


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        ({"protected_branches": frozenset({"main"})}, "UNPROCESSABLE"),
        ({"ruled_branches": frozenset({"main"})}, "UNPROCESSABLE"),
        ({"secret_marker": "A"}, "UNPROCESSABLE"),
        ({"read_only": True}, "FORBIDDEN"),
        ({"repository_gone": True}, "NOT_FOUND"),
    ],
)
def test_trouble_refuses_the_commit(
    emulator: Emulator, client: httpx.Client, head: str, trouble: dict[str, Any], kind: str
) -> None:
    emulator.switch(**trouble)

    assert ask(client, COMMIT, input=commit_input(head))["errors"][0]["type"] == kind


def test_asking_for_a_huge_file_fails_after_the_commit_was_made(
    client: httpx.Client, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.emulator.graph_nodes.FILE_LIMIT_BYTES", 10)
    changes = {"additions": [{"path": "a", "contents": packed(b"x" * 11)}]}

    answer = ask(client, COMMIT, input=commit_input(head, fileChanges=changes))

    assert answer["errors"][0]["path"] == ["createCommitOnBranch", "commit", "a"]
    assert client.get("git/ref/heads/main").json()["object"]["sha"] != head


def test_refs_move_together_or_not_at_all(client: httpx.Client, head: str) -> None:
    repository = in_repository(client, "id")["id"]
    aside = orphan(client)
    move = {"name": "refs/heads/main", "beforeOid": head, "afterOid": aside, "force": True}
    make = {"name": "refs/heads/backup", "beforeOid": ABSENT, "afterOid": head}
    wrong = {**make, "beforeOid": head}

    refused = ask(client, UPDATE, input={"repositoryId": repository, "refUpdates": [move, wrong]})
    before = client.get("git/ref/heads/main").json()["object"]["sha"]
    done = ask(client, UPDATE, input={"repositoryId": repository, "refUpdates": [move, make]})

    assert refused["data"] == {"updateRefs": None}
    assert refused["errors"][0]["type"] == "STALE_DATA"
    assert before == head
    assert "errors" not in done
    assert client.get("git/ref/heads/main").json()["object"]["sha"] == aside
    assert client.get("git/ref/heads/backup").json()["object"]["sha"] == head


def test_refs_can_be_removed_and_are_not_forced_by_themselves(client: httpx.Client, head: str) -> None:
    repository = in_repository(client, "id")["id"]

    def update(**change: object) -> Any:
        asked = {"repositoryId": repository, "refUpdates": [{"name": "refs/heads/main", **change}]}
        return ask(client, UPDATE, input=asked)

    backward = update(afterOid=orphan(client))
    unknown = update(afterOid="1" * 40)
    removed = update(beforeOid=head, afterOid=ABSENT)

    assert "not a fast forward" in backward["errors"][0]["message"]
    assert unknown["errors"][0]["type"] == "UNPROCESSABLE"
    assert "errors" not in removed
    assert client.get("branches").json() == []


def orphan(client: httpx.Client) -> str:
    tree = client.post("git/trees", json={"tree": [{"path": "x", "content": "x"}]}).json()["sha"]
    return str(client.post("git/commits", json={"message": "m", "tree": tree}).json()["sha"])


def test_update_of_an_unknown_repository_is_not_found(client: httpx.Client, head: str) -> None:
    asked = {"repositoryId": "R_1", "refUpdates": []}

    assert ask(client, UPDATE, input=asked)["errors"][0]["type"] == "NOT_FOUND"


def test_empty_repository_says_so(client: httpx.Client) -> None:
    shown = in_repository(client, "nameWithOwner isEmpty isPrivate defaultBranchRef { name }")

    assert shown == {"nameWithOwner": REPO, "isEmpty": True, "isPrivate": True, "defaultBranchRef": None}


def test_branch_is_read_down_to_its_files(client: httpx.Client, head: str) -> None:
    fields = """ref(qualifiedName: "refs/heads/main") { name prefix target { oid ... on Commit {
        message messageHeadline messageBody author { name email } changedFilesIfAvailable
        tree { entries { name type mode path size object { ... on Tree { entries { path oid object {
            ... on Blob { text byteSize isBinary isTruncated } } } } } } }
        file(path: "d/old") { oid } missing: file(path: "nope") { oid } } } }"""

    target = in_repository(client, fields)["ref"]["target"]

    inner = target["tree"]["entries"][0]["object"]["entries"][0]
    assert target["oid"] == head
    assert (target["messageHeadline"], target["messageBody"]) == ("first", "body")
    assert target["tree"]["entries"][0]["mode"] == 0o040000
    assert target["changedFilesIfAvailable"] == 1
    assert inner["path"] == "d/old"
    assert inner["object"] == {"text": "old text", "byteSize": 8, "isBinary": False, "isTruncated": False}
    assert target["file"]["oid"] == inner["oid"]
    assert target["missing"] is None


def test_folder_is_listed_alike_however_it_is_asked_for(client: httpx.Client, head: str) -> None:
    listings = (
        "entries { name oid type mode path }",
        "entries { name oid } entries { type mode path }",
        "entries { name ... on TreeEntry { oid } type mode path size }",
        "entries { name: name oid type mode path }",
        "entries { name oid type mode path @include(if: true) }",
    )
    trees = "".join(
        f' f{number}: file(path: "d") {{ object {{ ... on Tree {{ {each} }} }} }}'
        for number, each in enumerate(listings)
    )

    shown = in_repository(client, f'object(oid: "{head}") {{ ... on Commit {{ {trees} }} }}')["object"]

    found = [shown[f"f{n}"]["object"]["entries"] for n in range(len(listings))]
    assert [{**each, "size": 8} for each in found[0]] == found[2]
    assert found[0] == found[1] == found[3] == found[4]
    assert found[0][0]["path"] == "d/old"


def test_folder_goes_with_what_a_failure_takes_out_of_the_answer(client: httpx.Client, head: str) -> None:
    fields = "tree { entries { name } } parents { nodes { oid } }"
    asked = f'object(oid: "{head}") {{ ... on Commit {{ {fields} }} }}'

    answer = ask(client, f'{{ repository(owner: "holdfast", name: "checkpoints") {{ {asked} }} }}')

    assert answer["errors"][0]["type"] == "MISSING_PAGINATION_BOUNDARIES"
    assert answer["data"]["repository"]["object"] is None


@pytest.mark.parametrize("expression", ["main:d/old", "HEAD:d/old", "{head}:d/old"])
def test_object_is_found_by_expression(client: httpx.Client, head: str, expression: str) -> None:
    text = expression.replace("{head}", head)

    shown = in_repository(client, f'object(expression: "{text}") {{ ... on Blob {{ text }} }}')

    assert shown["object"] == {"text": "old text"}


def test_object_is_found_by_id_or_not_at_all(client: httpx.Client, head: str) -> None:
    fields = f"""commit: object(oid: "{head}") {{ __typename oid abbreviatedOid }}
        none: object(expression: "nowhere:d") {{ oid }} gone: object(expression: "main:nope") {{ oid }}"""

    shown = in_repository(client, fields)

    assert shown["commit"] == {"__typename": "Commit", "oid": head, "abbreviatedOid": head[:7]}
    assert shown["none"] is None
    assert shown["gone"] is None


def test_binary_and_long_text_are_told(
    client: httpx.Client, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.emulator.graph_nodes.TEXT_LIMIT_BYTES", 3)
    client.put("contents/bin", json={"message": "m", "content": packed(b"\0")})
    client.put("contents/latin", json={"message": "m", "content": packed(b"\xff")})
    blob = "{ ... on Blob { text isBinary isTruncated } }"

    shown = in_repository(
        client,
        f'b: object(expression: "main:bin") {blob} l: object(expression: "main:latin") {blob}'
        f't: object(expression: "main:d/old") {blob}',
    )

    assert shown["b"] == {"text": None, "isBinary": True, "isTruncated": False}
    assert shown["l"]["text"] is None
    assert shown["t"] == {"text": "old", "isBinary": False, "isTruncated": True}


def test_history_is_paged_by_cursor(client: httpx.Client, head: str) -> None:
    for number in range(3):
        client.put(f"contents/n{number}", json={"message": f"n{number}", "content": ""})
    page = "totalCount nodes { message } pageInfo { hasNextPage hasPreviousPage endCursor }"

    def history(arguments: str) -> Any:
        target = f"target {{ ... on Commit {{ history({arguments}) {{ {page} }} }} }}"
        return in_repository(client, f"defaultBranchRef {{ {target} }}")["defaultBranchRef"]["target"][
            "history"
        ]

    first = history("first: 3")
    second = history(f'first: 3, after: "{first["pageInfo"]["endCursor"]}"')

    assert [node["message"] for node in first["nodes"]] == ["n2", "n1", "n0"]
    assert first["totalCount"] == 4
    assert first["pageInfo"]["hasNextPage"]
    assert [node["message"] for node in second["nodes"]] == ["first\n\nbody"]
    assert not second["pageInfo"]["hasNextPage"]
    assert history('first: 3, path: "n1"')["totalCount"] == 1


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ("", "MISSING_PAGINATION_BOUNDARIES"),
        ("(first: 101)", "EXCESSIVE_PAGINATION"),
        ('(first: 1, after: "x")', "INVALID_CURSOR_ARGUMENTS"),
        ("(last: 1)", "UNSUPPORTED"),
    ],
)
def test_page_that_cannot_be_is_refused(client: httpx.Client, head: str, arguments: str, kind: str) -> None:
    target = f"target {{ ... on Commit {{ history{arguments} {{ totalCount }} }} }}"
    query = f'{{ repository(owner: "holdfast", name: "checkpoints") {{ defaultBranchRef {{ {target} }} }} }}'

    assert ask(client, query)["errors"][0]["type"] == kind


def test_stale_read_shows_an_older_head(emulator: Emulator, client: httpx.Client, head: str) -> None:
    client.put("contents/n", json={"message": "n", "content": ""})
    emulator.faults.add(Rule(Stale(1), target="graphql"))

    shown = in_repository(client, "defaultBranchRef { target { oid } }")

    assert shown["defaultBranchRef"]["target"]["oid"] == head


def test_unknown_repository_is_an_error_beside_null(client: httpx.Client) -> None:
    answer = ask(client, '{ repository(owner: "no", name: "where") { id } }')

    assert answer["data"] == {"repository": None}
    assert answer["errors"][0]["type"] == "NOT_FOUND"
    assert answer["errors"][0]["path"] == ["repository"]


@pytest.mark.parametrize(
    "query",
    ["{", "{ nonsense }", 'query ($a: Int!) { repository(owner: "a", name: "b") { id } }', 5],
)
def test_document_that_cannot_be_executed_is_errors_without_data(client: httpx.Client, query: object) -> None:
    answer = client.post("http://emulator/graphql", json={"query": query})

    assert answer.status_code == 200
    assert answer.json()["errors"][0]["message"]
    assert "data" not in answer.json()


def test_server_without_graphql_answers_404(emulator: Emulator, client: httpx.Client) -> None:
    emulator.change_options(graphql=False)

    assert client.post("http://emulator/graphql", json={"query": "{ viewer { login } }"}).status_code == 404


def test_enterprise_address_is_served_too(client: httpx.Client) -> None:
    answer = client.post("http://emulator/api/graphql", json={"query": "{ viewer { login id } }"})

    assert answer.json() == {"data": {"viewer": {"login": "holdfast", "id": "U_1"}}}
