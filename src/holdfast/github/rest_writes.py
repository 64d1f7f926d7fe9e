"""The REST requests of writers: what each one asks, and how its answer is read. As pure as `rest` is."""

from collections.abc import Callable
from typing import Any

from holdfast.errors import Unavailable
from holdfast.format.git_ids import blob_sha
from holdfast.github.bodies import Base64
from holdfast.github.calls import Call
from holdfast.github.reply import Reply
from holdfast.github.rest import Request, format_url_path, text_of
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


BUILDERS: dict[type[Call[Any]], Callable[[Any], Request[Any]]] = {
    WriteFile: _write_file,
    DeleteFile: _delete_file,
    WriteTree: _write_tree,
    WriteCommit: _write_commit,
    CreateBranch: _create_branch,
    MoveBranch: _move_branch,
}
