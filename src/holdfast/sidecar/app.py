"""The ASGI application: every route of the contract behind the guard."""

from holdfast.sidecar.access import Access
from holdfast.sidecar.checkpoints import CheckpointRoutes
from holdfast.sidecar.guard import Guard
from holdfast.sidecar.health import HealthRoutes
from holdfast.sidecar.service import Service
from holdfast.sidecar.submitting import SubmitEndpoint
from holdfast.sidecar.upkeep import UpkeepRoutes


def build_app(service: Service) -> Guard:
    """Return the application that serves `service`."""
    routes = [
        *SubmitEndpoint(service).routes(),
        *CheckpointRoutes(service).routes(),
        *UpkeepRoutes(service).routes(),
        *HealthRoutes(service).routes(),
    ]
    access = Access(service.assembly.settings, service.assembly.api_tokens)
    return Guard(
        routes,
        access,
        service.metrics,
        is_stopping=lambda: service.is_stopping,
        is_debugging=service.assembly.settings.log_level == "debug",
    )
