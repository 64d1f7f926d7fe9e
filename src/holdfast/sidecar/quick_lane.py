"""The quick lane: a checkpoint whose request has nothing unusual is taken in right where it arrives.

A task, two layers of receiving and sending, a router and the guard take as long as all else about a
checkpoint of 5 KB (docs/design.md has the figures). What they check for is checked here, too, by the same
functions. What is unusual in any way is left to them, so that one place says what is wrong.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.format.ids import parse_run_id
from holdfast.format.receipt import Receipt
from holdfast.sidecar.access import Access
from holdfast.sidecar.bodies import check_headers
from holdfast.sidecar.group_commit import Outcome
from holdfast.sidecar.guard import SAFE_HEADERS, request_id_of
from holdfast.sidecar.service import Service
from holdfast.sidecar.submitting import ADDRESS, CHECKED_AT_ONCE_BYTES, FAILURE, write_receipt
from holdfast.tracing import traces

Headers = list[tuple[bytes, bytes]]
Answer = Callable[[tuple[bytes, Headers] | None], None]
"""Told the body and the headers of a 202; None if the request is to go the way of all others."""

_BEFORE, _AFTER = ADDRESS.split("{run_id}")


class QuickLane:
    """Takes checkpoints in for the connections of one sidecar, in its event loop."""

    def __init__(self, service: Service, access: Access) -> None:
        self._service = service
        self._access = access
        self._is_debugging = service.assembly.settings.log_level == "debug"
        self._answered = service.metrics.http_requests.labels("POST", ADDRESS, 202)

    def is_open_to(self, scope: Mapping[str, Any]) -> bool:
        """Whether the head of a request has nothing unusual at first sight."""
        path = scope["path"]
        return (
            scope["method"] == "POST"
            and path.startswith(_BEFORE)
            and path.endswith(_AFTER)
            and not scope["query_string"]
            and b"%" not in scope["raw_path"]
            and not (self._is_debugging or traces.is_on)
        )

    def take(self, scope: dict[str, Any], body: bytes, answer: Answer) -> bool:
        """Take a checkpoint in, and have `answer` called once it is on disk; False if it is not for here."""
        began = time.perf_counter()
        service = self._service
        headers: dict[bytes, bytes] = dict(scope["headers"])
        limit_bytes = service.bodies.limit_bytes
        is_unusual = len(body) > min(CHECKED_AT_ONCE_BYTES, limit_bytes) or b"idempotency-key" in headers
        if is_unusual or service.is_stopping:
            return False
        try:
            hosts = [value for name, value in scope["headers"] if name == b"host"]
            self._access.check(scope["path"], hosts, headers)
            check_headers(headers, limit_bytes=limit_bytes)
            run_id = parse_run_id(scope["path"][len(_BEFORE) : -len(_AFTER)])
            draft = service.holdfast.draft(body, run_id=run_id)
        except Exception:  # the usual way comes to the same, and has words for it
            return False
        trigger, size_bytes = draft.trigger.value, len(body)

        def settle(outcome: Outcome) -> None:
            if not isinstance(outcome, Receipt):
                scope[FAILURE] = outcome
                answer(None)
                return
            seconds = time.perf_counter() - began
            service.metrics.checkpoint_accepted(trigger, seconds=seconds, size_bytes=size_bytes)
            self._answered.inc()
            content, describing = write_receipt(outcome)
            identity = (b"x-request-id", request_id_of(headers).encode())
            answer((content, [*describing, identity, *SAFE_HEADERS]))

        service.intake.hand_in(draft, settle)
        return True
