"""Errors as `application/problem+json` (RFC 9457), each with a `detail` that says what to do."""

from collections.abc import Mapping

import orjson
from starlette.responses import Response

from holdfast.errors import (
    CheckpointChanged,
    CheckpointTooLarge,
    Claimed,
    DatabaseAway,
    DecisionRefused,
    Fenced,
    HoldfastError,
    IntegrityFailure,
    InvalidCheckpoint,
    KeyMissing,
    MalformedJson,
    Missing,
    Refused,
    SpoolError,
    SpoolFull,
    SpoolUnwritable,
    SweepBusy,
    Throttled,
    UnknownRun,
)
from holdfast.format.moments import format_moment
from holdfast.presentation.remedies import call_of

FAILURE = "holdfast.failure"
"""Under this name a request has the error of a checkpoint that the quick lane took in and could not store:
the usual way only reports it."""

MEDIA_TYPE = "application/problem+json"
RETRY_SOON_S = 5

TITLES = {
    303: "See other",
    400: "Bad request",
    401: "Not authenticated",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Request timeout",
    409: "Conflict",
    413: "Content too large",
    415: "Unsupported media type",
    422: "Unprocessable content",
    431: "Refused",
    500: "Internal error",
    502: "GitHub did not do what was asked",
    503: "Unavailable",
    507: "Insufficient storage",
}


class Problem(Exception):
    """An answer that is no success. `code` is for programs, `detail` for people, `field` is what is wrong.

    `call` is what a program can ask for next: pages, which have forms for that, leave it out.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        field: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
        call: str = "",
    ) -> None:
        super().__init__(detail)
        self.call = call
        self.status = status
        self.code = code
        self.detail = detail
        self.field = field
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})

    def response(self, request_id: str | None = None) -> Response:
        """Return the whole answer; it has no `request_id` where no request was understood."""
        document = {
            "type": f"urn:holdfast:problem:{self.code}",
            "title": TITLES[self.status],
            "status": self.status,
            "code": self.code,
            "detail": f"{self.detail}; {self.call}" if self.call else self.detail,
            **({"field": self.field} if self.field else {}),
            **self.extra,
            **({"request_id": request_id} if request_id else {}),
        }
        return Response(orjson.dumps(document), self.status, headers=self.headers, media_type=MEDIA_TYPE)


class LostForm(Problem):
    """The answer to a form that was not carried out: its page shows what was typed."""

    def __init__(self, status: int, code: str, detail: str, typed: Mapping[str, str] | None = None) -> None:
        super().__init__(status, code, detail)
        self.typed = typed


class Doorway(Problem):
    """The answer to a link on another site: an empty page that leads on to the one that was asked for.

    Another site learns nothing by it and has GitHub asked for nothing. From this page on the way is our own,
    so that the browser sends the session, which it keeps back from links of other sites.
    """

    def __init__(self) -> None:
        super().__init__(200, "doorway", "Open the dashboard.")

    def response(self, _request_id: str | None = None) -> Response:
        return Response(_DOORWAY, 200, headers=_DOORWAY_HEADERS, media_type="text/html; charset=utf-8")


# The empty address is the one that was asked for.
_DOORWAY = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Holdfast</title>
<meta http-equiv="refresh" content="0"></head>
<body><p><a href="">Open the dashboard</a></p></body></html>
"""
_DOORWAY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


def unavailable(code: str, detail: str, *, retry_after_s: float = RETRY_SOON_S) -> Problem:
    """Return the problem of what may work after a while."""
    seconds = max(1, min(3600, round(retry_after_s)))
    return Problem(503, code, detail, headers={"Retry-After": str(seconds)})


def invalid(field: str, detail: str) -> Problem:
    """Return the problem of a value that cannot be used."""
    return Problem(422, "invalid", f"{field}: {detail}", field=field)


def problem_of(error: Exception) -> Problem:
    """Return how an error is answered; one that was not foreseen says nothing of the inside."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, InvalidCheckpoint):
        return _problem_of_checkpoint(error)
    if isinstance(error, HoldfastError):
        return _problem_of_storage(error)
    return Problem(
        500,
        "internal",
        "Something went wrong here; the log of the sidecar has this request_id and the cause.",
    )


def _problem_of_checkpoint(error: InvalidCheckpoint) -> Problem:
    if isinstance(error, CheckpointTooLarge):
        return Problem(413, "too_large", str(error), extra={"limit_bytes": error.limit_bytes})
    if isinstance(error, CheckpointChanged):
        return Problem(409, "checkpoint_changed", str(error), field="checkpoint_id")
    if isinstance(error, MalformedJson):
        return Problem(400, "malformed_json", str(error), field=error.place or None)
    return Problem(422, "invalid", str(error), field=error.place or None)


def _problem_of_storage(error: HoldfastError) -> Problem:
    if isinstance(error, UnknownRun):
        return Problem(404, "unknown", str(error), call=call_of(error))
    if isinstance(error, Claimed):
        extra = {"owner": error.owner, "expires_at": format_moment(error.expires_at)}
        headers = {"Retry-After": str(max(1, round(error.left_s)))}
        return Problem(409, "claimed", str(error), headers=headers, extra=extra)
    if isinstance(error, Fenced):
        return Problem(409, "fenced", str(error), extra={"fence": error.current or None})
    if isinstance(error, DecisionRefused):
        return Problem(409, error.code, str(error), call=call_of(error))
    if isinstance(error, SpoolFull):
        return Problem(507, "spool_full", str(error))
    if isinstance(error, DatabaseAway):
        return unavailable("database_away", str(error))
    if isinstance(error, SpoolUnwritable):
        return Problem(507, "spool_unwritable", str(error))
    if isinstance(error, SpoolError):
        return unavailable("spool_busy", str(error))
    if isinstance(error, SweepBusy):
        return unavailable("cleanup_busy", str(error))
    if isinstance(error, KeyMissing):
        return Problem(409, "key_missing", str(error))
    if isinstance(error, IntegrityFailure):
        return Problem(502, "integrity_failure", f"{error}. Earlier checkpoints of the run may be sound.")
    if isinstance(error, Refused):
        return Problem(502, f"github_{error.kind}", f"{error}. {error.advice}")
    if isinstance(error, Missing):
        return Problem(502, "github_missing", f"{error}. See /v1/status, and holdfast config.")
    retry_after_s = error.retry_after_s if isinstance(error, Throttled) else RETRY_SOON_S
    return unavailable("github_unavailable", f"{error}. Try again later.", retry_after_s=retry_after_s)
