"""The OpenAPI document says what the sidecar does, with an example of every call."""

import subprocess
import sys
from typing import Any
from unittest.mock import Mock

import pytest
from starlette.routing import Route

from holdfast.sidecar.openapi import document
from tests.fakes.sidecar import RunningSidecar

DOCUMENT = document()
OPERATIONS = [
    (method, path, operation)
    for path, operations in DOCUMENT["paths"].items()
    for method, operation in operations.items()
]
NAMES = [f"{method} {path}" for method, path, _ in OPERATIONS]


@pytest.mark.slow
def test_it_is_served(sidecar: RunningSidecar) -> None:
    assert sidecar.client.get("/openapi.json").json() == DOCUMENT


@pytest.mark.processes
def test_neither_it_nor_the_shared_queue_costs_anything_before_it_is_asked_for() -> None:
    program = "import sys, holdfast.sidecar.serving; print(*sys.modules)"

    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "holdfast.sidecar.health" in loaded.stdout.split()
    unused = {"holdfast.sidecar.openapi", "holdfast.sidecar.schemas", "holdfast.queue.fallback", "psycopg"}
    assert not unused & set(loaded.stdout.split())


def test_it_has_every_route_and_no_other() -> None:
    from holdfast.sidecar.checkpoints import CheckpointRoutes
    from holdfast.sidecar.claims import ClaimRoutes
    from holdfast.sidecar.dashboard.actions import DashboardActions
    from holdfast.sidecar.dashboard.pages import DashboardPages
    from holdfast.sidecar.decisions import DecisionRoutes
    from holdfast.sidecar.events import EventRoutes
    from holdfast.sidecar.health import HealthRoutes
    from holdfast.sidecar.submitting import SubmitEndpoint
    from holdfast.sidecar.upkeep import UpkeepRoutes

    service: Any = Mock()
    routes: list[Route] = [
        *SubmitEndpoint(service).routes(),
        *CheckpointRoutes(service).routes(),
        *DecisionRoutes(service).routes(),
        *ClaimRoutes(service).routes(),
        *UpkeepRoutes(service).routes(),
        *HealthRoutes(service).routes(),
        *EventRoutes(service.events, lambda *_: True).routes(),
        *DashboardPages(service).routes(),
        *DashboardActions(service, DashboardPages(service)).routes(),
    ]
    # Pages are for people; of these the document names the first alone.
    described = [route for route in routes if not route.path.startswith("/ui/")]
    served = {
        (method.lower(), route.path) for route in described for method in (route.methods or set()) - {"HEAD"}
    }

    assert served == {(method, path) for method, path, _ in OPERATIONS}


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=NAMES)
def test_every_answer_has_an_example_that_fits_its_schema(
    method: str, path: str, operation: dict[str, Any]
) -> None:
    assert operation["operationId"]
    for answer in operation["responses"].values():
        for content in answer["content"].values():
            assert _fits(content["example"], content["schema"]), content


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=NAMES)
def test_who_has_to_wait_is_told_how_long(method: str, path: str, operation: dict[str, Any]) -> None:
    waiting = operation["responses"].get("503", {"headers": {"Retry-After": {}}})

    assert "Retry-After" in waiting["headers"]


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS, ids=NAMES)
def test_every_parameter_of_a_path_is_described(method: str, path: str, operation: dict[str, Any]) -> None:
    described = {each["name"] for each in operation["parameters"] if each["in"] == "path"}

    assert described == {part.strip("{}") for part in path.split("/") if part.startswith("{")}


@pytest.mark.slow
def test_the_example_of_a_checkpoint_is_taken(sidecar: RunningSidecar) -> None:
    operation = DOCUMENT["paths"]["/v1/runs/{run_id}/checkpoints"]["post"]
    example = operation["requestBody"]["content"]["application/json"]["example"]

    answer = sidecar.client.post("/v1/runs/build-42/checkpoints", json=example)

    assert answer.status_code == 202
    assert _fits(answer.json(), {"$ref": "#/components/schemas/Receipt"})


ANSWERED = [
    ("GET", "/v1/runs", "/v1/runs"),
    ("GET", "/v1/runs/{run_id}", "/v1/runs/build-42"),
    ("GET", "/v1/runs/{run_id}/checkpoints", "/v1/runs/build-42/checkpoints"),
    ("GET", "/v1/runs/{run_id}/checkpoints/{at}", "/v1/runs/build-42/checkpoints/1"),
    ("GET", "/v1/runs/{run_id}/resume", "/v1/runs/build-42/resume"),
    ("GET", "/v1/runs/{run_id}/diff", "/v1/runs/build-42/diff?from=1&to=2"),
    ("PUT", "/v1/preserved/{run_id}", "/v1/preserved/build-42"),
    ("POST", "/v1/cleanup", "/v1/cleanup?dry_run=true"),
    ("POST", "/v1/runs/{run_id}/complete", "/v1/runs/build-42/complete"),
    ("GET", "/v1/status", "/v1/status"),
    ("GET", "/v1/doctor", "/v1/doctor"),
    ("GET", "/healthz", "/healthz"),
    ("GET", "/readyz", "/readyz"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path", "address"), ANSWERED, ids=[path for _, path, _ in ANSWERED])
def test_what_is_answered_fits_its_schema(
    sidecar: RunningSidecar, method: str, path: str, address: str
) -> None:
    for phase in ("phase_1_plan", "phase_2_build"):
        checkpoint = {"trigger": "phase_complete", "phase": phase, "state": {"cost_accumulated": 1.5}}
        sidecar.client.post("/v1/runs/build-42/checkpoints?wait=verified", json=checkpoint)

    answer = sidecar.client.request(method, address)

    described = DOCUMENT["paths"][path][method.lower()]["responses"][str(answer.status_code)]
    assert answer.is_success
    assert _fits(answer.json(), described["content"]["application/json"]["schema"]), answer.json()


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value has the properties and types that a schema asks for."""
    if "$ref" in schema:
        return _fits(value, DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema and not any(_fits(value, each) for each in schema["anyOf"]):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    kinds = schema.get("type", [])
    types: dict[str, Any] = {
        "object": dict,
        "array": list,
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "null": type(None),
    }
    if kinds and not any(
        isinstance(value, types[kind]) for kind in ([kinds] if isinstance(kinds, str) else kinds)
    ):
        return False
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        is_complete = set(schema.get("required", [])) <= set(value)
        return is_complete and all(
            _fits(value[name], properties[name]) for name in properties if name in value
        )
    if isinstance(value, list) and "items" in schema:
        return all(_fits(item, schema["items"]) for item in value)
    return True
