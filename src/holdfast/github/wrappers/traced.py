"""A gateway that spans each call to GitHub. It is put around the client only where traces are on."""

from dataclasses import dataclass

from holdfast.github.calls import Call, Gateway, ResultT
from holdfast.tracing import traces


@dataclass(frozen=True, slots=True)
class TracedGateway:
    """Performs calls through `inner`, each within a span of its own that is named for it."""

    inner: Gateway

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers, or raise its GatewayError, which the span has as its status."""
        values: dict[str, str | int] = {
            "holdfast.call": type(call).__name__,
            "holdfast.subject": call.subject,
            "holdfast.writes": int(call.is_mutation),
        }
        with traces.span(f"GitHub {type(call).__name__}", values, kind="client"):
            return self.inner.perform(call)
