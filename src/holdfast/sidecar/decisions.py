"""The routes by which a person decides about a run, and the plan that is compared with the present."""

from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.format.receipt import Receipt
from holdfast.presentation.documents import receipt_document
from holdfast.sidecar import parameters
from holdfast.sidecar.bodies import Asked, read_model
from holdfast.sidecar.checkpoints import CheckpointRoutes, json_response
from holdfast.sidecar.service import Service

Place = Annotated[int, Field(strict=True)] | str


class ReviewIn(Asked):
    """What a person decides about a run that waits."""

    decision: Literal["continue", "retry", "stop"]
    note: str | None = None
    by: str | None = None


class RollbackIn(Asked):
    """The checkpoint to go on from, by its number or its id."""

    at: Place
    note: str | None = None


class ForkIn(Asked):
    """The checkpoint to begin another run with, and the name of that run."""

    at: Place
    run_id: str


class ResumeIn(Asked):
    """What is in force now: the plan warns where the run was saved with something else."""

    active_lessons: list[Any] | None = None
    dag: Any = None
    at: Place | None = None


class DecisionRoutes:
    """Answers for what people decide."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._holdfast = service.holdfast
        self._plans = CheckpointRoutes(service)

    def routes(self) -> list[Route]:
        """Return the routes."""
        run = "/v1/runs/{run_id}"
        return [
            Route(f"{run}/resume", self.resume, methods=["POST"]),
            Route(f"{run}/review", self.review, methods=["POST"]),
            Route(f"{run}/rollback", self.roll_back, methods=["POST"]),
            Route(f"{run}/fork", self.fork, methods=["POST"]),
            Route(run, self.delete, methods=["DELETE"]),
        ]

    async def resume(self, request: Request) -> Response:
        """Return the plan by which a run goes on, compared with what the caller has now."""
        run_id = parameters.run_id_of(request)
        now = await read_model(self._service.bodies, request, ResumeIn, ResumeIn())
        at = None if now.at is None else parameters.place_of(str(now.at))
        return await self._plans.answer_plan(run_id, at=at, active_lessons=now.active_lessons, dag=now.dag)

    async def review(self, request: Request) -> Response:
        """Decide what a run waits for."""
        run_id = parameters.run_id_of(request)
        wanted = await read_model(self._service.bodies, request, ReviewIn)
        receipt = await self._service.call_saving(
            self._holdfast.review, run_id, wanted.decision, note=wanted.note, by=wanted.by
        )
        return self._accepted(receipt)

    async def roll_back(self, request: Request) -> Response:
        """Go on from an older checkpoint."""
        run_id = parameters.run_id_of(request)
        wanted = await read_model(self._service.bodies, request, RollbackIn)
        at = parameters.place_of(str(wanted.at))
        receipt = await self._service.call_saving(self._holdfast.rollback, run_id, at, note=wanted.note)
        return self._accepted(receipt)

    async def fork(self, request: Request) -> Response:
        """Begin another run with the state of a checkpoint."""
        run_id = parameters.run_id_of(request)
        wanted = await read_model(self._service.bodies, request, ForkIn)
        at = parameters.place_of(str(wanted.at))
        return self._accepted(await self._service.call_saving(self._holdfast.fork, run_id, at, wanted.run_id))

    async def delete(self, request: Request) -> Response:
        """Delete a run, stored and spooled."""
        run_id = parameters.run_id_of(request)
        is_forced = parameters.flag(request, "force")
        return json_response(await self._service.call(self._holdfast.delete, run_id, force=is_forced))

    def _accepted(self, receipt: Receipt) -> Response:
        self._service.drainer.wake(is_urgent=False)
        return json_response(receipt_document(receipt), 202)
