"""The REST requests behind our calls: what each one asks, and how its answer is read.

Everything here is pure. At an answer that makes no sense, `read` may raise AttributeError, LookupError,
TypeError or ValueError.
"""

from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from holdfast.errors import Missing, Refused, Unavailable
from holdfast.format.git_ids import blob_sha
from holdfast.github.bodies import Base64
from holdfast.github.calls import (
    HISTORY_PAGE,
    Call,
    CreateBranch,
    DeleteFile,
    ListFolder,
    MoveBranch,
    ReadBlob,
    ReadCommit,
    ReadFile,
    ReadHead,
    ReadHeadIfChanged,
    ReadHistory,
    ReadReplacedHead,
    ReadRepository,
    ReadTree,
    WriteCommit,
    WriteFile,
    WriteTree,
)
from holdfast.github.inspection import ReadProtection, ReadRules, ReadViewer
from holdfast.github.records import (
    CommitRecord,
    File,
    HeadReading,
    Listing,
    ListingEntry,
    RepositoryRecord,
    Revision,
    Signature,
)
from holdfast.github.reply import Reply

ResultT = TypeVar("ResultT")

FOLDER_LIMIT = 1000
"""How many entries GitHub lists of a folder before it stops."""

_RAW = "application/vnd.github.raw+json"
_JSON = "application/vnd.github+json"
_WRAPPED = ("application/json", _JSON, "application/vnd.github.v3+json")
_CONTENT_KINDS = {"file": "file", "dir": "folder"}


@dataclass(frozen=True, slots=True)
class Request(Generic[ResultT]):
    """One REST request, relative to the repository unless it `is_server_wide`, and the reader of its answer.

    With an `etag` the answer may also be that nothing has changed, which `read` must then expect.
    """

    method: str
    path: str
    read: Callable[[Reply], ResultT]
    query: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] | None = None
    accept: str = _JSON
    etag: str = ""
    is_server_wide: bool = False


def build_request(call: Call[ResultT]) -> Request[ResultT]:
    """Return the request that performs `call`. Raises Refused for a path that GitHub could misread."""
    return _BUILDERS[type(call)](call)


def format_url_path(path: str) -> str:
    """Return `path` with each segment percent-encoded, so that nothing in it can leave its place.

    >>> format_url_path("runs/a b/50%?.json")
    'runs/a%20b/50%25%3F.json'
    """
    segments = path.split("/")
    if any(not _is_plain_segment(segment) for segment in segments):
        raise Refused(
            path,
            "a path needs names that are neither empty, '.' nor '..'",
            kind="invalid",
            advice="Use names without empty, '.' or '..' segments and without control characters.",
        )
    return "/".join(quote(segment, safe="") for segment in segments)


def _is_plain_segment(segment: str) -> bool:
    has_odd_character = any(ord(c) < 32 or 0xD800 <= ord(c) <= 0xDFFF for c in segment)
    return segment not in ("", ".", "..") and not has_odd_character


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
    return Request("GET", "/user", lambda reply: _text(reply.json()["login"]), is_server_wide=True)


def _read_protection(call: ReadProtection) -> Request[bool]:
    path = f"/branches/{format_url_path(call.branch)}"
    return Request("GET", path, lambda reply: bool(reply.json()["protected"]))


def _read_rules(call: ReadRules) -> Request[tuple[str, ...]]:
    def read(reply: Reply) -> tuple[str, ...]:
        return tuple(_text(rule["type"]) for rule in reply.json())

    return Request("GET", f"/rules/branches/{format_url_path(call.branch)}", read)


def _read_file(call: ReadFile) -> Request[File]:
    def read(reply: Reply) -> File:
        if _is_folder(reply, call.path):
            raise Missing(call.path, "there is a folder, not a file")
        content = _raw_content(reply)
        return File(content, blob_sha(content))

    path = f"/contents/{format_url_path(call.path)}"
    return Request("GET", path, read, query={"ref": call.ref}, accept=_RAW)


def _raw_content(reply: Reply) -> bytes:
    """Return the bytes of a file or blob, also from a server that answers a raw read with JSON and base64.

    Only an answer that says it is plain JSON, and whose content has the SHA that it names, is taken so: a
    file may hold such a document itself.
    """
    media_type = reply.headers.get("content-type", "").split(";")[0].strip()
    if media_type not in _WRAPPED:
        return reply.body
    document = reply.members()
    if document.get("encoding") != "base64" or not isinstance(document.get("content"), str):
        return reply.body
    content = b64decode(document["content"])
    return content if blob_sha(content) == document.get("sha") else reply.body


def _is_folder(reply: Reply, path: str) -> bool:
    """Whether the answer to a raw read is a folder's listing, which GitHub gives as plain JSON."""
    if not reply.headers.get("content-type", "").startswith("application/json"):
        return False
    try:
        content = reply.json()
    except ValueError:
        return False
    return isinstance(content, list) and all(
        isinstance(entry, dict) and str(entry.get("path", "")).startswith(f"{path}/") for entry in content
    )


def _list_folder(call: ListFolder) -> Request[Listing]:
    def read(reply: Reply) -> Listing:
        content = reply.json()
        if isinstance(content, dict):
            raise Missing(call.path, "there is a file, not a folder")
        entries = tuple(
            ListingEntry(
                path=entry["name"],
                kind=_CONTENT_KINDS.get(entry["type"], "other"),  # type: ignore[arg-type]
                sha=entry["sha"],
                size_bytes=entry.get("size") or 0,
            )
            for entry in content
        )
        return Listing(entries, is_complete=len(entries) < FOLDER_LIMIT)

    path = f"/contents/{format_url_path(call.path)}" if call.path else "/contents"
    return Request("GET", path, read, query={"ref": call.ref})


def _read_tree(call: ReadTree) -> Request[Listing]:
    def read(reply: Reply) -> Listing:
        content = reply.json()
        entries = tuple(_tree_entry(entry) for entry in content["tree"])
        return Listing(entries, is_complete=not content.get("truncated", False))

    # Any value of `recursive`, even "false", turns it on.
    query = {"recursive": "1"} if call.is_recursive else {}
    return Request("GET", f"/git/trees/{format_url_path(call.sha)}", read, query=query)


def _tree_entry(entry: dict[str, Any]) -> ListingEntry:
    path, sha, size_bytes = entry["path"], entry["sha"], entry.get("size") or 0
    if entry["type"] == "tree":
        return ListingEntry(path, "folder", sha)
    is_file = entry["type"] == "blob" and entry["mode"] != "120000"
    return ListingEntry(path, "file" if is_file else "other", sha, size_bytes)


def _read_blob(call: ReadBlob) -> Request[bytes]:
    def read(reply: Reply) -> bytes:
        content = _raw_content(reply)
        if blob_sha(content) != call.sha:
            raise Unavailable(call.sha, "GitHub answered with other bytes than the blob's")
        return content

    return Request("GET", f"/git/blobs/{format_url_path(call.sha)}", read, accept=_RAW)


def _read_head(call: ReadHead) -> Request[str]:
    def read(reply: Reply) -> str:
        content = reply.json()
        # Older servers answer with every branch that begins like the one asked for.
        if isinstance(content, list):
            raise Missing(call.branch, "there is no such branch")
        return _text(content["object"]["sha"])

    return Request("GET", f"/git/ref/heads/{format_url_path(call.branch)}", read)


def _read_head_if_changed(call: ReadHeadIfChanged) -> Request[HeadReading]:
    whole = _read_head(ReadHead(call.branch))

    def read(reply: Reply) -> HeadReading:
        sha = None if reply.is_unchanged else whole.read(reply)
        return HeadReading(sha, reply.headers.get("etag", call.etag if reply.is_unchanged else ""))

    return Request("GET", whole.path, read, etag=call.etag)


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


def _write_file(call: WriteFile) -> Request[Revision]:
    sent_sha = blob_sha(call.content)

    def read(reply: Reply) -> Revision:
        content = reply.json()
        if content["content"]["sha"] != sent_sha:
            raise Unavailable(call.path, "what GitHub stored is not what was sent")
        return Revision(_text(content["commit"]["sha"]), {call.path: sent_sha}, _parent(content["commit"]))

    body: dict[str, Any] = {"message": call.message, "content": Base64(call.content)}
    body |= {"branch": call.branch} if call.branch else {}
    body |= {"sha": call.expected_sha} if call.expected_sha is not None else {}
    return Request("PUT", f"/contents/{format_url_path(call.path)}", read, body=body)


def _delete_file(call: DeleteFile) -> Request[Revision]:
    def read(reply: Reply) -> Revision:
        commit = reply.json()["commit"]
        return Revision(_text(commit["sha"]), parent_sha=_parent(commit))

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
    return _text(reply.json()["sha"])


def _parent(commit: dict[str, Any]) -> str:
    """Return the commit that another one was made on; empty for a first one, or if GitHub does not say."""
    parents = commit.get("parents") or [{}]
    return str(parents[0].get("sha", ""))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value


_BUILDERS: dict[type[Call[Any]], Callable[[Any], Request[Any]]] = {
    ReadRepository: _read_repository,
    ReadFile: _read_file,
    ListFolder: _list_folder,
    ReadTree: _read_tree,
    ReadBlob: _read_blob,
    ReadHead: _read_head,
    ReadHeadIfChanged: _read_head_if_changed,
    ReadCommit: _read_commit,
    WriteFile: _write_file,
    DeleteFile: _delete_file,
    WriteTree: _write_tree,
    WriteCommit: _write_commit,
    CreateBranch: _create_branch,
    ReadHistory: _read_history,
    ReadReplacedHead: _read_replaced_head,
    MoveBranch: _move_branch,
    ReadViewer: _read_viewer,
    ReadProtection: _read_protection,
    ReadRules: _read_rules,
}
