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
    GraphQLError,
    GraphQLSchema,
    build_schema,
    execute_sync,
    parse,
    validate,
)

from holdfast.emulator.exchange import Answer, JsonObject, json_answer, not_found
from holdfast.emulator.graph_mutations import CommitPayload, RefsPayload, create_commit, update_refs
from holdfast.emulator.graph_nodes import GraphFailure, RepositoryNode
from holdfast.emulator.shapes import format_time
from holdfast.emulator.visit import Visit


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
    return execute_sync(
        load_schema(),
        document,
        root_value=Root(visit),
        variable_values=variables,
        operation_name=operation if isinstance(operation, str) else None,
        field_resolver=_resolve_field,
        type_resolver=lambda value, *_: value.graph_type,
    )


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
