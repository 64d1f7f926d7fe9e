"""The routes for those who operate the sidecar: health, readiness, metrics, status, the API's description."""

import time
from collections.abc import Callable
from functools import cache

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.drain.notes import OUTAGE_NOTE
from holdfast.drain.outage import parse_outage
from holdfast.errors import DiskFailed, SpoolError
from holdfast.metrics import CONTENT_TYPE
from holdfast.presentation.documents import diagnosis_document, stats_document
from holdfast.sidecar import parameters
from holdfast.sidecar.checkpoints import JSON, json_response
from holdfast.sidecar.problems import problem_of, unavailable
from holdfast.sidecar.service import Service

# A probe costs a sync of the disk, so its answer is used for a while.
PROBE_EVERY_S = 1.0
_PROBE_NOTE = "probe"


@cache
def _description() -> bytes:
    """Return the OpenAPI document, which is made when it is first asked for."""
    from holdfast.sidecar.openapi import describe

    return describe()


class HealthRoutes:
    """Answers how the sidecar itself is."""

    def __init__(self, service: Service, *, now: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._now = now
        self._probed_at = float("-inf")
        self._probe_error: SpoolError | None = None
        self._outage: str | None = None

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/healthz", self.health, methods=["GET"]),
            Route("/readyz", self.readiness, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/v1/status", self.status, methods=["GET"]),
            Route("/v1/stats", self.stats, methods=["GET"]),
            Route("/v1/doctor", self.diagnose, methods=["GET"]),
            Route("/openapi.json", self.describe, methods=["GET"]),
        ]

    async def health(self, _request: Request) -> Response:
        """Answer, which shows that the process is alive."""
        return json_response({"status": "ok"})

    async def readiness(self, _request: Request) -> Response:
        """Whether checkpoints are accepted, and what keeps them from GitHub, if anything does."""
        if self._service.is_stopping:
            raise unavailable("stopping", "The sidecar is about to end.")
        if not self._service.drainer.is_alive:
            raise unavailable("worker_dead", "Nothing drains the spool any more; start the sidecar again.")
        error = await self._probe()
        if error is not None:
            code = problem_of(error).code
            raise unavailable(code, f"{error}. Checkpoints are refused until then.")
        return json_response({"status": "ready", "trouble": self._outage})

    async def metrics(self, _request: Request) -> Response:
        """Return the counters."""
        text = await self._service.call_local(self._service.metrics.render)
        return Response(text, headers={"Content-Type": CONTENT_TYPE})

    async def status(self, _request: Request) -> Response:
        """Return the spool, the budget and the last error."""
        return json_response(await self._service.call_local(self._service.holdfast.status))

    async def stats(self, request: Request) -> Response:
        """Return the statistics of a run, or of all; what was asked of GitHub is told as metrics as well."""
        stats = await self._service.call(self._service.holdfast.stats, parameters.optional_run_id(request))
        if stats.run_id is None:
            self._service.metrics.statistics_seen(stats)
        return json_response(stats_document(stats))

    async def diagnose(self, _request: Request) -> Response:
        """Whether everything is in order, and what to do where it is not."""
        return json_response(diagnosis_document(await self._service.diagnose()))

    async def describe(self, _request: Request) -> Response:
        """Return the OpenAPI document."""
        return Response(await self._service.call_local(_description), media_type=JSON)

    async def _probe(self) -> SpoolError | None:
        if self._now() - self._probed_at >= PROBE_EVERY_S:
            self._probe_error = await self._service.call_local(self._write)
            self._probed_at = self._now()
        return self._probe_error

    def _write(self) -> SpoolError | None:
        """Put a note to the disk, as a checkpoint would be; return what stood in the way."""
        try:
            spool = self._service.assembly.spool
            spool.check_room()
            self._outage = spool.trouble()
            if self._outage is None:
                spool.note(_PROBE_NOTE, orjson.dumps(self._now()))
                outage = parse_outage(spool.notes().get(OUTAGE_NOTE))
                self._outage = outage.sentence if outage else None
        except DiskFailed as error:
            self._service.fail(error)
            return error
        except SpoolError as error:
            return error
        return None
