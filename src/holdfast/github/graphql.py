"""The GraphQL queries behind some of our calls: what each one asks, and how its answer is read.

Paths travel as variables, never inside the text. Everything here is pure. At an answer that makes no sense,
reading may raise AttributeError, LookupError, TypeError or ValueError.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple

from holdfast.errors import Missing
from holdfast.format.git_ids import blob_sha
from holdfast.github.calls import (
    Call,
    ReadBlobs,
    ReadPage,
    ResultT,
)
from holdfast.github.results import File, Page


class GraphqlDocument(NamedTuple):
    """A GraphQL document and the values of its variables."""

    text: str
    variables: dict[str, Any]


class FoundFile(NamedTuple):
    """A file as a query found it; `content` is None when GraphQL did not give it whole."""

    blob_sha: str
    content: bytes | None


class FoundFolder(NamedTuple):
    """A folder as a query found it: its files' blobs, by name."""

    blobs: dict[str, str]


Found = FoundFile | FoundFolder


class GraphqlRequest(NamedTuple, Generic[ResultT]):
    """One GraphQL request, and the reader of the data in its answer."""

    document: GraphqlDocument
    read: Callable[[Mapping[str, Any]], ResultT]


def is_graphql(call: Call[Any]) -> bool:
    """Whether a call is performed by GraphQL."""
    return call.resource == "graphql"


def build_graphql(call: Call[ResultT], repository: str) -> GraphqlRequest[ResultT]:
    """Return the request that performs `call` on `repository`."""
    builder = _BUILDERS.get(type(call)) or _find_builder(type(call))
    return builder(call, repository)


def _find_builder(kind: "type[Call[Any]]") -> "Callable[[Any, str], GraphqlRequest[Any]]":
    """Return what makes the request of a call that readers do not make: they have no time to load those."""
    from holdfast.github.graphql_writes import BUILDERS

    return BUILDERS[kind]


def _read_page(call: ReadPage, repository: str) -> GraphqlRequest[Page]:
    if call.commit_sha:
        document = build_commit_query(call.commit_sha, call.paths, repository, is_brief=call.is_brief)
        return GraphqlRequest(
            document, lambda found: _page(call.commit_sha, read_files_of_commit(found, call.paths))
        )
    document = build_branch_query(call.branch, call.paths, repository, is_brief=call.is_brief)
    return GraphqlRequest(document, lambda found: _page(*read_branch(found, call.branch, call.paths)))


def _read_blobs(call: ReadBlobs, repository: str) -> GraphqlRequest[dict[str, bytes]]:
    def read(found: Mapping[str, Any]) -> dict[str, bytes]:
        blobs = read_blobs(found, call.shas)
        return {blob.blob_sha: blob.content for blob in blobs if blob.content is not None}

    return GraphqlRequest(build_blobs_query(call.shas, repository), read)


_BUILDERS: dict[type[Call[Any]], Callable[[Any, str], GraphqlRequest[Any]]] = {
    ReadBlobs: _read_blobs,
    ReadPage: _read_page,
}


def _page(head_sha: str, found: Mapping[str, Found | None]) -> Page:
    page = Page(head_sha, dict.fromkeys(found), truncated={}, folders={})
    for path, each in found.items():
        if isinstance(each, FoundFolder):
            page.folders[path] = each.blobs
        elif each and each.content is None:
            page.truncated[path] = each.blob_sha
        elif each and each.content is not None:
            page.files[path] = File(each.content, each.blob_sha)
    return page


def build_branch_query(
    branch: str, paths: Sequence[str], repository: str, *, is_brief: bool = False
) -> GraphqlDocument:
    """Return the query for the branch's newest commit and the files and folders at `paths` as of it.

    If it `is_brief`, only names are asked for of what is in the folders.
    """
    selection = "ref(qualifiedName: $ref) { target { ...files } }"
    variables = {"ref": f"refs/heads/{branch}"}
    return _build_query("$ref: String!", variables, selection, paths, repository, is_brief=is_brief)


def build_commit_query(
    commit_sha: str, paths: Sequence[str], repository: str, *, is_brief: bool = False
) -> GraphqlDocument:
    """Return the query for the files and folders at `paths` as of a commit; brief like that for a branch."""
    selection = "object(oid: $oid) { ...files }"
    variables = {"oid": commit_sha}
    return _build_query("$oid: GitObjectID!", variables, selection, paths, repository, is_brief=is_brief)


def read_branch(
    found: Mapping[str, Any], branch: str, paths: Sequence[str]
) -> tuple[str, dict[str, Found | None]]:
    """Return the head and what was found. Raises Missing when there is no such branch."""
    repository = found["repository"]
    if repository is None or repository["ref"] is None:
        raise Missing(branch, "there is no such branch or repository, or the token may not see it")
    commit = repository["ref"]["target"]
    return str(commit["oid"]), _read_files(commit, paths)


def read_files_of_commit(found: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Found | None]:
    """Return what a commit query found. Raises TypeError when the commit is not there."""
    return _read_files(found["repository"]["object"], paths)


def build_blobs_query(shas: Sequence[str], repository: str) -> GraphqlDocument:
    """Return the query for blobs by their SHAs."""
    owner, name = repository.split("/")
    declarations = "".join(f", $o{number}: GitObjectID!" for number in range(len(shas)))
    fields = "... on Blob { oid text isBinary isTruncated }"
    selection = "".join(f" f{number}: object(oid: $o{number}) {{ {fields} }}" for number in range(len(shas)))
    text = (
        f"query($owner: String!, $name: String!{declarations}) {{\n"
        f"  repository(owner: $owner, name: $name) {{ id{selection} }}\n"
        "}"
    )
    oids = {f"o{number}": sha for number, sha in enumerate(shas)}
    return GraphqlDocument(text, {"owner": owner, "name": name, **oids})


def read_blobs(found: Mapping[str, Any], shas: Sequence[str]) -> list[FoundFile]:
    """Return the blobs in the order asked for. Raises Missing for the first that is not there."""
    blobs = []
    for number, sha in enumerate(shas):
        blob = _read_file(found["repository"][f"f{number}"] or {})
        if blob is None:
            raise Missing(sha, "there is no such blob")
        blobs.append(blob)
    return blobs


def is_absent_file(error: Mapping[str, Any]) -> bool:
    """Whether a query's error only says that one of the files is not there."""
    path = error.get("path")
    is_file = isinstance(path, list) and len(path) > 2 and str(path[-1]).startswith("f")
    return is_file and error.get("type") == "NOT_FOUND"


def _build_query(
    declaration: str,
    variables: dict[str, str],
    selection: str,
    paths: Sequence[str],
    repository: str,
    *,
    is_brief: bool,
) -> GraphqlDocument:
    owner, name = repository.split("/")
    listed = "entries { name }" if is_brief else "entries { name oid type }"
    content = f"object {{ ... on Blob {{ oid text isBinary isTruncated }} ... on Tree {{ {listed} }} }}"
    text = (
        f"query($owner: String!, $name: String!, {declaration}{declare_paths(paths)}) {{\n"
        f"  repository(owner: $owner, name: $name) {{ {selection} }}\n"
        "}\n"
        f"fragment files on Commit {{ oid{select_files(paths, content)} }}"
    )
    return GraphqlDocument(text, {"owner": owner, "name": name, **variables, **path_variables(paths)})


def _read_files(commit: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Found | None]:
    return {path: _read_entry(commit[f"f{number}"]) for number, path in enumerate(paths)}


def _read_entry(entry: Mapping[str, Any] | None) -> Found | None:
    found = (entry or {}).get("object") or {}
    if "entries" not in found:
        return _read_file(found)
    entries = found["entries"]
    if entries and "oid" not in entries[0]:  # only names were asked for
        return FoundFolder({str(each["name"]): "" for each in entries})
    return FoundFolder({str(each["name"]): str(each["oid"]) for each in entries if each["type"] == "blob"})


def _read_file(blob: Mapping[str, Any]) -> FoundFile | None:
    if "oid" not in blob:
        return None
    oid, text = str(blob["oid"]), blob["text"]
    if text is None or blob["isTruncated"] or blob["isBinary"]:
        return FoundFile(oid, None)
    content = text.encode()
    return FoundFile(oid, content if blob_sha(content) == oid else None)


def declare_paths(paths: Sequence[str]) -> str:
    """Return the declaration of a variable for each path."""
    return "".join(f", $p{number}: String!" for number in range(len(paths)))


def select_files(paths: Sequence[str], fields: str) -> str:
    """Return the selection of these fields of the file at each path."""
    return "".join(f" f{number}: file(path: $p{number}) {{ {fields} }}" for number in range(len(paths)))


def path_variables(paths: Sequence[str]) -> dict[str, str]:
    """Return the values of the declared variables."""
    return {f"p{number}": path for number, path in enumerate(paths)}
