"""The one route that must be quick: handing in a checkpoint."""

import re
import time
from contextlib import suppress
from uuid import UUID, uuid5

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from holdfast.errors import CheckpointChanged, HoldfastError
from holdfast.format.checkpoint import Draft
from holdfast.format.receipt import Progress, Receipt
from holdfast.library.saving import SAVE_SPAN, describe_draft
from holdfast.metrics import Metrics
from holdfast.presentation.documents import receipt_document
from holdfast.sidecar import parameters
from holdfast.sidecar.bodies import check_headers
from holdfast.sidecar.problems import FAILURE, Problem, problem_of
from holdfast.sidecar.service import Service
from holdfast.tracing import is_traceparent, traces

ADDRESS = "/v1/runs/{run_id}/checkpoints"
DEFAULT_WAIT_S = 30.0
LONGEST_WAIT_S = 300.0
# Up to this size a checkpoint is checked in a moment; a larger one would keep other requests waiting.
CHECKED_AT_ONCE_BYTES = 32 * 1024

_KEY = re.compile(rb"[\x21-\x7e]{1,255}")
_KEYS = UUID("7c1f6c6e-6d0b-5c0e-9b0a-1d1f0a8f5f3d")


class SubmitEndpoint:
    """Answers 202 once a checkpoint is on disk, or 201 once it is verified, if that was asked for.

    An ASGI application of its own: Starlette's requests and responses would cost as much as the rest.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._metrics = service.metrics

    def routes(self) -> list[Route]:
        """Return the route."""
        return [Route(ADDRESS, self, methods=["POST"])]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one checkpoint in; where traces are on, as a part of its caller's."""
        if not traces.is_on:
            await self._take_in(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"traceparent", b"").decode("latin-1")
        with traces.span(SAVE_SPAN, parent=given if is_traceparent(given) else None, kind="server"):
            scope["state"] = {**scope.get("state", {}), **traces.ids()}
            await self._take_in(scope, receive, send)

    async def _take_in(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        request = Request(scope)
        try:
            run_id = parameters.run_id_of(request)
            wait_s = _wait_of(request) if scope["query_string"] else None
            headers: dict[bytes, bytes] = dict(scope["headers"])
            check_headers(headers, limit_bytes=self._service.bodies.limit_bytes, is_setting=True)
            if failure := scope.get(FAILURE):
                with suppress(
                    ClientDisconnect
                ):  # what the disk said counts, also if nobody is there to hear it
                    await self._service.bodies.read(receive)
                raise failure
            body = await self._service.bodies.read(receive)
            size_bytes = len(body)
            id_of_key = _id_of_key(run_id, headers.get(b"idempotency-key"))
            draft = await self._draft(body, run_id, id_of_key)
            del body  # a large one is then in memory once less while it is written
            if traces.is_on:
                traces.tell(**describe_draft(draft))
                draft = draft.within_trace(traces.traceparent())
            receipt = await self._store(draft, id_of_key)
        except (HoldfastError, Problem) as error:
            count_failure(self._metrics, error)
            raise
        scope["state"] = {**scope.get("state", {}), "sequence_number": receipt.sequence_number}
        seconds = time.perf_counter() - began
        self._metrics.checkpoint_accepted(draft.trigger.value, seconds=seconds, size_bytes=size_bytes)
        if wait_s is not None:
            receipt = await self._service.follow(receipt, timeout_s=wait_s)
        await _answer(receipt, send, is_awaited=wait_s is not None)

    async def _draft(self, body: bytes, run_id: str, checkpoint_id: str | None) -> Draft:
        draft = self._service.holdfast.draft
        if len(body) <= CHECKED_AT_ONCE_BYTES:
            return draft(body, run_id=run_id, checkpoint_id=checkpoint_id)
        return await self._service.call_local(draft, body, run_id=run_id, checkpoint_id=checkpoint_id)

    async def _store(self, draft: Draft, id_of_key: str | None) -> Receipt:
        try:
            return await self._service.intake.submit(draft)
        except CheckpointChanged as error:
            if draft.checkpoint_id != id_of_key:
                raise
            detail = "Idempotency-Key: it came before with other content; give a new state a new key"
            raise Problem(409, "checkpoint_changed", detail, field="Idempotency-Key") from error


def _wait_of(request: Request) -> float | None:
    """Return how long the caller wants to wait for the verified receipt; None if not at all."""
    is_awaited = parameters.choice(request, "wait", "verified") is not None
    timeout_s = parameters.seconds(request, "timeout", default=DEFAULT_WAIT_S, most=LONGEST_WAIT_S)
    return timeout_s if is_awaited else None


def _id_of_key(run_id: str, key: bytes | None) -> str | None:
    """Return the checkpoint_id that an Idempotency-Key stands for, within its run."""
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        detail = "Idempotency-Key: use 1 to 255 visible ASCII characters"
        raise Problem(422, "invalid", detail, field="Idempotency-Key")
    return str(uuid5(_KEYS, f"{run_id}\n{key.decode()}"))


async def _answer(receipt: Receipt, send: Send, *, is_awaited: bool) -> None:
    is_done = is_awaited and receipt.status is Progress.VERIFIED
    body, headers = write_receipt(receipt)
    await send({"type": "http.response.start", "status": 201 if is_done else 202, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def count_failure(metrics: Metrics, error: Exception) -> None:
    """Count a checkpoint that was not stored: because of itself, or because of us."""
    metrics.submits.labels("failed" if problem_of(error).status >= 500 else "refused").inc()


def write_receipt(receipt: Receipt) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Return a receipt as the body of an answer, and the headers that describe it."""
    body = orjson.dumps(receipt_document(receipt))
    return body, [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
