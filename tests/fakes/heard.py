"""Log events that other threads write: what is logged after an answer can be awaited."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from structlog.contextvars import merge_contextvars

LONGEST_S = 60


class HeardEvents:
    """A structlog processor that keeps every event, and lets none through."""

    def __init__(self) -> None:
        self._events: list[dict[str, Any]] = []
        self._news = threading.Condition()

    def __call__(self, _logger: Any, _method: str, event: Any) -> Any:
        with self._news:
            self._events.append(dict(event))
            self._news.notify_all()
        raise structlog.DropEvent

    def names(self) -> set[str]:
        """Return the names of all events so far."""
        with self._news:
            return {event["event"] for event in self._events}

    def wait_for(self, name: str, **fields: object) -> dict[str, Any]:
        """Return the first event with this name and these fields, as soon as there is one."""
        wanted = {"event": name, **fields}.items()
        with self._news:
            found = self._news.wait_for(
                lambda: [event for event in self._events if wanted <= event.items()], LONGEST_S
            )
            assert found, f"no {name} with {fields} among {self._events}"
            return found[0]


@contextmanager
def heard_events() -> Iterator[HeardEvents]:
    """Hear what is logged, by whatever thread, until the context ends."""
    heard = HeardEvents()
    processors = structlog.get_config()["processors"]
    before = processors[:]
    # In one go: structlog's own capture_logs empties the list first, and a thread may log just then.
    processors[:] = [merge_contextvars, heard]
    try:
        yield heard
    finally:
        processors[:] = before
