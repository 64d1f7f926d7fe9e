"""The quick lane: a checkpoint whose request has nothing unusual is taken in right where it arrives.

A task, two layers of receiving and sending, a router and the guard take as long as all else about a
checkpoint of 5 KB (docs/design.md has the figures). What they check for is checked here, too, by the same
functions. What is unusual in any way is left to them, so that one place says what is wrong.

A client that keeps its connection sends the same head again and again, but for the length of the body. A head
that was understood once is not parsed a second time.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.format.ids import parse_run_id
from holdfast.format.receipt import Receipt
from holdfast.sidecar.access import Access
from holdfast.sidecar.bodies import check_headers
from holdfast.sidecar.group_commit import Outcome
from holdfast.sidecar.guard import SAFE_HEADERS, request_id_of
from holdfast.sidecar.service import Service
from holdfast.sidecar.submitting import ADDRESS, CHECKED_AT_ONCE_BYTES, write_receipt
from holdfast.tracing import traces

Header = tuple[bytes, bytes]
Answer = Callable[[bytes | Exception], None]
"""Told the end of a 202, from its own headers on; or why there is none, for the usual way to say so."""

# A head as clients send it has a few hundred bytes; what is remembered of all of them stays below 2 MB.
MOST_HEAD_BYTES = 1024
MOST_KNOWN_HEADS = 2000

_BEFORE, _AFTER = ADDRESS.split("{run_id}")
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ?([0-9]{1,9})(?=\r\n)")
_SAFE_LINES = b"".join(b"%b: %b\r\n" % header for header in SAFE_HEADERS)


class KnownHead(NamedTuple):
    """What a request's head says that has passed every check, whatever the length of its body."""

    run_id: str
    headers: dict[bytes, bytes]


class QuickLane:
    """Takes checkpoints in for the connections of one sidecar, in its event loop."""

    def __init__(self, service: Service, access: Access) -> None:
        self._service = service
        self._access = access
        self._is_debugging = service.assembly.settings.log_level == "debug"
        self._answered = service.metrics.http_requests.labels("POST", ADDRESS, 202)
        self._most_bytes = min(CHECKED_AT_ONCE_BYTES, service.bodies.limit_bytes)
        self._known: dict[bytes, KnownHead] = {}

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

    def take(self, scope: Mapping[str, Any], body: bytes, answer: Answer, *, arrived: bytes = b"") -> bool:
        """Take a checkpoint in, and have `answer` called once it is on disk; False if it is not for here.

        `arrived` is the whole request as it came, if it came as one and its connection is kept.
        """
        began = time.perf_counter()
        if self._service.is_stopping:
            return False
        head = self._understand(scope, body)
        if head is None or not self._take_in(head, body, answer, began):
            return False
        if (split := _split(arrived)) and split[1] == body:
            if len(self._known) >= MOST_KNOWN_HEADS:
                self._known.clear()
            self._known[split[0]] = head
        return True

    def take_known(self, arrived: bytes, answer: Answer) -> bool:
        """Do the same for a whole request whose head is known; False leaves it to be parsed."""
        began = time.perf_counter()
        split = _split(arrived)
        head = self._known.get(split[0]) if split else None
        if split is None or head is None or self._service.is_stopping or traces.is_on:
            return False
        body = split[1]
        # Nothing else about a head can change its meaning: a token may be replaced, or a larger body come.
        is_for_here = len(body) <= self._most_bytes and self._access.is_known(ADDRESS, head.headers)
        return is_for_here and self._take_in(head, body, answer, began)

    def _understand(self, scope: Mapping[str, Any], body: bytes) -> KnownHead | None:
        """Return the head of a request that may pass; None for one that needs a closer look, or a refusal."""
        fields: Sequence[Header] = scope["headers"]
        headers = dict(fields)
        if len(body) > self._most_bytes or b"idempotency-key" in headers:
            return None
        try:
            self._access.check(scope["path"], [value for name, value in fields if name == b"host"], headers)
            check_headers(headers, limit_bytes=self._service.bodies.limit_bytes)
            return KnownHead(parse_run_id(scope["path"][len(_BEFORE) : -len(_AFTER)]), headers)
        except Exception:  # the usual way comes to the same, and has words for it
            return None

    def _take_in(self, head: KnownHead, body: bytes, answer: Answer, began: float) -> bool:
        metrics = self._service.metrics
        try:
            draft = self._service.holdfast.draft(body, run_id=head.run_id)
        except Exception:  # likewise
            return False
        trigger, size_bytes = draft.trigger.value, len(body)

        def settle(outcome: Outcome) -> None:
            if not isinstance(outcome, Receipt):
                answer(outcome)
                return
            seconds = time.perf_counter() - began
            metrics.checkpoint_accepted(trigger, seconds=seconds, size_bytes=size_bytes)
            self._answered.inc()
            answer(_write(outcome, request_id_of(head.headers)))

        self._service.intake.hand_in(draft, settle)
        return True


def _split(arrived: bytes) -> tuple[bytes, bytes] | None:
    """Return the head of a request without the length of its body, and the body; None unless it is whole.

    >>> _split(b"POST / HTTP/1.1\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
    (b'POST / HTTP/1.1\\r\\nContent-Length: ', b'{}')
    """
    end = arrived.find(_END_OF_HEAD, 0, MOST_HEAD_BYTES)
    length = _LENGTH.search(arrived, 0, end + 2) if end > 0 else None
    if length is None:
        return None
    body = arrived[end + len(_END_OF_HEAD) :]
    if len(body) != int(length[1]):
        return None
    return arrived[: length.start(1)] + arrived[length.end(1) : end], body


def _write(receipt: Receipt, request_id: str) -> bytes:
    content, describing = write_receipt(receipt)
    lines = b"".join(b"%b: %b\r\n" % header for header in describing)
    return b"%bx-request-id: %b\r\n%b\r\n%b" % (lines, request_id.encode(), _SAFE_LINES, content)
