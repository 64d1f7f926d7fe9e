"""The routes of runs and checkpoints: handing in, looking, resuming, comparing."""

import re
import time
from uuid import UUID, uuid5

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.core.envelope import Draft, RunStatus
from holdfast.core.ticket import Progress, Receipt
from holdfast.documents import list_document, receipt_document, run_document, runs_document
from holdfast.errors import HoldfastError, UnknownRun
from holdfast.sidecar import parameters
from holdfast.sidecar.bodies import check_headers
from holdfast.sidecar.problems import Problem, problem_of
from holdfast.sidecar.service import Service

JSON = "application/json"
DEFAULT_WAIT_S = 30.0
LONGEST_WAIT_S = 300.0
# Up to this size a checkpoint is checked in a moment; a larger one would keep other requests waiting.
CHECKED_AT_ONCE_BYTES = 32 * 1024

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_KEYS = UUID("7c1f6c6e-6d0b-5c0e-9b0a-1d1f0a8f5f3d")


def json_response(document: object, status: int = 200) -> Response:
    """Return an answer that holds `document`."""
    return Response(orjson.dumps(document), status, media_type=JSON)


class CheckpointRoutes:
    """Answers for runs and their checkpoints, stored and spooled as one."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._holdfast = service.holdfast

    def routes(self) -> list[Route]:
        """Return the routes."""
        run = "/v1/runs/{run_id}"
        return [
            Route(f"{run}/checkpoints", self.submit, methods=["POST"]),
            Route(f"{run}/checkpoints", self.list_checkpoints, methods=["GET"]),
            Route(f"{run}/checkpoints/{{sequence}}", self.show_checkpoint, methods=["GET"]),
            Route(f"{run}/resume", self.resume, methods=["GET"]),
            Route(f"{run}/diff", self.compare, methods=["GET"]),
            Route(run, self.show_run, methods=["GET"]),
            Route("/v1/runs", self.list_runs, methods=["GET"]),
        ]

    async def submit(self, request: Request) -> Response:
        """Answer 202 once the checkpoint is on disk, or 201 once it is verified, if that was asked for."""
        began = time.perf_counter()
        metrics = self._service.metrics
        try:
            run_id = parameters.run_id_of(request)
            is_awaited = parameters.choice(request, "wait", "verified") is not None
            timeout_s = parameters.seconds(request, "timeout", default=DEFAULT_WAIT_S, most=LONGEST_WAIT_S)
            body = await self._read(request)
            draft = await self._draft(body, run_id, request)
            receipt = await self._service.intake.submit(draft)
        except (HoldfastError, Problem) as error:
            outcome = "failed" if problem_of(error).status >= 500 else "refused"
            metrics.submits.labels(outcome).inc()
            raise
        metrics.submits.labels("accepted").inc()
        metrics.acknowledgement_seconds.observe(time.perf_counter() - began)
        metrics.checkpoint_bytes.observe(len(body))
        if draft.header.status is RunStatus.COMPLETED:
            self._service.tidy_after(receipt)
        if is_awaited:
            receipt = await self._service.follow(receipt, timeout_s=timeout_s)
        return _answer(receipt, is_awaited=is_awaited)

    async def list_runs(self, request: Request) -> Response:
        """List the runs, the one last written to first."""
        is_resumable = parameters.flag(request, "resumable")
        return json_response(
            runs_document(await self._service.call(self._holdfast.runs, resumable=is_resumable))
        )

    async def show_run(self, request: Request) -> Response:
        """Tell how one run stands."""
        run_id = parameters.run_id_of(request)
        return json_response(run_document(await self._service.call(self._holdfast.checkpoints, run_id)))

    async def list_checkpoints(self, request: Request) -> Response:
        """List the checkpoints of a run."""
        run_id = parameters.run_id_of(request)
        return json_response(list_document(await self._service.call(self._holdfast.checkpoints, run_id)))

    async def show_checkpoint(self, request: Request) -> Response:
        """Return one checkpoint, with every number exactly as it was handed in."""
        run_id = parameters.run_id_of(request)
        sequence = parameters.sequence_of(request.path_params["sequence"])
        envelope = await self._service.call(self._holdfast.checkpoint, run_id, sequence)
        return Response(envelope.content, media_type=JSON)

    async def resume(self, request: Request) -> Response:
        """Return the plan by which a run goes on, with its state."""
        resumes = self._service.metrics.resumes
        run_id = parameters.run_id_of(request)
        at = parameters.optional_sequence(request, "at")
        try:
            plan = await self._service.call(self._holdfast.resume, run_id, at=at)
        except UnknownRun:
            resumes.labels("unknown").inc()
            raise
        except HoldfastError:
            resumes.labels("failed").inc()
            raise
        resumes.labels("resumable" if plan.resumable else "complete").inc()
        return Response(plan.to_bytes(), media_type=JSON)

    async def compare(self, request: Request) -> Response:
        """Return the JSON Patch that turns one checkpoint of a run into another."""
        run_id = parameters.run_id_of(request)
        first = parameters.needed_sequence(request, "from")
        second = parameters.needed_sequence(request, "to")
        patch = await self._service.call(self._holdfast.diff, run_id, first, second)
        return Response(await self._service.call(patch.to_bytes), media_type=JSON)

    async def _read(self, request: Request) -> bytes:
        headers = dict(request.scope["headers"])
        check_headers(headers, limit_bytes=self._service.bodies.limit_bytes)
        return await self._service.bodies.read(request.receive)

    async def _draft(self, body: bytes, run_id: str, request: Request) -> Draft:
        checkpoint_id = _id_of_key(run_id, request.headers.get("idempotency-key"))
        if len(body) <= CHECKED_AT_ONCE_BYTES:
            return self._holdfast.draft(body, run_id=run_id, checkpoint_id=checkpoint_id)
        return await self._service.call(
            self._holdfast.draft, body, run_id=run_id, checkpoint_id=checkpoint_id
        )


def _id_of_key(run_id: str, key: str | None) -> str | None:
    """Return the checkpoint_id that an Idempotency-Key stands for, within its run."""
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise Problem(
            422,
            "invalid",
            "Idempotency-Key: use 1 to 255 visible ASCII characters",
            field="Idempotency-Key",
        )
    return str(uuid5(_KEYS, f"{run_id}\n{key}"))


def _answer(receipt: Receipt, *, is_awaited: bool) -> Response:
    is_done = is_awaited and receipt.status is Progress.VERIFIED
    return json_response(receipt_document(receipt), 201 if is_done else 202)
