"""The ASGI application: every route of the contract behind the guard."""

from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from holdfast.sidecar.access import Access
from holdfast.sidecar.checkpoints import CheckpointRoutes
from holdfast.sidecar.guard import Guard
from holdfast.sidecar.health import HealthRoutes
from holdfast.sidecar.openapi import describe
from holdfast.sidecar.problems import Problem
from holdfast.sidecar.service import Service


def build_app(service: Service) -> Guard:
    """Return the application that serves `service`."""
    settings, tokens = service.assembly.settings, service.assembly.api_tokens
    routes = [
        *CheckpointRoutes(service).routes(),
        *HealthRoutes(service, describe()).routes(),
    ]
    return Guard(
        Router(routes, redirect_slashes=False, default=_find_nothing),
        Access(settings, tokens),
        service.metrics,
        is_stopping=lambda: service.is_stopping,
        labels={route.endpoint: route.path for route in routes},
    )


async def _find_nothing(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise Problem(404, "no_such_address", "There is nothing at this address; see /openapi.json.")
