"""The one door to OpenTelemetry: spans, the trace that travels with a checkpoint, and ids for the logs.

Nothing of it is loaded unless one of its standard `OTEL_…` variables asks for traces, or the program that
uses us traces already.
"""

import atexit
import re
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Literal

from holdfast.extras import how_to_install

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Link, Tracer

Kind = Literal["internal", "server", "client"]
Values = Mapping[str, str | int]

# A process that ends waits no longer for a collector that does not answer.
LAST_FLUSH_MS = 2000

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_NOTHING: AbstractContextManager[None] = nullcontext()


class ExtraMissing(Exception):
    """Traces are asked for, and what makes them is not installed; the text says what to do."""


class Traces:
    """Spans of this process. Ask `is_on` first where it must cost nothing."""

    def __init__(self) -> None:
        self.is_on = False
        self._tracer: Tracer | None = None

    def set_up(self, environment: Mapping[str, str]) -> None:
        """Begin to trace if the program does, or if the variables ask for it. Raises ExtraMissing."""
        self.join_program()
        if self.is_on or not asks_for_traces(environment):
            return
        try:
            provider = _make_provider(environment)
        except ImportError as error:
            raise ExtraMissing(
                f"OTEL_… variables ask for traces, but {error.name} is missing: run {how_to_install('otel')}"
            ) from error
        self.begin(provider)

    def join_program(self) -> None:
        """Begin to trace if the program that uses us has set up OpenTelemetry itself."""
        # To look is free: who has set it up has loaded it.
        if self.is_on or "opentelemetry.sdk.trace" not in sys.modules:
            return
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider

        provider = trace.get_tracer_provider()
        if isinstance(provider, TracerProvider):
            self.begin(provider)

    def begin(self, provider: "TracerProvider") -> None:
        """Trace through this provider from now on."""
        self._tracer = provider.get_tracer("holdfast")
        self.is_on = True

    def end(self) -> None:
        """Trace no more."""
        self.is_on = False
        self._tracer = None

    def span(
        self,
        name: str,
        values: Values | None = None,
        *,
        parent: str | None = None,
        kind: Kind = "internal",
    ) -> AbstractContextManager[object]:
        """Return what spans all that is done within it; `parent` is a traceparent, else the one in force."""
        if self._tracer is None:
            return _NOTHING
        from opentelemetry.trace import SpanKind

        return self._tracer.start_as_current_span(
            name,
            context=_context_of(parent),
            kind=SpanKind[kind.upper()],
            attributes=values,
            record_exception=False,  # a traceback may name what is nobody's business
        )

    def add(
        self,
        name: str,
        begun_at: float,
        ended_at: float,
        values: Values | None = None,
        *,
        parent: str,
        links: "list[Link] | None" = None,
    ) -> None:
        """Tell of something that is over, by the clock's seconds, as a child of this traceparent."""
        if self._tracer is None:
            return
        start, end = int(begun_at * 1e9), int(max(begun_at, ended_at) * 1e9)
        span = self._tracer.start_span(
            name, context=_context_of(parent), attributes=values, links=links, start_time=start
        )
        span.end(end)

    def link(self) -> "list[Link]":
        """Return a link to the span in force."""
        from opentelemetry.trace import Link, get_current_span

        return [Link(get_current_span().get_span_context())]

    def traceparent(self) -> str | None:
        """Return the span in force as a W3C traceparent; None if there is none."""
        ids = self._current()
        return "00-{:032x}-{:016x}-{:02x}".format(*ids) if ids else None

    def ids(self) -> dict[str, str]:
        """Return what a log line says of the span in force."""
        ids = self._current()
        return {"trace_id": f"{ids[0]:032x}", "span_id": f"{ids[1]:016x}"} if ids else {}

    def tell(self, **values: str | int) -> None:
        """Add values to the span in force."""
        if self.is_on:
            from opentelemetry.trace import get_current_span

            get_current_span().set_attributes(values)

    def is_within(self, name: str) -> bool:
        """Whether the span in force has this name."""
        from opentelemetry.trace import get_current_span

        return getattr(get_current_span(), "name", None) == name

    def _current(self) -> tuple[int, int, int] | None:
        if not self.is_on:
            return None
        from opentelemetry.trace import get_current_span

        context = get_current_span().get_span_context()
        return (context.trace_id, context.span_id, context.trace_flags) if context.is_valid else None


traces = Traces()


def asks_for_traces(environment: Mapping[str, str]) -> bool:
    """Whether the standard variables ask for traces: an exporter is chosen, or an address is given.

    >>> asks_for_traces({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}), asks_for_traces({})
    (True, False)
    >>> asks_for_traces({"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"})
    False
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    return exporter != "none" if exporter else any(environment.get(name) for name in _ENDPOINTS)


def is_traceparent(text: object) -> bool:
    """Whether a text is a W3C traceparent, as far as its form goes.

    >>> is_traceparent("00-" + "a" * 32 + "-" + "b" * 16 + "-01"), is_traceparent("00-1-2-3")
    (True, False)
    """
    return isinstance(text, str) and _PARENT.fullmatch(text) is not None


def _context_of(parent: str | None) -> "Context | None":
    if parent is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": parent})


def _make_provider(environment: Mapping[str, str]) -> "TracerProvider":
    """Return a provider as the variables say; the SDK itself reads those for sampling, limits and batches."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    is_named = "service.name" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    is_named = is_named or bool(environment.get("OTEL_SERVICE_NAME"))
    resource = Resource.create() if is_named else Resource.create({"service.name": "holdfast"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_make_exporter(environment)))
    atexit.register(_finish, provider)
    return provider


def _make_exporter(environment: Mapping[str, str]) -> "SpanExporter":
    if environment.get("OTEL_TRACES_EXPORTER", "").strip() == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)  # standard output is for answers
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def _finish(provider: "TracerProvider") -> None:
    """Send what is left, within reason."""
    provider.force_flush(LAST_FLUSH_MS)
