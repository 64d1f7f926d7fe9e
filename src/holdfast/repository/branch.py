"""The branch that checkpoints live on: made when it is missing, with no history in common with the code."""

from holdfast.errors import Conflict, Missing, Refused
from holdfast.github.calls import Call, Gateway, ReadHead, ResultT
from holdfast.github.inspection import ReadRepository
from holdfast.github.write_calls import CreateBranch, WriteCommit, WriteFile, WriteTree
from holdfast.logs import log

_README = """# Checkpoints

[Holdfast](https://github.com/holdfast/holdfast) keeps the checkpoints of workflow runs on this branch.
It shares no history with the code. Each folder under the base path is one run:
`latest.json` is its newest checkpoint, `index.json` lists them all.
"""


def ensure_branch(gateway: Gateway, branch: str) -> None:
    """Make `branch` without a parent unless it is there; an empty repository gets its first commit too.

    Raises Refused when the repository cannot be seen at all.
    """
    try:
        gateway.perform(ReadHead(branch))
    except Missing:
        check_repository(gateway)
        _make_branch(gateway, branch)


def perform_on_branch(gateway: Gateway, branch: str, call: Call[ResultT]) -> ResultT:
    """Return what GitHub answers to `call`; where `branch` is missing, make it and perform the call again."""
    try:
        return gateway.perform(call)
    except Missing:
        ensure_branch(gateway, branch)
    return gateway.perform(call)


def check_repository(gateway: Gateway) -> None:
    """Raise Refused when the repository cannot be seen at all."""
    try:
        gateway.perform(ReadRepository())
    except Missing as error:
        raise Refused(
            error.path,
            "the repository does not exist, or the token may not see it",
            "not_found_or_no_access",
            "Check HOLDFAST_REPO, and that the token has access to it with contents: write.",
        ) from error


def _make_branch(gateway: Gateway, branch: str) -> None:
    first = WriteTree({"README.md": _README})
    try:
        tree_sha = gateway.perform(first)
    except Conflict:
        # Git data calls do not work in an empty repository: its first commit must come by the contents API.
        gateway.perform(WriteFile("README.md", _README.encode(), "Begin the repository", branch=""))
        log.info("repository_begun")
        tree_sha = gateway.perform(first)
    commit_sha = gateway.perform(WriteCommit(tree_sha, f"Begin the branch {branch}"))
    try:
        gateway.perform(CreateBranch(branch, commit_sha))
    except Conflict:
        log.info("branch_found", branch=branch)  # another writer was quicker, or the first commit made it
    else:
        log.info("branch_created", branch=branch, commit_sha=commit_sha)
