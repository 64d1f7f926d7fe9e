"""The routes by which a program claims a run: taken, renewed and released with a token."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.claims.decide import DEFAULT_TTL_S
from holdfast.errors import Fenced
from holdfast.format.claim import Claim
from holdfast.format.moments import format_moment
from holdfast.sidecar import parameters
from holdfast.sidecar.bodies import Asked, read_model
from holdfast.sidecar.checkpoints import json_response
from holdfast.sidecar.service import Service

if TYPE_CHECKING:
    from holdfast.claims.desk import TakenClaim
    from holdfast.claims.lease import ClaimLease


class ClaimIn(Asked):
    """Who wants to drive a run, and for how long unless it is renewed."""

    owner: str
    ttl_s: float = DEFAULT_TTL_S


class RenewalIn(Asked):
    """The token of a claim, and for how long it is to last from now on; as before unless given."""

    token: str
    ttl_s: float | None = None


class ReleaseIn(Asked):
    """The token of a claim that ends."""

    token: str


@dataclass(frozen=True, slots=True)
class ClaimDocument:
    """A claim as its holder is told of it; `expires_at` is GitHub's time, or the shared database's."""

    token: str
    fence: int
    owner: str
    expires_at: str


class ClaimRoutes:
    """Answers for claims. Nothing is renewed here unless its holder asks for it."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._holdfast = service.holdfast

    def routes(self) -> list[Route]:
        """Return the routes."""
        path = "/v1/runs/{run_id}/claim"
        return [
            Route(path, self.take, methods=["POST"]),
            Route(path, self.renew, methods=["PUT"]),
            Route(path, self.release, methods=["DELETE"]),
        ]

    async def take(self, request: Request) -> Response:
        """Claim a run."""
        run_id = parameters.run_id_of(request)
        wanted = await read_model(self._service.bodies, request, ClaimIn)
        taken: TakenClaim = await self._service.call(
            self._holdfast.take_claim, run_id, owner=wanted.owner, ttl_s=wanted.ttl_s
        )
        return json_response(_document(taken.token, taken.claim), 201)

    async def renew(self, request: Request) -> Response:
        """Let a claim last longer."""
        run_id = parameters.run_id_of(request)
        wanted = await read_model(self._service.bodies, request, RenewalIn)
        lease: ClaimLease = await self._service.call(
            self._holdfast.renew_claim, run_id, wanted.token, ttl_s=wanted.ttl_s
        )
        return json_response(_document(wanted.token, lease.claim))

    async def release(self, request: Request) -> Response:
        """End a claim."""
        run_id = parameters.run_id_of(request)
        wanted = await read_model(self._service.bodies, request, ReleaseIn)
        if not await self._service.call(self._holdfast.release_claim, run_id, wanted.token):
            raise Fenced(run_id, "the token is not that of its newest claim")
        return json_response({"run_id": run_id, "released": True})


def _document(token: str, claim: Claim) -> dict[str, object]:
    return asdict(ClaimDocument(token, claim.fence, claim.owner, format_moment(claim.expires_at)))
