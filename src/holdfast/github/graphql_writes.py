"""The GraphQL requests of writers, and the count of commits: what each asks, and how its answer is read.

As pure as `graphql` is.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from holdfast.errors import Missing, Unavailable
from holdfast.format.git_ids import blob_sha
from holdfast.github.bodies import Base64
from holdfast.github.calls import Call
from holdfast.github.graphql import (
    GraphqlDocument,
    GraphqlRequest,
    declare_paths,
    path_variables,
    select_files,
)
from holdfast.github.inspection import CountCommits
from holdfast.github.write_calls import CommitFiles, ReplaceBranch, Revision

LARGEST_ASKED_BACK_BYTES = 10_000_000
"""Above this, asking GitHub for a file's blob fails although the commit was made."""


def _commit_files(call: CommitFiles, repository: str) -> GraphqlRequest[Revision]:
    return GraphqlRequest(build_commit(call, repository), partial(read_commit, call=call))


def _replace_branch(call: ReplaceBranch, _repository: str) -> GraphqlRequest[None]:
    def read(found: Mapping[str, Any]) -> None:
        if not found.get("updateRefs"):
            raise Unavailable(call.branch, "GitHub does not say whether it moved the branch")

    return GraphqlRequest(build_replacement(call), read)


def _count_commits(call: CountCommits, repository: str) -> GraphqlRequest[int]:
    return GraphqlRequest(build_count(call.branch, repository), partial(read_count, branch=call.branch))


def build_commit(call: CommitFiles, repository: str) -> GraphqlDocument:
    """Return the mutation that makes the commit and asks back the blob of every file written."""
    asked_back = _asked_back(call)
    text = (
        f"mutation($input: CreateCommitOnBranchInput!{declare_paths(asked_back)}) {{\n"
        f"  createCommitOnBranch(input: $input) {{ commit {{ oid{select_files(asked_back, 'oid')} }} }}\n"
        "}"
    )
    additions = [{"path": path, "contents": Base64(content)} for path, content in call.additions.items()]
    message = {"headline": call.headline} | ({"body": call.body} if call.body else {})
    commit = {
        "branch": {"repositoryNameWithOwner": repository, "branchName": call.branch},
        "expectedHeadOid": call.expected_head_sha,
        "message": message,
        "fileChanges": {"additions": additions, "deletions": [{"path": path} for path in call.deletions]},
    }
    return GraphqlDocument(text, {"input": commit, **path_variables(asked_back)})


def read_commit(found: Mapping[str, Any], call: CommitFiles) -> Revision:
    """Return the commit that was made. Raises Unavailable when it is not certain that it is ours."""
    commit = (found.get("createCommitOnBranch") or {}).get("commit")
    if not commit:
        raise Unavailable(call.branch, "GitHub does not say whether it made the commit")
    blob_shas: dict[str, str] = {}
    for number, path in enumerate(_asked_back(call)):
        blob_shas[path] = (commit[f"f{number}"] or {}).get("oid", "")
        if blob_shas[path] != blob_sha(call.additions[path]):
            raise Unavailable(path, "what GitHub stored is not what was sent")
    return Revision(str(commit["oid"]), blob_shas)


def build_count(branch: str, repository: str) -> GraphqlDocument:
    """Return the query for the number of commits of a branch."""
    owner, name = repository.split("/")
    text = (
        "query($owner: String!, $name: String!, $ref: String!) {\n"
        "  repository(owner: $owner, name: $name) { ref(qualifiedName: $ref) {"
        " target { ... on Commit { history(first: 1) { totalCount } } } } }\n"
        "}"
    )
    return GraphqlDocument(text, {"owner": owner, "name": name, "ref": f"refs/heads/{branch}"})


def read_count(found: Mapping[str, Any], branch: str) -> int:
    """Return the number of commits. Raises Missing when there is no such branch."""
    repository = found["repository"]
    if repository is None or repository["ref"] is None:
        raise Missing(branch, "there is no such branch or repository, or the token may not see it")
    return int(repository["ref"]["target"]["history"]["totalCount"])


def build_replacement(call: ReplaceBranch) -> GraphqlDocument:
    """Return the mutation that moves a branch if it is where we expect it."""
    text = "mutation($input: UpdateRefsInput!) { updateRefs(input: $input) { clientMutationId } }"
    update = {
        "name": f"refs/heads/{call.branch}",
        "beforeOid": call.expected_head_sha,
        "afterOid": call.commit_sha,
        "force": True,
    }
    return GraphqlDocument(text, {"input": {"repositoryId": call.repository_id, "refUpdates": [update]}})


def _asked_back(call: CommitFiles) -> list[str]:
    return [path for path, content in call.additions.items() if len(content) <= LARGEST_ASKED_BACK_BYTES]


BUILDERS: dict[type[Call[Any]], Callable[[Any, str], GraphqlRequest[Any]]] = {
    CommitFiles: _commit_files,
    CountCommits: _count_commits,
    ReplaceBranch: _replace_branch,
}
