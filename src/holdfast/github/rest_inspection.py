"""The REST requests for what is seldom asked: the repository, its history, and what guards a branch.

As pure as `rest` is.
"""

from collections.abc import Callable
from typing import Any

from holdfast.errors import Missing
from holdfast.github.calls import Call
from holdfast.github.history_calls import (
    HISTORY_PAGE,
    CommitRecord,
    ReadCommit,
    ReadHistory,
    ReadReplacedHead,
)
from holdfast.github.inspection import (
    ReadProtection,
    ReadRepository,
    ReadRules,
    ReadViewer,
    RepositoryRecord,
)
from holdfast.github.reply import Reply
from holdfast.github.rest import Request, format_url_path, text_of
from holdfast.github.results import Signature


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
    ReadRepository: _read_repository,
    ReadCommit: _read_commit,
    ReadHistory: _read_history,
    ReadReplacedHead: _read_replaced_head,
    ReadViewer: _read_viewer,
    ReadProtection: _read_protection,
    ReadRules: _read_rules,
}
