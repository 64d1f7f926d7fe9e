"""Counters, gauges and histograms, for Prometheus. Only the sidecar loads this."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from holdfast.errors import Conflict, HoldfastError, Unavailable

if TYPE_CHECKING:
    from holdfast.stats.figures import Statistics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
# From the save to the verified commit: seconds when all is well, hours when GitHub is away.
_WAY_SECONDS = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
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
        counter, histogram = partial(Counter, registry=registry), partial(Histogram, registry=registry)
        self.submits = counter("holdfast_submits", "Checkpoints received, by outcome", ["outcome"])
        self._accepted = self.submits.labels("accepted")
        self.acknowledgement_seconds = histogram(
            "holdfast_acknowledgement_seconds",
            "Time from request to acknowledgement of accepted checkpoints",
            buckets=_SECONDS,
        )
        self.checkpoint_bytes = histogram(
            "holdfast_checkpoint_bytes", "Size of accepted checkpoints as received", buckets=_BYTES
        )
        self.http_requests = counter(
            "holdfast_http_requests", "HTTP requests to the sidecar", ["method", "route", "status"]
        )
        self.resumes = counter("holdfast_resumes", "Resume plans requested, by outcome", ["outcome"])
        self.saved = counter("holdfast_saved", "Checkpoints accepted by the sidecar, by trigger", ["trigger"])
        self.verified_after_seconds = histogram(
            "holdfast_verified_after_seconds",
            "Time from the save of a checkpoint to its verification in the repository",
            buckets=_WAY_SECONDS,
        )
        self.verified = counter("holdfast_verified", "Checkpoints verified in the repository")
        self._github_requests = counter(
            "holdfast_github_requests", "Responses of GitHub, by call and status", ["endpoint", "status"]
        )
        self._conflicts = counter("holdfast_conflicts", "Write conflicts with another writer")
        self._outages = counter("holdfast_github_unavailable", "Calls to GitHub without a clear response")
        self._retries = counter("holdfast_retries", "Retries of calls to GitHub")
        self._write_seconds = histogram(
            "holdfast_github_write_seconds", "Duration of write calls to GitHub", buckets=_SECONDS
        )
        registry.register(_StatusCollector(look))
        self._repository = _RepositoryCollector()
        registry.register(self._repository)
        ProcessCollector(registry=registry)

    def render(self) -> bytes:
        """Return everything in Prometheus' text format."""
        return generate_latest(self._registry)

    def checkpoint_accepted(self, trigger: str, *, seconds: float, size_bytes: int) -> None:
        """Count a checkpoint that was accepted, so long after its request had come."""
        self._accepted.inc()
        self.saved.labels(trigger).inc()
        self.acknowledgement_seconds.observe(seconds)
        self.checkpoint_bytes.observe(size_bytes)

    def request_answered(self, endpoint: str, status: int) -> None:
        """Count one answer of GitHub."""
        self._github_requests.labels(endpoint, status).inc()

    def call_performed(self, seconds: float, *, is_mutation: bool, error: HoldfastError | None) -> None:
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

    def statistics_seen(self, stats: "Statistics") -> None:
        """Keep the statistics of all runs that someone has just asked for; a scrape asks for nothing."""
        self._repository.seen = stats


class _RepositoryCollector(Collector):
    """Tells what the repository holds, once anyone has asked for the statistics of all runs."""

    def __init__(self) -> None:
        self.seen: Statistics | None = None

    def collect(self) -> Iterable[Metric]:
        if self.seen is None:
            return
        stored, savings = self.seen.stored, self.seen.savings
        for name, text, number in (
            ("bytes", "Size of the repository in bytes", stored.bytes),
            ("commits", "Commits of the branch", stored.commits),
            ("files", "Files of all runs", stored.files),
            ("parts", "Parts of all runs", savings.parts),
            ("part_bytes", "Size of the parts of all runs", savings.part_bytes),
            ("writes_saved", "Writes of files that batches saved", savings.writes_saved),
            ("bytes_saved", "Bytes that parts and batches saved", savings.bytes_saved),
            ("cost", "What the runs say that they have cost", self.seen.cost),
        ):
            if number is not None:
                yield GaugeMetricFamily(f"holdfast_repository_{name}", f"{text}, as last asked for", number)
        by_status = GaugeMetricFamily(
            "holdfast_repository_checkpoints",
            "Stored checkpoints by status, as last asked for",
            labels=["status"],
        )
        for status, number in self.seen.checkpoints.by_status.items():
            by_status.add_metric([status], number)
        yield by_status


class _StatusCollector(Collector):
    """Reads the spool and the budget at each scrape; reports nothing if they cannot be read."""

    def __init__(self, look: Callable[[], Mapping[str, Any]]) -> None:
        self._look = look

    def collect(self) -> Iterable[Metric]:
        try:
            status = self._look()
        except HoldfastError:
            return
        spool, budget = status["spool"], status["budget"]
        yield GaugeMetricFamily("holdfast_spool_depth", "Checkpoints waiting in the spool", spool["depth"])
        yield GaugeMetricFamily("holdfast_spool_bytes", "Bytes waiting in the spool", spool["bytes"])
        yield GaugeMetricFamily(
            "holdfast_spool_oldest_age_seconds",
            "Age of the oldest checkpoint in the spool",
            spool["oldest_age_s"],
        )
        yield GaugeMetricFamily(
            "holdfast_spool_set_aside", "Checkpoints set aside: kept, but not sent", spool["set_aside"]
        )
        yield GaugeMetricFamily(
            "holdfast_outage",
            "Whether something keeps all checkpoints from GitHub",
            int(status["last_error"] is not None),
        )
        yield GaugeMetricFamily(
            "holdfast_disk_free_bytes", "Free space on the disk of the spool", status["disk_free_bytes"]
        )
        if status.get("drained_by"):
            drainer = GaugeMetricFamily("holdfast_drainer", "Who drains a shared queue", labels=["drainer"])
            drainer.add_metric([status["drained_by"]], 1)
            yield drainer
        left = GaugeMetricFamily(
            "holdfast_budget_left", "Remaining budget, by limit of GitHub", labels=["limit"]
        )
        for name, limit in _LIMITS.items():
            if budget[name] is not None:
                left.add_metric([limit], budget[name])
        yield left
