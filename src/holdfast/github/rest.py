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
from holdfast.github.calls import (
    Call,
    ListFolder,
    ReadBlob,
    ReadFile,
    ReadHead,
    ReadHeadIfChanged,
    ReadTree,
)
from holdfast.github.reply import Reply
from holdfast.github.results import (
    File,
    HeadReading,
    Listing,
    ListingEntry,
)

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
    builder = _BUILDERS.get(type(call)) or _find_builder(type(call))
    return builder(call)


def _find_builder(kind: "type[Call[Any]]") -> "Callable[[Any], Request[Any]]":
    """Return what makes the request of a call that readers do not make: they have no time to load those."""
    from holdfast.github.rest_on_demand import BUILDERS

    return BUILDERS[kind]


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
        return text_of(content["object"]["sha"])

    return Request("GET", f"/git/ref/heads/{format_url_path(call.branch)}", read)


def _read_head_if_changed(call: ReadHeadIfChanged) -> Request[HeadReading]:
    whole = _read_head(ReadHead(call.branch))

    def read(reply: Reply) -> HeadReading:
        sha = None if reply.is_unchanged else whole.read(reply)
        return HeadReading(sha, reply.headers.get("etag", call.etag if reply.is_unchanged else ""))

    return Request("GET", whole.path, read, etag=call.etag)


def text_of(value: object) -> str:
    """Return what must be text. Raises TypeError if it is not."""
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value


_BUILDERS: dict[type[Call[Any]], Callable[[Any], Request[Any]]] = {
    ReadFile: _read_file,
    ListFolder: _list_folder,
    ReadTree: _read_tree,
    ReadBlob: _read_blob,
    ReadHead: _read_head,
    ReadHeadIfChanged: _read_head_if_changed,
}
