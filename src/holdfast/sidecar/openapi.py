"""The OpenAPI document: every call of the contract, with an example and every status that it can have."""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

from holdfast.sidecar import schemas
from holdfast.sidecar.problems import MEDIA_TYPE, TITLES
from holdfast.sidecar.schemas import Schema, ref
from holdfast.version import __version__

# A method, a path, and what is said of the call.
Operation = tuple[str, str, dict[str, Any]]

_JSON = "application/json"
_RUN = "/v1/runs/{run_id}"
_ALWAYS = (400, 401, 403, 405)
_READING = (404, 409, 422, 502, 503)
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
    paths: dict[str, Any] = {}
    for method, path, operation in (
        *_run_operations(),
        *_decision_operations(),
        *_claim_operations(),
        *_upkeep_operations(),
        *_operating_operations(),
    ):
        paths.setdefault(path, {})[method] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": "http://127.0.0.1:8723"}],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas.build_schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _run_operations() -> Iterator[Operation]:
    yield (
        "get",
        "/v1/runs",
        _operation(
            "listRuns",
            "List the runs, stored and spooled, the one last written to first",
            _answer(200, "Runs", {"runs": [schemas.RUN_EXAMPLE]}),
            statuses=(422, 502, 503),
            parameters=[
                _query("resumable", schemas.FLAG, "Only those that can be resumed", False),
                _query("review", schemas.FLAG, "Only those that wait for a person", False),
                _query("archived", schemas.FLAG, "Those of which only a summary is left", False),
                _query("workflow", schemas.TEXT, "Only those of this workflow, by path or name", None),
            ],
        ),
    )
    shown = "Tell how a run stands; of an archived one, its summary"
    yield _reading("", "showRun", shown, "RunOrSummary", schemas.RUN_EXAMPLE)
    yield _submitting()
    yield _reading(
        "/checkpoints",
        "listCheckpoints",
        "List the checkpoints of a run, stored and spooled",
        "Checkpoints",
        {"run_id": "build-42", "checkpoints": [schemas.LISTED_EXAMPLE]},
        _query("limit", schemas.SEQUENCE, "Only so many of the newest", 20),
    )
    yield _reading(
        "/checkpoints/{at}",
        "showCheckpoint",
        "Return one checkpoint, with every number exactly as it was handed in",
        "Checkpoint",
        schemas.CHECKPOINT_EXAMPLE,
        _in_path("at", schemas.AT, 1),
    )
    yield _reading(
        "/resume",
        "resumeRun",
        "Return where a run goes on, with its state",
        "ResumePlan",
        schemas.PLAN_EXAMPLE,
        _query("at", schemas.AT, "The number or the id of the checkpoint to go on from", None),
    )
    yield _reading(
        "/diff",
        "compareCheckpoints",
        "Return the JSON Patch that turns one checkpoint of a run into another",
        "JsonPatch",
        [{"op": "replace", "path": "/phase", "value": "phase_2_build"}],
        _query("from", schemas.AT, "The number or the id of the first", 1, is_needed=True),
        _query("to", schemas.AT, "The number or the id of the second", 2, is_needed=True),
    )
    yield _finding()


def _finding() -> Operation:
    identity = _in_path("checkpoint_id", schemas.CHECKPOINT_ID, schemas.RECEIPT_EXAMPLE["checkpoint_id"])
    answer = _answer(200, "Checkpoint", schemas.CHECKPOINT_EXAMPLE)
    summary = "Return one checkpoint by its id, whichever run it belongs to"
    operation = _operation("findCheckpoint", summary, answer, statuses=_READING, parameters=[identity])
    return "get", "/v1/checkpoints/{checkpoint_id}", operation


def _submitting() -> Operation:
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
        _answer(202, "Receipt", schemas.RECEIPT_EXAMPLE),
        _answer(201, "Receipt", schemas.VERIFIED_EXAMPLE),
        statuses=(*_WRITING, 409, 507),
        parameters=[_RUN_ID, wait, timeout, key],
    )
    body = {"required": True, "content": _content("CheckpointIn", schemas.CHECKPOINT_IN_EXAMPLE)}
    return "post", f"{_RUN}/checkpoints", {**operation, "requestBody": body}


def _claim_operations() -> Iterator[Operation]:
    """Yield what a program asks for that wants to drive a run alone."""
    token = schemas.CLAIM_EXAMPLE["token"]
    released = _answer(200, "Released", {"run_id": "build-42", "released": True})
    calls = (
        (
            "post",
            "claimRun",
            "Be the only one that drives a run; 409 while someone else does",
            ("ClaimIn", {"owner": "worker-1", "ttl_s": 300}),
            _answer(201, "Claim", schemas.CLAIM_EXAMPLE),
        ),
        (
            "put",
            "renewClaim",
            "Let a claim last longer; 409 once someone else has taken the run",
            ("RenewalIn", {"token": token}),
            _answer(200, "Claim", schemas.CLAIM_EXAMPLE),
        ),
        ("delete", "releaseClaim", "Let another drive the run", ("ReleaseIn", {"token": token}), released),
    )
    for method, name, summary, (schema, example), answer in calls:
        statuses = (*_WRITING, 409, 502, 507)
        operation = _operation(name, summary, answer, statuses=statuses, parameters=[_RUN_ID])
        body = {"required": True, "content": _content(schema, example)}
        yield method, f"{_RUN}/claim", {**operation, "requestBody": body}


def _decision_operations() -> Iterator[Operation]:
    """Yield what people decide; a decision is answered once its checkpoint is on disk."""
    plan = _answer(200, "ResumePlan", schemas.PLAN_EXAMPLE)
    receipt = _answer(202, "Receipt", schemas.RECEIPT_EXAMPLE)
    calls = (
        (
            "resume",
            "comparePlan",
            "Return the resume plan, compared with what is in force now",
            "ResumeIn",
            plan,
        ),
        ("review", "reviewRun", "Decide what a run waits for that needs a person", "ReviewIn", receipt),
        ("rollback", "rollBackRun", "Go on from an older checkpoint", "RollbackIn", receipt),
        ("fork", "forkRun", "Begin another run with the state of a checkpoint", "ForkIn", receipt),
    )
    examples = {
        "ResumeIn": {"active_lessons": [], "at": 1},
        "ReviewIn": {"decision": "continue", "note": "the outage is over", "by": "ada"},
        "RollbackIn": {"at": 1},
        "ForkIn": {"at": 1, "run_id": "build-43"},
    }
    for path, name, summary, schema, answer in calls:
        statuses = (*_WRITING, *_READING, *(() if path == "resume" else (409, 507)))
        operation = _operation(name, summary, answer, statuses=statuses, parameters=[_RUN_ID])
        body = {"required": path != "resume", "content": _content(schema, examples[schema])}
        yield "post", f"{_RUN}/{path}", {**operation, "requestBody": body}
    deleted = {
        "run_id": "build-42",
        "deleted_files": 4,
        "deleted_spooled": 1,
        "commit_sha": "8f3c1a0d5e7b9c2d",
    }
    force = _query("force", schemas.FLAG, "Delete it even if it is preserved, or claimed", False)
    yield (
        "delete",
        _RUN,
        _operation(
            "deleteRun",
            "Delete a run as one commit, with what waits for it in the spool",
            _answer(200, "DeletedRun", deleted),
            statuses=(*_READING, 409, 507),
            parameters=[_RUN_ID, force],
        ),
    )


def _upkeep_operations() -> Iterator[Operation]:
    completing = _operation(
        "completeRun",
        "Save the final checkpoint of a run; the clean-up follows once it is verified",
        _answer(202, "Receipt", {**schemas.RECEIPT_EXAMPLE, "sequence_number": 2}),
        statuses=(*_WRITING, *_READING, 409, 507),
        parameters=[_RUN_ID],
    )
    body = {"required": False, "content": _content("Completion", {"status": "completed"})}
    yield "post", f"{_RUN}/complete", {**completing, "requestBody": body}
    for method, name, summary, is_kept in (
        ("put", "preserveRun", "Keep a run from ever being cleaned up", True),
        ("delete", "unpreserveRun", "Let a run be cleaned up again", False),
    ):
        answer = _answer(200, "Preserved", {"run_id": "build-42", "preserved": is_kept, "changed": True})
        statuses = (404, 422, 502, 503, 507)
        operation = _operation(name, summary, answer, statuses=statuses, parameters=[_RUN_ID])
        yield method, "/v1/preserved/{run_id}", operation
    cleaning = _operation(
        "cleanUp",
        "Clean up by the rules: all of recent runs, the last of older ones, summaries of the oldest",
        _answer(200, "Cleanup", schemas.CLEANUP_EXAMPLE),
        statuses=(422, 502, 503, 507),
        parameters=[_query("dry_run", schemas.FLAG, "Only tell what would be done", True)],
    )
    yield "post", "/v1/cleanup", cleaning


def _operating_operations() -> Iterator[Operation]:
    status = _operation(
        "showStatus",
        "Tell how the spool and the budget stand, and the last error",
        _answer(200, "Status", schemas.STATUS_EXAMPLE),
        statuses=(503, 507),
    )
    health = _operation(
        "checkHealth", "Tell that the process answers", _answer(200, "Health", {"status": "ok"})
    )
    readiness = _operation(
        "checkReadiness",
        "Tell whether checkpoints are accepted, and what keeps them from GitHub, if anything does",
        _answer(200, "Health", {"status": "ready", "trouble": None}),
        statuses=(503,),
    )
    text: Schema = {"schema": schemas.TEXT, "example": "holdfast_spool_depth 0.0\n"}
    counters = {"200": {"description": "Prometheus' text format", "content": {"text/plain": text}}}
    whole = {"schema": {"type": "object"}, "example": {"openapi": "3.1.0"}}
    this = {"200": {"description": "OpenAPI 3.1", "content": {_JSON: whole}}}
    diagnosis = _operation(
        "diagnose",
        "Tell whether everything is in order, and what to do where it is not",
        _answer(200, "Diagnosis", schemas.DIAGNOSIS_EXAMPLE),
        statuses=(503,),
    )
    text_of_feed: Schema = {"schema": schemas.TEXT, "example": schemas.EVENT_EXAMPLE}
    feed = {"200": {"description": "Server-sent events", "content": {"text/event-stream": text_of_feed}}}
    last_id = {
        "name": "Last-Event-ID",
        "in": "header",
        "schema": {"type": "string", "pattern": "^[0-9]{1,19}$"},
        "description": "Go on after this event, if it is among the last 1,000.",
    }
    summary = "Follow what happens: spooled, verified, refused, budget, outage, drained"
    link = _operation(
        "makeLoginLink",
        "Return a link that logs in to the dashboard once, within two minutes",
        _answer(201, "LoginLink", {"path": "/ui/login?once=…"}),
    )
    html: Schema = {"schema": schemas.TEXT, "example": "<!doctype html>…"}
    dashboard = {"200": {"description": "HTML", "content": {"text/html": html}}}
    yield "get", "/", _operation("showDashboard", "Return the dashboard's first page", dashboard)
    yield "get", "/v1/events", _operation("follow", summary, feed, statuses=(422, 503), parameters=[last_id])
    yield "post", "/v1/login-link", link
    yield "get", "/v1/status", status
    yield "get", "/v1/stats", _statistics()
    yield "get", "/v1/doctor", diagnosis
    yield "get", "/healthz", health
    yield "get", "/readyz", readiness
    yield "get", "/metrics", _operation("readMetrics", "Return the counters", counters)
    yield "get", "/openapi.json", _operation("describe", "Return this document", this)


def _statistics() -> dict[str, Any]:
    run_id = _query("run_id", schemas.RUN_ID, "Of this run; of all unless one is named", None)
    return _operation(
        "showStatistics",
        "Tell how much is saved, how often, how large it is, and how long its way takes",
        _answer(200, "Statistics", schemas.STATISTICS_EXAMPLE),
        statuses=_READING,
        parameters=[run_id],
    )


def _reading(path: str, name: str, summary: str, schema: str, example: object, *more: Schema) -> Operation:
    """Return a call that reads something of a run; `path` is within the run's own."""
    answer = _answer(200, schema, example)
    operation = _operation(name, summary, answer, statuses=_READING, parameters=[_RUN_ID, *more])
    return "get", f"{_RUN}{path}", operation


def _operation(
    name: str,
    summary: str,
    *answers: dict[str, Any],
    statuses: tuple[int, ...] = (),
    parameters: Sequence[Schema] = (),
) -> dict[str, Any]:
    responses = {status: answer for each in answers for status, answer in each.items()}
    for status in sorted({*_ALWAYS, *statuses}):
        responses[str(status)] = _problem(status)
    return {
        "operationId": name,
        "summary": summary,
        "parameters": list(parameters),
        "responses": responses,
    }


def _answer(status: int, schema: str, example: object) -> dict[str, Any]:
    return {str(status): {"description": schema, "content": _content(schema, example)}}


def _content(schema: str, example: object, media_type: str = _JSON) -> dict[str, Any]:
    return {media_type: {"schema": ref(schema), "example": example}}


def _problem(status: int) -> dict[str, Any]:
    example = {
        "type": "urn:holdfast:problem:invalid",
        "title": TITLES[status],
        "status": status,
        "code": "invalid",
        "detail": "What is wrong, and what to do.",
        "request_id": "5f0c1b7e2a4d4c0b9e8f7a6b5c4d3e2f",
    }
    content = _content("Problem", example, MEDIA_TYPE)
    if status != 503:
        return {"description": TITLES[status], "content": content}
    seconds = {"description": "When to try again, in seconds", "schema": {"type": "integer", "minimum": 1}}
    description = (
        "GitHub cannot be reached or has no calls left, another clean-up is under way, the spool is busy, or "
        "the sidecar is about to end: the same request may succeed later"
    )
    return {"description": description, "headers": {"Retry-After": seconds}, "content": content}


def _in_path(name: str, schema: Schema, example: object) -> Schema:
    return {"name": name, "in": "path", "required": True, "schema": schema, "example": example}


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


_RUN_ID = _in_path("run_id", schemas.RUN_ID, "build-42")
