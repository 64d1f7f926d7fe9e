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
from holdfast.logs import log
from holdfast.sidecar.access import Access
from holdfast.sidecar.bodies import check_headers
from holdfast.sidecar.group_commit import Outcome
from holdfast.sidecar.guard import Header, common_headers, request_id_of
from holdfast.sidecar.service import Service
from holdfast.sidecar.submitting import ADDRESS, CHECKED_AT_ONCE_BYTES, count_failure, write_receipt
from holdfast.tracing import traces

OnStored = Callable[[bytes | Exception], None]
"""Called with the rest of a 202, after its status line and the server's own headers; or with the error that
the usual way is to report."""

# A head as clients send it has a few hundred bytes.
MOST_HEAD_BYTES = 1024
MOST_KNOWN_HEADS = 2000

_BEFORE, _AFTER = ADDRESS.split("{run_id}")
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ?([0-9]{1,9})(?=\r\n)")
# What is another one in each request: a head that has it would only crowd out those that come again.
_UNIQUE_HEADERS = (b"x-request-id", b"traceparent")


class KnownHead(NamedTuple):
    """What counts of a request's head that has passed every check, whatever the length of its body."""

    run_id: str
    authorization: Mapping[bytes, bytes]
    """The header of that name, if there is one."""


class KnownRequest(NamedTuple):
    """A whole request that was not parsed, because its head is known."""

    head: KnownHead
    body: bytes


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

    def take(self, scope: Mapping[str, Any], body: bytes, on_stored: OnStored, *, whole: bytes = b"") -> bool:
        """Take a checkpoint in, and have `on_stored` called once it is on disk; False if it is not for here.

        `whole` is the request as it came, if it came as one and its connection is kept.
        """
        headers = dict(scope["headers"])
        head = self._understand(scope, headers, body)
        if head is None or not self._take_in(head.run_id, body, request_id_of(headers), on_stored):
            return False
        if not any(name in headers for name in _UNIQUE_HEADERS):
            self._remember(whole, head)
        return True

    def find_known(self, arrived: bytes) -> KnownRequest | None:
        """Return what arrived as a request, if it is one, whole, whose head is known; None if not."""
        split = _split(arrived)
        head = self._known.get(split[0]) if split else None
        return KnownRequest(head, arrived[split[1] :]) if split and head else None

    def take_known(self, request: KnownRequest, on_stored: OnStored) -> bool:
        """Do what `take` does for a request whose head is known; False leaves it to be parsed."""
        head, body = request
        # Nothing else about a head can change its meaning: its token may be replaced, or a larger body come.
        may_pass = len(body) <= self._most_bytes and self._access.is_known(ADDRESS, head.authorization)
        return (
            may_pass and not traces.is_on and self._take_in(head.run_id, body, request_id_of({}), on_stored)
        )

    def note_untold(self, failure: Exception) -> None:
        """Count and log what could not be stored, where nobody is there any more to be told of it."""
        count_failure(self._service.metrics, failure)
        log.warning("checkpoint_not_stored", cause=str(failure))

    def _understand(
        self, scope: Mapping[str, Any], headers: dict[bytes, bytes], body: bytes
    ) -> KnownHead | None:
        """Return the head of a request that may pass; None for one that needs a closer look, or a refusal."""
        fields: Sequence[Header] = scope["headers"]
        if len(body) > self._most_bytes or b"idempotency-key" in headers:
            return None
        try:
            self._access.check(scope["path"], [value for name, value in fields if name == b"host"], headers)
            check_headers(headers, limit_bytes=self._service.bodies.limit_bytes)
            run_id = parse_run_id(scope["path"][len(_BEFORE) : -len(_AFTER)])
        except Exception:  # the usual way comes to the same, and has words for it
            return None
        return KnownHead(run_id, {name: headers[name] for name in (b"authorization",) if name in headers})

    def _remember(self, whole: bytes, head: KnownHead) -> None:
        if split := _split(whole):
            if len(self._known) >= MOST_KNOWN_HEADS:
                del self._known[next(iter(self._known))]
            self._known[split[0]] = head

    def _take_in(self, run_id: str, body: bytes, request_id: str, on_stored: OnStored) -> bool:
        began = time.perf_counter()
        if self._service.is_stopping:
            return False
        try:
            draft = self._service.holdfast.draft(body, run_id=run_id)
        except Exception:  # the usual way comes to the same, and has words for it
            return False
        trigger, size_bytes = draft.trigger.value, len(body)

        def settle(outcome: Outcome) -> None:
            if not isinstance(outcome, Receipt):
                on_stored(outcome)
                return
            try:
                seconds = time.perf_counter() - began
                self._service.metrics.checkpoint_accepted(trigger, seconds=seconds, size_bytes=size_bytes)
                self._answered.inc()
                rest = _write(outcome, request_id)
            except Exception as error:  # whoever waits is told, whatever it is
                on_stored(error)
            else:
                on_stored(rest)

        self._service.intake.hand_in(draft, settle)
        return True


def _split(arrived: bytes) -> tuple[bytes, int] | None:
    """Return the head of a request without the length of its body, and where that begins; None unless whole.

    >>> _split(b"POST / HTTP/1.1\\r\\nContent-Length: 2\\r\\n\\r\\n{}")
    (b'POST / HTTP/1.1\\r\\nContent-Length: ', 38)
    """
    end = arrived.find(_END_OF_HEAD, 0, MOST_HEAD_BYTES)
    length = _LENGTH.search(arrived, 0, end + 2) if end > 0 else None
    start = end + len(_END_OF_HEAD)
    if length is None or len(arrived) - start != int(length[1]):
        return None
    return arrived[: length.start(1)] + arrived[length.end(1) : end], start


def _write(receipt: Receipt, request_id: str) -> bytes:
    content, describing = write_receipt(receipt)
    lines = b"".join(b"%b: %b\r\n" % header for header in (*describing, *common_headers(request_id)))
    return b"%b\r\n%b" % (lines, content)
