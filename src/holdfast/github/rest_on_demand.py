"""The REST requests that a mere reader does not make: writes, and what is seldom asked. As pure as `rest`."""

from collections.abc import Callable
from typing import Any

from holdfast.errors import Missing, Unavailable
from holdfast.format.git_ids import blob_sha
from holdfast.github.bodies import Base64
from holdfast.github.calls import Call
from holdfast.github.inspection import (
    HISTORY_PAGE,
    CommitRecord,
    ReadCommit,
    ReadHistory,
    ReadProtection,
    ReadReplacedHead,
    ReadRepository,
    ReadRules,
    ReadViewer,
    RepositoryRecord,
)
from holdfast.github.reply import Reply
from holdfast.github.rest import Request, format_url_path, text_of
from holdfast.github.results import Signature
from holdfast.github.write_calls import (
    CreateBranch,
    DeleteFile,
    MoveBranch,
    Revision,
    WriteCommit,
    WriteFile,
    WriteTree,
)


def _write_file(call: WriteFile) -> Request[Revision]:
    sent_sha = blob_sha(call.content)

    def read(reply: Reply) -> Revision:
        content = reply.json()
        if content["content"]["sha"] != sent_sha:
            raise Unavailable(call.path, "what GitHub stored is not what was sent")
        return Revision(text_of(content["commit"]["sha"]), {call.path: sent_sha}, _parent(content["commit"]))

    body: dict[str, Any] = {"message": call.message, "content": Base64(call.content)}
    body |= {"branch": call.branch} if call.branch else {}
    body |= {"sha": call.expected_sha} if call.expected_sha is not None else {}
    return Request("PUT", f"/contents/{format_url_path(call.path)}", read, body=body)


def _delete_file(call: DeleteFile) -> Request[Revision]:
    def read(reply: Reply) -> Revision:
        commit = reply.json()["commit"]
        return Revision(text_of(commit["sha"]), parent_sha=_parent(commit))

    body = {"message": call.message, "branch": call.branch, "sha": call.expected_sha}
    return Request("DELETE", f"/contents/{format_url_path(call.path)}", read, body=body)


def _write_tree(call: WriteTree) -> Request[str]:
    def entry(path: str, text: str | None) -> dict[str, Any]:
        content = {"sha": None} if text is None else {"content": text}
        return {"path": path, "mode": "100644", "type": "blob", **content}

    body: dict[str, Any] = {"tree": [entry(path, text) for path, text in call.files.items()]}
    body |= {"base_tree": call.base_tree_sha} if call.base_tree_sha else {}
    return Request("POST", "/git/trees", _read_sha, body=body)


def _write_commit(call: WriteCommit) -> Request[str]:
    body: dict[str, Any] = {"message": call.message, "tree": call.tree_sha, "parents": list(call.parent_shas)}
    people = {"author": call.author, "committer": call.committer}
    body |= {role: person._asdict() for role, person in people.items() if person}
    return Request("POST", "/git/commits", _read_sha, body=body)


def _move_branch(call: MoveBranch) -> Request[None]:
    body = {"sha": call.commit_sha, "force": call.is_forced}
    path = f"/git/refs/heads/{format_url_path(call.branch)}"
    return Request("PATCH", path, lambda _: None, body=body)


def _create_branch(call: CreateBranch) -> Request[None]:
    format_url_path(call.branch)
    body = {"ref": f"refs/heads/{call.branch}", "sha": call.commit_sha}
    return Request("POST", "/git/refs", lambda _: None, body=body)


def _read_sha(reply: Reply) -> str:
    return text_of(reply.json()["sha"])


def _parent(commit: dict[str, Any]) -> str:
    """Return the commit that another one was made on; empty for a first one, or if GitHub does not say."""
    parents = commit.get("parents") or [{}]
    return str(parents[0].get("sha", ""))


def _read_repository(_: ReadRepository) -> Request[RepositoryRecord]:
    def read(reply: Reply) -> RepositoryRecord:
        content = reply.json()
        permissions = content.get("permissions") or {"push": True}
        return RepositoryRecord(
            full_name=content["full_name"],
            default_branch=content["default_branch"],
            html_url=content["html_url"],
            can_write=bool(permissions["push"]) and not content.get("archived", False),
            node_id=str(content.get("node_id", "")),
            size_bytes=int(content.get("size") or 0) * 1024,
        )

    return Request("GET", "", read)


def _read_viewer(_: ReadViewer) -> Request[str]:
    return Request("GET", "/user", lambda reply: text_of(reply.json()["login"]), is_server_wide=True)


def _read_protection(call: ReadProtection) -> Request[bool]:
    path = f"/branches/{format_url_path(call.branch)}"
    return Request("GET", path, lambda reply: bool(reply.json()["protected"]))


def _read_rules(call: ReadRules) -> Request[tuple[str, ...]]:
    def read(reply: Reply) -> tuple[str, ...]:
        return tuple(text_of(rule["type"]) for rule in reply.json())

    return Request("GET", f"/rules/branches/{format_url_path(call.branch)}", read)


def _read_commit(call: ReadCommit) -> Request[CommitRecord]:
    def read(reply: Reply) -> CommitRecord:
        content = reply.json()
        return _commit_record(content["sha"], content["parents"], content)

    return Request("GET", f"/git/commits/{format_url_path(call.sha)}", read)


def _read_history(call: ReadHistory) -> Request[tuple[CommitRecord, ...]]:
    def read(reply: Reply) -> tuple[CommitRecord, ...]:
        return tuple(_commit_record(each["sha"], each["parents"], each["commit"]) for each in reply.json())

    query = {"sha": call.sha, "per_page": str(HISTORY_PAGE), "page": str(call.page)}
    query |= {"until": call.until} if call.until else {}
    return Request("GET", "/commits", read, query=query)


def _read_replaced_head(call: ReadReplacedHead) -> Request[str]:
    def read(reply: Reply) -> str:
        for move in reply.json():
            if move["after"] == call.sha:
                return str(move["before"])
        raise Missing(call.branch, "GitHub does not list yet that it was moved")

    query = {"ref": f"refs/heads/{call.branch}", "activity_type": "force_push"}
    return Request("GET", "/activity", read, query=query)


def _commit_record(sha: str, parents: list[dict[str, Any]], content: dict[str, Any]) -> CommitRecord:
    return CommitRecord(
        sha=sha,
        tree_sha=content["tree"]["sha"],
        parent_shas=tuple(parent["sha"] for parent in parents),
        message=content["message"],
        author=_signature(content.get("author")),
        committer=_signature(content.get("committer")),
    )


def _signature(person: dict[str, Any] | None) -> Signature | None:
    return Signature(person["name"], person["email"], person["date"]) if person else None


BUILDERS: dict[type[Call[Any]], Callable[[Any], Request[Any]]] = {
    WriteFile: _write_file,
    DeleteFile: _delete_file,
    WriteTree: _write_tree,
    WriteCommit: _write_commit,
    CreateBranch: _create_branch,
    MoveBranch: _move_branch,
    ReadRepository: _read_repository,
    ReadCommit: _read_commit,
    ReadHistory: _read_history,
    ReadReplacedHead: _read_replaced_head,
    ReadViewer: _read_viewer,
    ReadProtection: _read_protection,
    ReadRules: _read_rules,
}
