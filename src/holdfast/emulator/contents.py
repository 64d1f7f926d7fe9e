"""The contents API: one file or one folder at a time."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from holdfast.emulator.exchange import (
    Answer,
    JsonObject,
    Refusal,
    json_answer,
    not_found,
    unsupplied,
    wrong_type,
)
from holdfast.emulator.objects import BlockedPath, Person
from holdfast.emulator.repository import GitRepository, RefMoved
from holdfast.emulator.shapes import content_kind, content_shape, git_commit_shape
from holdfast.emulator.trees import FILE_MODE, TreeEntry
from holdfast.emulator.visit import Visit

INLINE_LIMIT_BYTES = 1_000_000
READ_LIMIT_BYTES = 100_000_000
RAW_TYPE = "application/vnd.github.raw+json; charset=utf-8"
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_MEDIA = re.compile(r"application/vnd\.github(?:\.v3)?\.(raw|object|html)")


@dataclass(frozen=True)
class FileChange:
    """What a PUT or DELETE of one file asks for; `content` is None for a DELETE."""

    path: str
    message: str
    content: bytes | None
    sha: str | None
    branch: str | None
    author: Person
    committer: Person


def get_contents(visit: Visit) -> Answer:
    """Answer a file, or a folder's listing, in the media type that was asked for."""
    git, path = visit.git, visit.params["path"]
    if git.is_empty():
        raise not_found("This repository is empty.")
    if path.endswith("/") and path.strip("/"):
        raise not_found()
    revision = visit.request.query.get("ref") or git.default_branch
    commit = visit.read_commit(revision)
    entry = git.find_entry(commit.tree, check_path(path) if path.strip("/") else "")
    if entry is None:
        raise not_found()
    media = asked_media(visit.request.accept)
    if entry.kind == "tree":
        return _listing(visit, path.strip("/"), entry, revision, media)
    path, entry = _follow_link(git, commit.tree, path, entry)
    if content_kind(entry) != "file":
        return _special(visit, path, entry, revision)
    return _file(visit, path, entry, revision, media)


def put_contents(visit: Visit) -> Answer:
    """Create or replace one file by one commit."""
    change = _parse_change(visit, needs_content=True)
    return _apply(visit, change)


def delete_contents(visit: Visit) -> Answer:
    """Remove one file by one commit."""
    return _apply(visit, _parse_change(visit, needs_content=False))


def asked_media(accept: str) -> str:
    """Return `raw`, `object`, `html` or `json`.

    >>> asked_media("application/vnd.github.raw+json")
    'raw'
    """
    found = _MEDIA.search(accept)
    return found.group(1) if found else "json"


def check_path(path: str) -> str:
    """Return the path, or refuse one that git could not hold."""
    if path.startswith("/"):
        raise Refusal(422, "path cannot start with a slash")
    if any(part in {"", ".", ".."} or part.lower() == ".git" for part in path.split("/")) or "\0" in path:
        raise Refusal(422, "path contains a malformed path component")
    return path


def decode_base64(text: str) -> bytes:
    """Decode as GitHub does: blanks are passed over, alphabet and length are checked, nothing else."""
    packed = "".join(text.split())
    if len(packed) % 4 or not _BASE64.fullmatch(packed):
        raise Refusal(422, "content is not valid Base64")
    return base64.b64decode(packed)


def encode_base64(content: bytes) -> str:
    """Encode as GitHub does: with a line break after every 60 characters."""
    text = base64.b64encode(content).decode()
    return "".join(text[start : start + 60] + "\n" for start in range(0, len(text), 60))


def parse_person(value: object, name: str, default: Person) -> Person:
    """Return an author or committer from a request's body."""
    if value is None:
        return default
    if not isinstance(value, dict):
        raise wrong_type(name, value, "an object")
    missing = [part for part in ("name", "email") if not isinstance(value.get(part), str)]
    if missing:
        raise unsupplied(*missing)
    return Person(value["name"], value["email"], _parse_time(value.get("date"), default.time))


def _parse_time(value: object, default: int) -> int:
    if value is None:
        return default
    try:
        parsed = datetime.fromisoformat(str(value))
    except ValueError:
        raise wrong_type("date", value, "a date-time") from None
    return int(parsed.timestamp())


def _follow_link(git: GitRepository, tree: str, path: str, entry: TreeEntry) -> tuple[str, TreeEntry]:
    if content_kind(entry) != "symlink":
        return path, entry
    target = git.read_blob(entry.sha).decode("utf-8", "surrogateescape")
    folder = path.rpartition("/")[0]
    resolved = f"{folder}/{target}" if folder else target
    found = git.find_entry(tree, resolved)
    return (resolved, found) if found is not None and found.kind == "blob" else (path, entry)


def _listing(visit: Visit, path: str, folder: TreeEntry, revision: str, media: str) -> Answer:
    git, prefix = visit.git, f"{path}/" if path else ""
    entries = list(git.read_tree(folder.sha))[: visit.options.directory_limit]
    items = [
        content_shape(visit.links, prefix + entry.name, entry, _size(git, entry), revision)
        for entry in entries
    ]
    if media != "object":
        return json_answer(items)
    shape = content_shape(visit.links, path, folder, 0, revision)
    return json_answer({**shape, "entries": items})


def _special(visit: Visit, path: str, entry: TreeEntry, revision: str) -> Answer:
    size = _size(visit.git, entry)
    shape = content_shape(visit.links, path, entry, size, revision)
    if entry.kind == "commit":
        return json_answer({**shape, "submodule_git_url": None})
    target = visit.git.read_blob(entry.sha).decode("utf-8", "surrogateescape")
    return json_answer({**shape, "target": target})


def _size(git: GitRepository, entry: TreeEntry) -> int:
    found = git.describe(entry.sha) if entry.kind == "blob" else None
    return found[1] if found else 0


def _file(visit: Visit, path: str, entry: TreeEntry, revision: str, media: str) -> Answer:
    size = _size(visit.git, entry)
    if size > READ_LIMIT_BYTES:
        raise too_large()
    if media == "raw":
        return Answer(200, visit.git.read_blob(entry.sha), {"content-type": RAW_TYPE})
    shape = content_shape(visit.links, path, entry, size, revision)
    if size > INLINE_LIMIT_BYTES:
        return json_answer({**shape, "content": "", "encoding": "none"})
    content = encode_base64(visit.git.read_blob(entry.sha))
    return json_answer({**shape, "content": content, "encoding": "base64"})


def too_large() -> Refusal:
    """Return the refusal to read a file beyond GitHub's limit."""
    error = {"resource": "Blob", "field": "data", "code": "too_large"}
    return Refusal(
        403,
        "This API returns blobs up to 100 MB in size. The requested blob is too large to fetch via the API.",
        extra={"errors": [error]},
    )


def _parse_change(visit: Visit, *, needs_content: bool) -> FileChange:
    # DELETE may carry its fields in the query, for clients that cannot send a body with it.
    body = visit.request.json_object() or (dict(visit.request.query) if not needs_content else {})
    wanted = ("content", "message") if needs_content else ("message",)
    missing = [name for name in wanted if name not in body]
    if missing:
        raise unsupplied(*missing)
    for name in (*wanted, "sha", "branch"):
        if name in body and not isinstance(body[name], str):
            raise wrong_type(name, body[name], "a string")
    committer = parse_person(body.get("committer"), "committer", visit.viewer)
    return FileChange(
        path=_writable_path(visit.params["path"]),
        message=body["message"],
        content=decode_base64(body["content"]) if needs_content else None,
        sha=body.get("sha"),
        branch=body.get("branch"),
        author=parse_person(body.get("author"), "author", committer),
        committer=committer,
    )


def _writable_path(path: str) -> str:
    if path.endswith("/") or not path:
        raise not_found()
    return check_path(path)


def _apply(visit: Visit, change: FileChange) -> Answer:
    visit.refuse_if_read_only()
    git = visit.git
    with git.locked():
        ref, head = _target(visit, change.branch)
        tree = git.read_commit(head).tree if head else None
        found = git.find_entry(tree, change.path) if tree else None
        _check_sha(change, found)
        verb = "delete" if change.content is None else "update" if found else "create"
        files = {} if change.content is None else {change.path: change.content}
        visit.refuse_by_rules(ref.removeprefix("refs/heads/"), f"{verb} file", files)
        entry = None if change.content is None else _new_entry(git, change.content, found)
        commit = _commit(visit, change, ref, head, tree, {change.path: entry})
    body: JsonObject = {"content": None, "commit": git_commit_shape(visit.links, git.read_commit(commit))}
    if entry is not None and change.content is not None:
        branch = ref.removeprefix("refs/heads/")
        body["content"] = content_shape(visit.links, change.path, entry, len(change.content), branch)
    return json_answer(body, 201 if verb == "create" else 200)


def _target(visit: Visit, branch: str | None) -> tuple[str, str | None]:
    """Return the full ref to write and its head; None as head in a repository without commits."""
    git = visit.git
    name = branch or git.default_branch
    ref = f"refs/heads/{name.removeprefix('refs/heads/')}"
    head = git.read_ref(ref)
    if head is not None:
        return ref, head
    takes_it = visit.options.empty_takes_any_branch or name == git.default_branch
    if git.is_empty() and takes_it and git.is_valid_ref(ref):
        return ref, None
    raise not_found(f"Branch {name} not found")


def _check_sha(change: FileChange, found: TreeEntry | None) -> None:
    if found is None:
        if change.content is None:
            raise not_found()
        return
    if change.sha is None:
        raise unsupplied("sha")
    if found.sha != change.sha or found.kind != "blob":
        raise Refusal(409, f"{change.path} does not match {change.sha}")


def _new_entry(git: GitRepository, content: bytes, found: TreeEntry | None) -> TreeEntry:
    mode = found.mode if found is not None else FILE_MODE
    return TreeEntry("", mode, git.write_blob(content))


def _commit(
    visit: Visit,
    change: FileChange,
    ref: str,
    head: str | None,
    tree: str | None,
    changes: Mapping[str, TreeEntry | None],
) -> str:
    git = visit.git
    try:
        new_tree = git.edit_tree(tree, changes)
    except BlockedPath as error:
        raise Refusal(422, f"Could not create file: {error} is a file, not a folder.") from None
    commit = git.write_commit(
        tree=new_tree,
        parents=[head] if head else [],
        author=change.author,
        committer=change.committer,
        message=change.message,
    )
    visit.move_head_of(git, ref)
    try:
        git.move_ref(ref, commit, head)
    except RefMoved as error:
        raise Refusal(409, f"is at {error.found} but expected {error.expected}") from None
    return commit
