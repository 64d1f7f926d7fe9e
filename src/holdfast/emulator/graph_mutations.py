"""GraphQL mutations: a commit of many files, and the movement of refs, each all or nothing."""

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from holdfast.emulator.contents import check_path
from holdfast.emulator.exchange import Refusal
from holdfast.emulator.graph_nodes import CommitNode, GraphFailure, RefNode, RepositoryNode
from holdfast.emulator.objects import BlockedPath, Person
from holdfast.emulator.shelf import ServedRepository
from holdfast.emulator.trees import FILE_MODE, TreeEntry
from holdfast.emulator.visit import Visit

ABSENT = "0" * 40


@dataclass(frozen=True)
class CommitPayload:
    """The answer to createCommitOnBranch."""

    client_mutation_id: str | None
    commit: CommitNode
    ref: RefNode


@dataclass(frozen=True)
class RefsPayload:
    """The answer to updateRefs."""

    client_mutation_id: str | None


def create_commit(visit: Visit, asked: Mapping[str, Any]) -> CommitPayload:
    """Commit additions and deletions to a branch that is exactly where the caller expects it."""
    served, ref = _find_branch(visit, asked["branch"])
    visit = replace(visit, served=served)
    additions, deletions = _file_changes(visit, asked.get("fileChanges") or {})
    git, expected = served.git, asked["expectedHeadOid"]
    _as_failure(visit.refuse_if_read_only)
    visit.move_head_of(git, ref)
    with git.locked():
        head = git.read_ref(ref)
        if head is None:
            raise GraphFailure("NOT_FOUND", f"Could not resolve to a Ref with the name '{ref}'.")
        if head != expected:
            raise GraphFailure(
                "STALE_DATA",
                f'Expected branch to point to "{expected}" but it did not.  Pull and try again.',
            )
        branch = ref.removeprefix("refs/heads/")
        _as_failure(lambda: visit.refuse_by_rules(branch, "create commit", additions))
        tree = _new_tree(served, head, additions, deletions)
        commit = git.write_commit(
            tree=tree,
            parents=[head],
            author=visit.viewer,
            committer=Person("GitHub", "noreply@github.com", int(visit.now)),
            message=_message(asked["message"]),
        )
        git.move_ref(ref, commit, head)
    # What the caller asks about the commit it made is true, whatever reads of the branch would see.
    node = RepositoryNode(replace(visit, stale=type(visit.stale)()))
    return CommitPayload(
        asked.get("clientMutationId"), CommitNode(node, git.read_commit(commit)), RefNode(node, ref)
    )


def update_refs(visit: Visit, asked: Mapping[str, Any]) -> RefsPayload:
    """Move several refs at once, each only if it is where the caller expects it."""
    served = visit.shelf.find_node(asked["repositoryId"], visit.switches.renamed)
    if served is None or visit.switches.repository_gone:
        raise _unresolved(asked["repositoryId"])
    _as_failure(visit.refuse_if_read_only)
    git = served.git
    for change in asked["refUpdates"]:
        visit.move_head_of(git, change["name"])
    with git.locked():
        heads = [_check_update(visit, served, change) for change in asked["refUpdates"]]
        for change, head in zip(asked["refUpdates"], heads, strict=True):
            if change["afterOid"] != ABSENT:
                git.move_ref(change["name"], change["afterOid"], head)
            elif head is not None:
                git.delete_ref(change["name"], head)
    return RefsPayload(asked.get("clientMutationId"))


def _check_update(visit: Visit, served: ServedRepository, change: Mapping[str, Any]) -> str | None:
    """Return where the ref is now, or fail if the update is not allowed from there."""
    git, name, after = served.git, change["name"], change["afterOid"]
    head, before = git.read_ref(name), change.get("beforeOid")
    if before is not None and before != (head or ABSENT):
        raise GraphFailure("STALE_DATA", f'Expected {name} to point to "{before}" but it did not.')
    branch = name.removeprefix("refs/heads/")
    _as_failure(lambda: visit.refuse_by_rules(branch, "update ref", {}))
    if after == ABSENT:
        return head
    if not git.is_valid_ref(name) or (git.describe(after) or ("", 0))[0] != "commit":
        raise GraphFailure("UNPROCESSABLE", f"{name} cannot point to {after}.")
    if head is not None and not change.get("force") and not git.is_ancestor(head, after):
        raise GraphFailure("UNPROCESSABLE", f"{name}: Update is not a fast forward")
    return head


def _find_branch(visit: Visit, asked: Mapping[str, Any]) -> tuple[ServedRepository, str]:
    renamed = visit.switches.renamed
    if visit.switches.repository_gone:
        raise _unresolved(str(asked.get("repositoryNameWithOwner") or asked.get("id")))
    if asked.get("id"):
        found = visit.shelf.find_ref(asked["id"], renamed)
        if found is None:
            raise _unresolved(asked["id"])
        return found
    name, branch = asked.get("repositoryNameWithOwner"), asked.get("branchName")
    if not name or not branch:
        raise GraphFailure("UNPROCESSABLE", "Either id, or repositoryNameWithOwner and branchName is needed.")
    served = visit.shelf.find(renamed.get(name, name), renamed)
    if served is None:
        raise GraphFailure("NOT_FOUND", f"Could not resolve to a Repository with the name '{name}'.")
    return served, f"refs/heads/{branch.removeprefix('refs/heads/')}"


def _unresolved(identity: str) -> GraphFailure:
    return GraphFailure("NOT_FOUND", f"Could not resolve to a node with the global id of '{identity}'")


def _file_changes(visit: Visit, asked: Mapping[str, Any]) -> tuple[dict[str, bytes], list[str]]:
    added, deleted = asked.get("additions") or [], asked.get("deletions") or []
    paths = [change["path"] for change in (*added, *deleted)]
    for path in paths:
        _as_failure(partial(check_path, path))
    if len(set(paths)) < len(paths):
        raise GraphFailure("UNPROCESSABLE", "A path may occur only once in additions and deletions.")
    if sum(len(change["contents"]) for change in added) > visit.options.commit_payload_limit_bytes:
        raise GraphFailure("UNPROCESSABLE", "The commit is too large: split it into several.")
    additions = {change["path"]: _decode(change["path"], change["contents"]) for change in added}
    return additions, [change["path"] for change in deleted]


def _decode(path: str, contents: str) -> bytes:
    try:
        return base64.b64decode(contents, validate=True)
    except (binascii.Error, ValueError):
        raise GraphFailure("UNPROCESSABLE", f"The contents of {path} are not valid Base64.") from None


def _new_tree(
    served: ServedRepository, head: str, additions: Mapping[str, bytes], deletions: list[str]
) -> str:
    git = served.git
    tree = git.read_commit(head).tree
    for path in deletions:
        found = git.find_entry(tree, path)
        if found is None or found.kind == "tree":
            raise GraphFailure(
                "UNPROCESSABLE",
                f"A path was requested for deletion which does not exist as of commit oid `{head}`: {path}",
            )
    changes: dict[str, TreeEntry | None] = dict.fromkeys(deletions)
    for path, content in additions.items():
        changes[path] = TreeEntry("", FILE_MODE, git.write_blob(content))
    try:
        return git.edit_tree(tree, changes)
    except BlockedPath as error:
        raise GraphFailure("UNPROCESSABLE", f"{error} is a file, not a folder.") from None


def _message(asked: Mapping[str, Any]) -> str:
    body = asked.get("body") or ""
    return f"{asked['headline']}\n\n{body}" if body else str(asked["headline"])


def _as_failure(check: Callable[[], object]) -> None:
    """Run a check of the REST side, and turn its refusal into a GraphQL error."""
    try:
        check()
    except Refusal as refusal:
        kinds = {403: "FORBIDDEN", 404: "NOT_FOUND"}
        raise GraphFailure(kinds.get(refusal.status, "UNPROCESSABLE"), refusal.message) from None
