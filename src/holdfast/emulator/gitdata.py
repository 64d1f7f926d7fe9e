"""The git data API: blobs, trees and commits without a branch."""

import re
from collections.abc import Mapping

from holdfast.emulator.contents import (
    RAW_TYPE,
    READ_LIMIT_BYTES,
    asked_media,
    check_path,
    decode_base64,
    encode_base64,
    parse_person,
    too_large,
)
from holdfast.emulator.exchange import (
    Answer,
    JsonObject,
    Refusal,
    json_answer,
    not_found,
    unsupplied,
    wrong_type,
)
from holdfast.emulator.objects import EMPTY_TREE, BlockedPath, MissingPath
from holdfast.emulator.refs import refuse_if_empty, required_text
from holdfast.emulator.shapes import git_commit_shape, node_id
from holdfast.emulator.trees import TreeEntry
from holdfast.emulator.visit import Visit

MODES = {"100644": "blob", "100755": "blob", "120000": "blob", "040000": "tree", "160000": "commit"}
_SHA = re.compile(r"[0-9a-f]{40}")


def get_blob(visit: Visit) -> Answer:
    """Answer a blob's content, encoded or raw."""
    refuse_if_empty(visit)
    sha = visit.params["sha"]
    found = visit.git.describe(sha)
    if found is None or found[0] != "blob":
        raise not_found()
    if found[1] > READ_LIMIT_BYTES:
        raise too_large()
    content = visit.git.read_blob(sha)
    if asked_media(visit.request.accept) == "raw":
        return Answer(200, content, {"content-type": RAW_TYPE})
    return json_answer(
        {
            **_blob_shape(visit, sha),
            "node_id": node_id("B", sha),
            "size": len(content),
            "content": encode_base64(content),
            "encoding": "base64",
        }
    )


def create_blob(visit: Visit) -> Answer:
    """Store a blob."""
    visit.refuse_if_read_only()
    refuse_if_empty(visit)
    body = visit.request.json_object()
    text, encoding = required_text(body, "content"), body.get("encoding", "utf-8")
    if encoding not in {"utf-8", "base64"}:
        raise Refusal(422, f"{encoding} is not a supported encoding.")
    content = decode_base64(text) if encoding == "base64" else _utf8(text)
    return json_answer(_blob_shape(visit, visit.git.write_blob(content)), 201)


def get_tree(visit: Visit) -> Answer:
    """Answer a tree, whole if `recursive` is given with any value; cut beyond GitHub's limits."""
    refuse_if_empty(visit)
    sha = _find_tree(visit, visit.params["sha"])
    if sha is None:
        raise not_found()
    git = visit.git
    walk = (
        git.walk_tree(sha)
        if "recursive" in visit.request.query
        else ((e.name, e) for e in git.read_tree(sha))
    )
    items: list[JsonObject] = []
    size, is_truncated = 0, False
    for path, entry in walk:
        size += len(path) + 200
        if len(items) >= visit.options.tree_entry_limit or size > visit.options.tree_bytes_limit:
            is_truncated = True
            break
        items.append(_tree_item(visit, path, entry))
    return json_answer(_tree_shape(visit, sha, items, is_truncated=is_truncated))


def create_tree(visit: Visit) -> Answer:
    """Store a tree, from nothing or as a change of `base_tree`."""
    visit.refuse_if_read_only()
    refuse_if_empty(visit)
    body = visit.request.json_object()
    if "tree" not in body:
        raise unsupplied("tree")
    if not isinstance(body["tree"], list):
        raise wrong_type("tree", body["tree"], "an array")
    base = body.get("base_tree")
    base_sha = None if base is None else _find_tree(visit, str(base))
    if base is not None and base_sha is None:
        raise not_found()
    changes = dict(_parse_item(visit, item) for item in body["tree"])
    try:
        sha = visit.git.edit_tree(base_sha, changes)
    except MissingPath:
        raise Refusal(422, "GitRPC::BadObjectState") from None
    except BlockedPath as error:
        raise Refusal(422, f"tree.path {error} is a file, not a folder") from None
    items = [_tree_item(visit, entry.name, entry) for entry in visit.git.read_tree(sha)]
    return json_answer(_tree_shape(visit, sha, items, is_truncated=False), 201)


def get_commit(visit: Visit) -> Answer:
    """Answer a commit by its SHA."""
    refuse_if_empty(visit)
    sha = visit.params["sha"]
    found = visit.find_commit(visit.git, sha) if _SHA.fullmatch(sha) else None
    if found is None:
        raise not_found()
    return json_answer(git_commit_shape(visit.links, visit.git.read_commit(found)))


def create_commit(visit: Visit) -> Answer:
    """Store a commit; without parents it is a first commit."""
    visit.refuse_if_read_only()
    refuse_if_empty(visit)
    body = visit.request.json_object()
    message, tree = required_text(body, "message"), required_text(body, "tree")
    if _kind(visit, tree) != "tree":
        raise Refusal(422, "Tree SHA does not exist")
    parents = body.get("parents", [])
    if not isinstance(parents, list) or not all(isinstance(parent, str) for parent in parents):
        raise wrong_type("parents", parents, "an array")
    if any(_kind(visit, parent) != "commit" for parent in parents):
        raise Refusal(422, "Parent SHA does not exist or is not a commit object")
    author = parse_person(body.get("author"), "author", visit.viewer)
    committer = parse_person(body.get("committer"), "committer", author)
    sha = visit.git.write_commit(
        tree=tree, parents=parents, author=author, committer=committer, message=message
    )
    return json_answer(git_commit_shape(visit.links, visit.git.read_commit(sha)), 201)


def _kind(visit: Visit, sha: str) -> str:
    if sha == EMPTY_TREE:
        visit.git.edit_tree(None, {})
    found = visit.git.describe(sha) if _SHA.fullmatch(sha) else None
    return found[0] if found else ""


def _find_tree(visit: Visit, text: str) -> str | None:
    """Return the tree that a tree SHA, a commit, a branch or `branch:path` names."""
    if _kind(visit, text) == "tree":
        return text
    revision, _, path = text.partition(":")
    commit = visit.find_commit(visit.git, revision)
    entry = visit.git.find_entry(visit.git.read_commit(commit).tree, path.strip("/")) if commit else None
    return entry.sha if entry is not None and entry.kind == "tree" else None


def _parse_item(visit: Visit, item: object) -> tuple[str, TreeEntry | None]:
    if not isinstance(item, Mapping) or not isinstance(item.get("path"), str):
        raise Refusal(422, "Must supply a valid tree.path")
    path = check_path(item["path"])
    if "sha" in item and item["sha"] is None:
        return path, None
    if ("sha" in item) == ("content" in item):
        raise Refusal(422, "Must supply either tree.sha or tree.content")
    mode = str(item.get("mode", "100644"))
    if mode not in MODES:
        raise Refusal(422, "Must supply a valid tree.mode")
    if "content" in item:
        if not isinstance(item["content"], str):
            raise wrong_type("content", item["content"], "a string")
        return path, TreeEntry("", int(mode, 8), visit.git.write_blob(_utf8(item["content"])))
    sha = str(item["sha"])
    if MODES[mode] != "commit" and _kind(visit, sha) != MODES[mode]:
        raise Refusal(422, f"tree.sha {sha} is not a valid {MODES[mode]}")
    return path, TreeEntry("", int(mode, 8), sha)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Refusal(422, "content is not valid UTF-8") from None


def _blob_shape(visit: Visit, sha: str) -> JsonObject:
    return {"sha": sha, "url": f"{visit.links.api}/git/blobs/{sha}"}


def _tree_item(visit: Visit, path: str, entry: TreeEntry) -> JsonObject:
    item: JsonObject = {"path": path, "mode": f"{entry.mode:06o}", "type": entry.kind, "sha": entry.sha}
    if entry.kind == "blob":
        item["size"] = (visit.git.describe(entry.sha) or ("blob", 0))[1]
    if entry.kind != "commit":
        item["url"] = f"{visit.links.api}/git/{entry.kind}s/{entry.sha}"
    return item


def _tree_shape(visit: Visit, sha: str, items: list[JsonObject], *, is_truncated: bool) -> JsonObject:
    return {
        "sha": sha,
        "url": f"{visit.links.api}/git/trees/{sha}",
        "tree": items,
        "truncated": is_truncated,
    }
