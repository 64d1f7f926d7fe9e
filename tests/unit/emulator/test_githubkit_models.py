"""githubkit's own strict models accept every answer that they describe."""

import base64
from collections.abc import Iterator

import pytest
from githubkit import GitHub, TokenAuthStrategy
from githubkit.exception import RequestFailed

from holdfast.emulator import EmulatorServer

REPO = ("holdfast", "checkpoints")
Client = GitHub[TokenAuthStrategy]


@pytest.fixture
def github(server: EmulatorServer) -> Iterator[Client]:
    with GitHub("token", base_url=server.url, auto_retry=False, http_cache=False, timeout=60) as github:
        yield github


@pytest.fixture
def head(github: Client) -> str:
    """The head of a repository with two files."""
    put(github, "d/a.json", b"one")
    return put(github, "d/b.json", b"two")


def put(github: Client, path: str, content: bytes) -> str:
    packed = base64.b64encode(content).decode()
    answer = github.rest.repos.create_or_update_file_contents(*REPO, path, message="m", content=packed)
    return str(answer.parsed_data.commit.sha)


def test_empty_repository(github: Client) -> None:
    shown = github.rest.repos.get(*REPO).parsed_data

    assert (shown.full_name, shown.default_branch, shown.size) == ("holdfast/checkpoints", "main", 0)
    assert shown.private
    assert shown.permissions
    assert shown.permissions.push


def test_contents(github: Client, head: str) -> None:
    shown = github.rest.repos.get_content(*REPO, "d/a.json", ref=head).parsed_data
    listed = github.rest.repos.get_content(*REPO, "d").parsed_data

    assert not isinstance(shown, list)
    assert shown.type == "file"
    assert isinstance(listed, list)
    assert [item.path for item in listed] == ["d/a.json", "d/b.json"]


def test_deletion(github: Client, head: str) -> None:
    shown = github.rest.repos.get_content(*REPO, "d/a.json").parsed_data
    assert not isinstance(shown, list)

    answer = github.rest.repos.delete_file(*REPO, "d/a.json", message="m", sha=shown.sha)

    assert answer.parsed_data.content is None


def test_branches_and_refs(github: Client, head: str) -> None:
    repos, git = github.rest.repos, github.rest.git
    made = git.create_ref(*REPO, ref="refs/heads/side", sha=head).parsed_data

    assert [branch.name for branch in repos.list_branches(*REPO).parsed_data] == ["main", "side"]
    assert repos.get_branch(*REPO, "main").parsed_data.commit.sha == head
    assert git.get_ref(*REPO, "heads/side").parsed_data == made
    assert len(git.list_matching_refs(*REPO, "heads/").parsed_data) == 2
    assert git.update_ref(*REPO, "heads/side", sha=head, force=True).parsed_data.object_.sha == head
    assert git.delete_ref(*REPO, "heads/side").status_code == 204


def test_git_data(github: Client, head: str) -> None:
    git = github.rest.git
    blob = git.create_blob(*REPO, content="text").parsed_data.sha
    tree = git.create_tree(
        *REPO, tree=[{"path": "x", "mode": "100644", "type": "blob", "sha": blob}]
    ).parsed_data
    commit = git.create_commit(*REPO, message="m", tree=tree.sha, parents=[head]).parsed_data

    assert git.get_blob(*REPO, blob).parsed_data.size == 4
    assert [item.path for item in git.get_tree(*REPO, tree.sha).parsed_data.tree] == ["x"]
    assert git.get_commit(*REPO, commit.sha).parsed_data == commit


def test_history(github: Client, head: str) -> None:
    repos = github.rest.repos
    listed = repos.list_commits(*REPO, path="d/a.json").parsed_data
    compared = repos.compare_commits(*REPO, f"{listed[0].sha}...{head}").parsed_data
    files = repos.get_commit(*REPO, head).parsed_data.files

    assert len(listed) == 1
    assert (compared.status, compared.ahead_by, compared.behind_by) == ("ahead", 1, 0)
    assert isinstance(files, list)
    assert [file.filename for file in files] == ["d/b.json"]


def test_account(github: Client) -> None:
    assert github.rest.rate_limit.get().parsed_data.resources.core.limit == 5000
    assert github.rest.users.get_authenticated().parsed_data.login == "holdfast"
    assert github.rest.meta.get().parsed_data.verifiable_password_authentication is False


def test_graphql(github: Client, head: str) -> None:
    shown = github.graphql("{ viewer { login } rateLimit { remaining cost } }")

    assert shown == {"viewer": {"login": "holdfast"}, "rateLimit": {"remaining": 4999, "cost": 1}}


def test_refusal(github: Client) -> None:
    with pytest.raises(RequestFailed) as caught:
        github.rest.repos.get("holdfast", "elsewhere")

    assert caught.value.response.status_code == 404
