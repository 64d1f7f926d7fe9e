"""The routes of runs and checkpoints: looking, resuming, comparing."""

from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.errors import HoldfastError, RunArchived, UnknownRun
from holdfast.presentation.documents import archived_document, list_document, run_document, runs_document
from holdfast.sidecar import parameters
from holdfast.sidecar.service import Service

JSON = "application/json"


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
            Route(f"{run}/checkpoints", self.list_checkpoints, methods=["GET"]),
            Route(f"{run}/checkpoints/{{at}}", self.show_checkpoint, methods=["GET"]),
            Route(f"{run}/resume", self.resume, methods=["GET"]),
            Route(f"{run}/diff", self.compare, methods=["GET"]),
            Route(run, self.show_run, methods=["GET"]),
            Route("/v1/runs", self.list_runs, methods=["GET"]),
            Route("/v1/checkpoints/{checkpoint_id}", self.find_checkpoint, methods=["GET"]),
        ]

    async def list_runs(self, request: Request) -> Response:
        """List the runs, the one last written to first."""
        runs = await self._service.call(
            self._holdfast.runs,
            resumable=parameters.flag(request, "resumable"),
            review=parameters.flag(request, "review"),
            archived=parameters.flag(request, "archived"),
            workflow=parameters.text(request, "workflow"),
        )
        return json_response(runs_document(runs))

    async def show_run(self, request: Request) -> Response:
        """Tell how one run stands; of an archived one, its summary."""
        run_id = parameters.run_id_of(request)
        try:
            return json_response(run_document(await self._service.call(self._holdfast.checkpoints, run_id)))
        except RunArchived:
            summary = await self._service.call(self._holdfast.summary, run_id)
        return json_response(archived_document(orjson.loads(summary)))

    async def list_checkpoints(self, request: Request) -> Response:
        """List the checkpoints of a run."""
        run_id = parameters.run_id_of(request)
        limit = parameters.count(request, "limit")
        found = await self._service.call(self._holdfast.checkpoints, run_id, limit=limit)
        marks = await self._service.call(self._holdfast.signatures, run_id)
        return json_response(list_document(found, marks))

    async def show_checkpoint(self, request: Request) -> Response:
        """Return one checkpoint, with every number exactly as it was handed in."""
        run_id = parameters.run_id_of(request)
        at = parameters.place_of(request.path_params["at"])
        envelope = await self._service.call(self._holdfast.checkpoint, run_id, at)
        return Response(envelope.content, media_type=JSON)

    async def find_checkpoint(self, request: Request) -> Response:
        """Return one checkpoint by its id, whichever run it belongs to."""
        checkpoint_id = parameters.checkpoint_id_of(request)
        run_id = await self._service.call(self._holdfast.run_of, checkpoint_id)
        envelope = await self._service.call(self._holdfast.checkpoint, run_id, checkpoint_id)
        return Response(envelope.content, media_type=JSON)

    async def resume(self, request: Request) -> Response:
        """Return the plan by which a run goes on, with its state."""
        run_id = parameters.run_id_of(request)
        return await self.answer_plan(run_id, at=parameters.optional_place(request, "at"))

    async def answer_plan(self, run_id: str, **now: Any) -> Response:
        """Return the plan as an answer, and count it; `now` is what the library takes beside the run."""
        resumes = self._service.metrics.resumes
        try:
            plan = await self._service.call(self._holdfast.resume, run_id, **now)
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
        first = parameters.needed_place(request, "from")
        second = parameters.needed_place(request, "to")
        text = await self._service.call(lambda: self._holdfast.diff(run_id, first, second).to_bytes())
        return Response(text, media_type=JSON)
