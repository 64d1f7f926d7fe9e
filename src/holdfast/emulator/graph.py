"""`POST /graphql`: documents are checked against the schema beside this file and executed."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import resources
from typing import Any

from graphql import (
    DocumentNode,
    ExecutionResult,
    FieldNode,
    GraphQLError,
    GraphQLSchema,
    build_schema,
    execute_sync,
    parse,
    validate,
)

from holdfast.emulator.exchange import Answer, JsonObject, json_answer, not_found
from holdfast.emulator.graph_mutations import CommitPayload, RefsPayload, create_commit, update_refs
from holdfast.emulator.graph_nodes import GraphFailure, RepositoryNode, TreeNode
from holdfast.emulator.shapes import format_time
from holdfast.emulator.visit import Visit

_PLAIN_MEMBERS = frozenset({"mode", "name", "oid", "path", "type"})


class Root:
    """Where queries and mutations begin."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit

    def viewer(self) -> JsonObject:
        """Return the token's owner."""
        return {"id": "U_1", "login": self._visit.options.login}

    def rate_limit(self, **_: object) -> JsonObject:
        """Return what is left of the GraphQL budget."""
        numbers = self._visit.rate_overview()["graphql"]
        return {**numbers, "cost": 1, "node_count": 0, "reset_at": format_time(numbers["reset"])}

    def repository(self, owner: str, name: str, **_: object) -> RepositoryNode:
        """Return a repository by its name, new or old."""
        renamed = self._visit.switches.renamed
        full_name = f"{owner}/{name}"
        served = self._visit.shelf.find(renamed.get(full_name, full_name), renamed)
        if served is None or self._visit.switches.repository_gone:
            raise GraphFailure("NOT_FOUND", f"Could not resolve to a Repository with the name '{full_name}'.")
        return RepositoryNode(replace(self._visit, served=served))

    def create_commit_on_branch(self, **arguments: Any) -> CommitPayload:
        """Commit files to a branch."""
        return create_commit(self._visit, arguments["input"])

    def update_refs(self, **arguments: Any) -> RefsPayload:
        """Move refs."""
        return update_refs(self._visit, arguments["input"])


def post_graphql(visit: Visit) -> Answer:
    """Execute one document; errors of any kind are an answer with status 200."""
    if not visit.options.graphql:
        raise not_found()
    body = visit.request.json_object()
    query, variables = body.get("query"), body.get("variables")
    if not isinstance(query, str):
        return _failed([GraphQLError("A query attribute must be specified and must be a string.")])
    try:
        document = parse(query)
    except GraphQLError as error:
        return _failed([error])
    problems = _problems(query)
    if problems:
        return _failed(problems)
    result = _execute(visit, document, variables if isinstance(variables, dict) else {}, body)
    return _answer(result)


@lru_cache(maxsize=1)
def load_schema() -> GraphQLSchema:
    """Return the schema that documents are checked against."""
    return build_schema((resources.files(__package__) / "schema.graphql").read_text("utf-8"))


@lru_cache(maxsize=256)
def _problems(query: str) -> Sequence[GraphQLError]:
    """Return what is wrong with a document that parses; clients send the same few over and over."""
    return validate(load_schema(), parse(query))


def _execute(
    visit: Visit, document: DocumentNode, variables: dict[str, Any], body: JsonObject
) -> ExecutionResult:
    operation = body.get("operationName")
    listings = _Listings()
    result = execute_sync(
        load_schema(),
        document,
        root_value=Root(visit),
        variable_values=variables,
        operation_name=operation if isinstance(operation, str) else None,
        field_resolver=listings.resolve,
        type_resolver=lambda value, *_: value.graph_type,
    )
    listings.place(result.data)
    return result


class _Listings:
    """Folders of which only plain members are asked for.

    For each of these graphql-core takes as long as all else here for a file. So it is told that the folder is
    empty, and what is in there is put into its answer afterwards.
    """

    def __init__(self) -> None:
        self._found: list[tuple[list[int | str], list[JsonObject]]] = []

    def resolve(self, source: Any, info: Any, **arguments: Any) -> Any:
        """Return the value of a field."""
        names = _plain_names(info) if isinstance(source, TreeNode) and info.field_name == "entries" else []
        if not names:
            return _resolve_field(source, info, **arguments)
        rows = [{name: getattr(entry, name) for name in names} for entry in source.entries()]
        self._found.append((info.path.as_list(), rows))
        return []

    def place(self, answer: Any) -> None:
        """Put the listings into the answer, but for what a failure has taken out of it."""
        for path, rows in self._found:
            inner = answer
            for key in path[:-1]:
                inner = inner and inner[key]
            if inner:
                inner[path[-1]] = rows


def _plain_names(info: Any) -> list[str]:
    """Return the names of the members that are asked for; none if there is more to it than names."""
    asked = [each for node in info.field_nodes for each in node.selection_set.selections]
    is_plain = all(
        isinstance(each, FieldNode)
        and each.name.value in _PLAIN_MEMBERS
        and not (each.alias or each.directives)
        for each in asked
    )
    return [each.name.value for each in asked] if is_plain else []


def _resolve_field(source: Any, info: Any, **arguments: Any) -> Any:
    name = _snake(info.field_name)
    value = source[name] if isinstance(source, dict) else getattr(source, name)
    return value(**{_snake(key): given for key, given in arguments.items()}) if callable(value) else value


@lru_cache(maxsize=1024)
def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found.group(1).lower()}", name)


def _failed(errors: Sequence[GraphQLError]) -> Answer:
    return json_answer({"errors": [_error_shape(error) for error in errors]})


def _answer(result: ExecutionResult) -> Answer:
    body: JsonObject = {}
    errors = result.errors or []
    # Without a path nothing was executed, and GitHub leaves `data` out.
    if result.data is not None or any(error.path for error in errors):
        body["data"] = result.data
    if errors:
        body["errors"] = [_error_shape(error) for error in errors]
    return json_answer(body)


def _error_shape(error: GraphQLError) -> JsonObject:
    cause = error.original_error
    shape: JsonObject = {"type": cause.kind} if isinstance(cause, GraphFailure) else {}
    if error.path is not None:
        shape["path"] = list(error.path)
    shape["locations"] = [{"line": place.line, "column": place.column} for place in error.locations or []]
    shape["message"] = error.message
    return shape
