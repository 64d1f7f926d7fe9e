"""The routes that end, keep and clean up runs."""

from typing import Annotated, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.presentation.documents import receipt_document
from holdfast.presentation.sweeps import sweep_document
from holdfast.sidecar import parameters
from holdfast.sidecar.bodies import Asked, BodyReader, read_model
from holdfast.sidecar.checkpoints import json_response
from holdfast.sidecar.service import Service

# Enough for what these calls can say.
MOST_BYTES = 64 * 1024


class Completion(Asked):
    """How a run ends; `keep` lets it stay where successful runs are deleted."""

    status: Literal["completed", "failed"] = "completed"
    keep: Annotated[bool, Field(strict=True)] = False


class UpkeepRoutes:
    """Answers for the ends of runs."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._holdfast = service.holdfast
        self._bodies = BodyReader(MOST_BYTES)

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/v1/runs/{run_id}/complete", self.complete, methods=["POST"]),
            Route("/v1/preserved/{run_id}", self.preserve, methods=["PUT"]),
            Route("/v1/preserved/{run_id}", self.unpreserve, methods=["DELETE"]),
            Route("/v1/cleanup", self.clean_up, methods=["POST"]),
        ]

    async def complete(self, request: Request) -> Response:
        """Save the final checkpoint of a run; the clean-up follows once it is verified."""
        run_id = parameters.run_id_of(request)
        wanted = await read_model(self._bodies, request, Completion, Completion())
        receipt = await self._service.call_saving(
            self._holdfast.complete, run_id, wanted.status, keep=wanted.keep
        )
        self._service.drainer.wake(is_urgent=False)
        return json_response(receipt_document(receipt), 202)

    async def preserve(self, request: Request) -> Response:
        """Keep a run from ever being cleaned up."""
        run_id = parameters.run_id_of(request)
        is_new = await self._service.call(self._holdfast.preserve, run_id)
        return json_response({"run_id": run_id, "preserved": True, "changed": is_new})

    async def unpreserve(self, request: Request) -> Response:
        """Let a run be cleaned up again."""
        run_id = parameters.run_id_of(request)
        was_preserved = await self._service.call(self._holdfast.unpreserve, run_id)
        return json_response({"run_id": run_id, "preserved": False, "changed": was_preserved})

    async def clean_up(self, request: Request) -> Response:
        """Clean up by the rules, or tell what that would do."""
        dry_run = parameters.flag(request, "dry_run")
        report = await self._service.call(self._holdfast.cleanup, dry_run=dry_run)
        return json_response(sweep_document(report, self._service.assembly.layout, is_dry_run=dry_run))
