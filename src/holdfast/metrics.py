"""Counters, gauges and histograms, for Prometheus. Only the sidecar loads this."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from holdfast.errors import Conflict, HoldfastError, Unavailable

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_BYTES = (256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 33554432)

# What is left of each limit, as `status` names it.
_LIMITS = {
    "last_remaining": "requests",
    "content_left_minute": "content_minute",
    "content_left_hour": "content_hour",
}


class Metrics:
    """What the sidecar counts. `look` gives the spool and the budget, as `status` does, at each scrape."""

    def __init__(self, look: Callable[[], Mapping[str, Any]]) -> None:
        registry = self._registry = CollectorRegistry()
        self.submits = Counter(
            "holdfast_submits", "Checkpoints handed in, by what came of it", ["outcome"], registry=registry
        )
        self.acknowledgement_seconds = Histogram(
            "holdfast_acknowledgement_seconds",
            "From the request's first line to its answer, for checkpoints that were accepted",
            buckets=_SECONDS,
            registry=registry,
        )
        self.checkpoint_bytes = Histogram(
            "holdfast_checkpoint_bytes",
            "Size of accepted checkpoints, as they came",
            buckets=_BYTES,
            registry=registry,
        )
        self.http_requests = Counter(
            "holdfast_http_requests",
            "Requests to the sidecar",
            ["method", "route", "status"],
            registry=registry,
        )
        self.resumes = Counter(
            "holdfast_resumes", "Resume plans asked for, by what came of it", ["outcome"], registry=registry
        )
        self.verified = Counter(
            "holdfast_verified", "Checkpoints verified in the repository", registry=registry
        )
        self._github_requests = Counter(
            "holdfast_github_requests",
            "Answers of GitHub, by kind of call and status",
            ["endpoint", "status"],
            registry=registry,
        )
        self._conflicts = Counter(
            "holdfast_conflicts", "Writes that someone else was before", registry=registry
        )
        self._outages = Counter(
            "holdfast_github_unavailable", "Calls that GitHub gave no clear answer to", registry=registry
        )
        self._retries = Counter("holdfast_retries", "Calls to GitHub that were repeated", registry=registry)
        self._write_seconds = Histogram(
            "holdfast_github_write_seconds",
            "Duration of writing calls to GitHub",
            buckets=_SECONDS,
            registry=registry,
        )
        registry.register(_Standing(look))
        ProcessCollector(registry=registry)

    def render(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def request_answered(self, endpoint: str, status: int) -> None:
        """Count one answer of GitHub."""
        self._github_requests.labels(endpoint, status).inc()

    def call_performed(
        self,
        endpoint: str,  # noqa: ARG002 (the answer, if there is one, is counted by endpoint)
        seconds: float,
        *,
        is_mutation: bool,
        error: HoldfastError | None,
    ) -> None:
        """Count one call to GitHub, and how it ended."""
        if is_mutation:
            self._write_seconds.observe(seconds)
        if isinstance(error, Conflict):
            self._conflicts.inc()
        if isinstance(error, Unavailable):
            self._outages.inc()

    def call_repeated(self) -> None:
        """Count a call that follows one that failed."""
        self._retries.inc()


class _Standing(Collector):
    """Asks at each scrape how the spool and the budget stand; says nothing if they cannot be read."""

    def __init__(self, look: Callable[[], Mapping[str, Any]]) -> None:
        self._look = look

    def collect(self) -> Iterable[Metric]:
        try:
            status = self._look()
        except HoldfastError:
            return
        spool, budget = status["spool"], status["budget"]
        yield GaugeMetricFamily("holdfast_spool_depth", "Checkpoints that wait", spool["depth"])
        yield GaugeMetricFamily("holdfast_spool_bytes", "Bytes that wait", spool["bytes"])
        yield GaugeMetricFamily(
            "holdfast_spool_oldest_age_seconds", "How long the oldest waits", spool["oldest_age_s"]
        )
        yield GaugeMetricFamily("holdfast_spool_set_aside", "Kept, but not sent", spool["set_aside"])
        left = GaugeMetricFamily(
            "holdfast_budget_left", "What each limit of GitHub still allows", labels=["limit"]
        )
        for name, limit in _LIMITS.items():
            if budget[name] is not None:
                left.add_metric([limit], budget[name])
        yield left
