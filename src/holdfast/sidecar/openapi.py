"""The OpenAPI document: every call of the contract, with an example and every status that it can have."""

from typing import Any

import orjson

from holdfast.sidecar import examples, schemas
from holdfast.sidecar.problems import MEDIA_TYPE, TITLES
from holdfast.sidecar.schemas import Schema, ref
from holdfast.version import __version__

_JSON = "application/json"
_RUN_ID = {
    "name": "run_id",
    "in": "path",
    "required": True,
    "schema": schemas.RUN_ID,
    "example": "build-42",
}
_SEQUENCE = {
    "name": "sequence",
    "in": "path",
    "required": True,
    "schema": schemas.SEQUENCE,
    "example": 1,
}
_ALWAYS = (400, 401, 403, 405)
_READING = (404, 422, 502, 503)
_WRITING = (408, 413, 415, 422, 503)

_DESCRIPTION = """\
Durable workflow checkpoints in a GitHub repository. A checkpoint is answered with 202 as soon as it is safe
on the local disk; the worker inside takes it to the repository. Errors are `application/problem+json` with a
`detail` that says what to do. `X-Request-Id` is taken over, or made, and returned."""


def describe() -> bytes:
    """Return the document as JSON text."""
    return orjson.dumps(document())


def document() -> dict[str, Any]:
    """Return the document."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": "http://127.0.0.1:8723"}],
        "security": [{}, {"token": []}],
        "paths": {**_run_paths(), **_upkeep_paths(), **_operating_paths()},
        "components": {
            "schemas": schemas.build_schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _run_paths() -> dict[str, Any]:
    run = "/v1/runs/{run_id}"
    return {
        "/v1/runs": {
            "get": _operation(
                "listRuns",
                "List the runs, stored and spooled, the one last written to first",
                _answer(200, "Runs", {"runs": [examples.RUN]}),
                statuses=(422, 502, 503),
                parameters=[_query("resumable", schemas.FLAG, "Only those that can be resumed", False)],
            )
        },
        run: {"get": _reading("showRun", "Tell how a run stands", "Run", examples.RUN)},
        f"{run}/checkpoints": {
            "post": _submitting(),
            "get": _reading(
                "listCheckpoints",
                "List the checkpoints of a run, stored and spooled",
                "Checkpoints",
                {"run_id": "build-42", "checkpoints": [examples.LISTED]},
            ),
        },
        f"{run}/checkpoints/{{sequence}}": {
            "get": _reading(
                "showCheckpoint",
                "Return one checkpoint, with every number exactly as it was handed in",
                "Checkpoint",
                examples.CHECKPOINT,
                _SEQUENCE,
            )
        },
        f"{run}/resume": {
            "get": _reading(
                "resumeRun",
                "Return where a run goes on, with its state",
                "ResumePlan",
                examples.PLAN,
                _query("at", schemas.SEQUENCE, "The number of the checkpoint to go on from", None),
            )
        },
        f"{run}/diff": {
            "get": _reading(
                "compareCheckpoints",
                "Return the JSON Patch that turns one checkpoint of a run into another",
                "JsonPatch",
                [{"op": "replace", "path": "/phase", "value": "phase_2_build"}],
                _query("from", schemas.SEQUENCE, "The number of the first", 1, is_needed=True),
                _query("to", schemas.SEQUENCE, "The number of the second", 2, is_needed=True),
            )
        },
    }


def _submitting() -> dict[str, Any]:
    wait = _query("wait", schemas.words("verified"), "Answer once it is verified in the repository", None)
    timeout = _query(
        "timeout",
        {"type": "number", "minimum": 0, "maximum": 300, "default": 30},
        "How many seconds to wait for that; then the answer is 202",
        None,
    )
    key = {
        "name": "Idempotency-Key",
        "in": "header",
        "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
        "description": "Stands for a checkpoint_id, within the run, where the checkpoint names none: the "
        "same key with the same content stores it once, with other content it is refused.",
    }
    operation = _operation(
        "submitCheckpoint",
        "Hand in a checkpoint; 202 once it is on disk, 201 once it is verified if that was asked for",
        _answer(202, "Receipt", examples.RECEIPT),
        _answer(201, "Receipt", examples.VERIFIED),
        statuses=(*_WRITING, 409, 507),
        parameters=[_RUN_ID, wait, timeout, key],
    )
    return {**operation, "requestBody": _body("CheckpointIn", examples.CHECKPOINT_IN)}


def _upkeep_paths() -> dict[str, Any]:
    completing = _operation(
        "completeRun",
        "Save the final checkpoint of a run; the clean-up follows once it is verified",
        _answer(202, "Receipt", {**examples.RECEIPT, "sequence_number": 2}),
        statuses=(*_WRITING, *_READING, 409, 507),
        parameters=[_RUN_ID],
    )
    body = _body("Completion", {"status": "completed"}, is_needed=False)
    dry_run = _query("dry_run", schemas.FLAG, "Only tell what would be done", True)
    kept = {"run_id": "build-42", "preserved": True, "changed": True}
    released = {"run_id": "build-42", "preserved": False, "changed": True}
    return {
        "/v1/runs/{run_id}/complete": {"post": {**completing, "requestBody": body}},
        "/v1/preserved/{run_id}": {
            "put": _keeping("preserveRun", "Keep a run from ever being cleaned up", kept),
            "delete": _keeping("unpreserveRun", "Let a run be cleaned up again", released),
        },
        "/v1/cleanup": {
            "post": _operation(
                "cleanUp",
                "Clean up by the rules: all of recent runs, the last of older ones, summaries of the oldest",
                _answer(200, "Cleanup", examples.CLEANUP),
                statuses=(422, 502, 503, 507),
                parameters=[dry_run],
            )
        },
    }


def _keeping(name: str, summary: str, example: object) -> dict[str, Any]:
    return _operation(
        name,
        summary,
        _answer(200, "Preserved", example),
        statuses=(404, 422, 502, 503, 507),
        parameters=[_RUN_ID],
    )


def _operating_paths() -> dict[str, Any]:
    text: Schema = {"schema": schemas.TEXT, "example": "holdfast_spool_depth 0.0\n"}
    metrics = {"200": {"description": "Prometheus' text format", "content": {"text/plain": text}}}
    return {
        "/v1/status": {
            "get": _operation(
                "showStatus",
                "Tell how the spool and the budget stand, and the last error",
                _answer(200, "Status", examples.STATUS),
                statuses=(503, 507),
            )
        },
        "/healthz": {
            "get": _operation(
                "checkHealth", "Tell that the process answers", _answer(200, "Health", {"status": "ok"})
            )
        },
        "/readyz": {
            "get": _operation(
                "checkReadiness",
                "Tell whether checkpoints are accepted, and what keeps them from GitHub, if anything does",
                _answer(200, "Health", {"status": "ready", "trouble": None}),
                statuses=(503,),
            )
        },
        "/metrics": {"get": _operation("readMetrics", "Return the counters", metrics)},
        "/openapi.json": {
            "get": _operation(
                "describe",
                "Return this document",
                {
                    "200": {
                        "description": "OpenAPI 3.1",
                        "content": {_JSON: {"schema": {"type": "object"}, "example": {"openapi": "3.1.0"}}},
                    }
                },
            )
        },
    }


def _reading(name: str, summary: str, schema: str, example: object, *more: dict[str, Any]) -> dict[str, Any]:
    return _operation(
        name, summary, _answer(200, schema, example), statuses=_READING, parameters=[_RUN_ID, *more]
    )


def _operation(
    name: str,
    summary: str,
    *answers: dict[str, Any],
    statuses: tuple[int, ...] = (),
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    responses = {status: answer for each in answers for status, answer in each.items()}
    for status in sorted({*_ALWAYS, *statuses}):
        responses[str(status)] = _problem(status)
    return {
        "operationId": name,
        "summary": summary,
        "parameters": parameters or [],
        "responses": responses,
    }


def _answer(status: int, schema: str, example: object) -> dict[str, Any]:
    content = {_JSON: {"schema": ref(schema), "example": example}}
    return {str(status): {"description": schema, "content": content}}


def _problem(status: int) -> dict[str, Any]:
    example = {
        "type": "urn:holdfast:problem:invalid",
        "title": TITLES[status],
        "status": status,
        "code": "invalid",
        "detail": "What is wrong, and what to do.",
        "request_id": "5f0c1b7e2a4d4c0b9e8f7a6b5c4d3e2f",
    }
    content = {MEDIA_TYPE: {"schema": ref("Problem"), "example": example}}
    if status != 503:
        return {"description": TITLES[status], "content": content}
    seconds = {"description": "When to try again, in seconds", "schema": {"type": "integer", "minimum": 1}}
    description = (
        "GitHub cannot be reached or has no calls left, another clean-up is under way, the spool is busy, or "
        "the sidecar is about to end: the same request may succeed later"
    )
    return {"description": description, "headers": {"Retry-After": seconds}, "content": content}


def _body(schema: str, example: object, *, is_needed: bool = True) -> dict[str, Any]:
    return {"required": is_needed, "content": {_JSON: {"schema": ref(schema), "example": example}}}


def _query(
    name: str, schema: Schema, description: str, example: object, *, is_needed: bool = False
) -> dict[str, Any]:
    parameter = {
        "name": name,
        "in": "query",
        "required": is_needed,
        "schema": schema,
        "description": description,
    }
    return parameter if example is None else {**parameter, "example": example}
