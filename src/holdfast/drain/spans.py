"""The spans of a drain: how long a checkpoint waited, and what was done for it, in the trace of its save."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import orjson

from holdfast.clock import Clock
from holdfast.drain.chunks import Step
from holdfast.errors import HoldfastError
from holdfast.format.checkpoint import TRACE_MEMBER
from holdfast.format.receipt import QueueItem
from holdfast.queue import Queue
from holdfast.tracing import is_traceparent, traces

QUEUE_SPAN = "holdfast.queue"
DRAIN_SPAN = "holdfast.drain"


@contextmanager
def trace_step(step: Step, spool: Queue, clock: Clock) -> Iterator[None]:
    """Span a step that is carried out within this.

    It belongs to the trace of its first checkpoint that has one. Each other trace has a span of the same
    time, with a link to that one: the requests were made for all of them.
    """
    begun_at = clock.now()
    parents = list(_find_parents(step.items, spool))
    for item, parent in parents:
        traces.add(QUEUE_SPAN, item.arrived_at, begun_at, _describe(item), parent=parent)
    first = parents[0][1] if parents else None
    values = {"holdfast.checkpoints": len(step.items)}
    if parents:
        values |= _describe(parents[0][0])  # type: ignore[arg-type]
    with traces.span(DRAIN_SPAN, values, parent=first):
        links = traces.link()
        try:
            yield
        finally:
            ended_at = clock.now()
            for item, parent in parents[1:]:
                traces.add(DRAIN_SPAN, begun_at, ended_at, _describe(item), parent=parent, links=links)


def _find_parents(items: Sequence[QueueItem], spool: Queue) -> Iterator[tuple[QueueItem, str]]:
    """Yield the checkpoints that were saved within a trace, with the span that saved them."""
    for item in items:
        # What cannot be read is found out, and told, by who writes it.
        with suppress(HoldfastError, ValueError, AttributeError):
            parent = orjson.loads(spool.read(item)).get(TRACE_MEMBER)
            if is_traceparent(parent):
                yield item, parent


def _describe(item: QueueItem) -> dict[str, str | int]:
    return {
        "holdfast.run_id": item.run_id,
        "holdfast.checkpoint_id": item.checkpoint_id,
        "holdfast.sequence": item.sequence,
        "holdfast.trigger": item.trigger.value,
    }
