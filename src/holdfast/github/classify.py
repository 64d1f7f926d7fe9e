"""Turns an answer that is not what we asked for into one of our errors.

githubkit's own classes take a secondary limit without `retry-after` for a plain failure, a missing permission
with an empty budget for a limit, and stumble over a `retry-after` that is a date. So the message decides
first, then the headers, then the status.
"""

import re
from typing import Any

from holdfast.errors import Conflict, GatewayError, Missing, Refused, Throttled, ThrottleKind, Unavailable
from holdfast.github.calls import NO_GRAPHQL, Call
from holdfast.github.reply import Reply

RESET_MARGIN_S = 5.0
SECONDARY_WAIT_S = 60.0

_SECONDARY = re.compile(r"secondary rate|abuse", re.IGNORECASE)
_SECONDARY_PAGES = ("secondary-rate-limits", "#abuse-rate-limits")
_PERMISSION = re.compile(
    r"resource not accessible|not granted|permission|must have|not authorized|saml|single sign-on|\bsso\b"
    r"|archived|read-only|administrative rules|insufficient scope|required scopes",
    re.IGNORECASE,
)
_HEAD_MOVED = re.compile(
    r"is at \S+ but expected|expected to be at|not a fast.?forward|expected branch to point to", re.IGNORECASE
)
_STALE_FILE = re.compile(r"does not match|does not exist as of commit", re.IGNORECASE)
_EXISTS = re.compile(r"\"?sha\"? wasn't supplied|already exists", re.IGNORECASE)
_SECRET = re.compile(r"secret detected|secrets? (were|was) (found|detected)|push protection", re.IGNORECASE)
# The branch takes no direct writes at all; any other rule speaks of what is written. "Could not create file"
# alone is not among these: GitHub says so of protection, and of what lies in the place of a folder.
_PROTECTED = re.compile(
    r"protected (branch|ref)|branch is protected|branch protection|changes must be made|pull request"
    r"|status check|verified signature|merge queue|cannot (create|update|delete) (this|ref)",
    re.IGNORECASE,
)
_OBSTRUCTED = re.compile(r"could not (create|update|delete) file", re.IGNORECASE)
_RULES = re.compile(r"rule violation", re.IGNORECASE)
_EMPTY_REPOSITORY = re.compile(r"repository is empty", re.IGNORECASE)
_TOO_SLOW = re.compile(r"too large|timed out", re.IGNORECASE)
_NO_OBJECT = re.compile(r"does not exist|no commit found", re.IGNORECASE)

_AUTH_ADVICE = "Give Holdfast a valid token in HOLDFAST_TOKEN or HOLDFAST_TOKEN_FILE."
_PROTECTED_ADVICE = (
    "Allow Holdfast to push to it; or set HOLDFAST_BRANCH to another branch, and move what waits with "
    "holdfast spool export and import."
)
_RULES_ADVICE = (
    "Change the repository's rules so that they allow it, and put the checkpoint, which is kept until then, "
    "back with holdfast spool restore."
)
_OBSTRUCTED_ADVICE = (
    "Look at what lies in its place in the repository, and move that away. Only this run waits until then."
)
_PUSH_PROTECTION_ADVICE = (
    "Allow the secret in the repository's push protection settings, and put the checkpoint, which is kept "
    "until then, back with holdfast spool restore."
)
_INVALID_ADVICE = "Change what GitHub's reason names, because the same request will be refused again."
_TOO_LARGE_ADVICE = (
    "Keep large outputs elsewhere and store references to them, because GitHub takes no file so large."
)
_GONE_ADVICE = "Ask GitHub's support why the repository is blocked, or set HOLDFAST_REPO to another one."


def error_for(reply: Reply, call: Call[Any], *, now: float) -> GatewayError:
    """Return what `reply`, which is not a success, means for `call`; `now` is the local time.

    A 503 that names a time to come back is a limit for a read, but unclear for a write: it may have landed.
    """
    if reply.status in (403, 429):
        return _limit_or_permission(reply, call, now)
    if 400 <= reply.status < 500 and reply.status != 408:
        return _clear_refusal(reply, call)
    retry_after_s = reply.retry_after_s(now)
    if reply.status == 503 and retry_after_s is not None and not call.is_mutation:
        return _throttled(reply, call, "secondary", retry_after_s)
    return Unavailable(call.subject, _reason(reply))


def error_for_limit_in_success(reply: Reply, call: Call[Any], *, now: float) -> Throttled | None:
    """Return the secondary limit that GraphQL may announce with status 200, if `reply` is one."""
    return _secondary(reply, call, now) if _is_secondary(reply) else None


def error_for_graphql(
    reply: Reply, call: Call[Any], errors: list[dict[str, Any]], *, now: float
) -> GatewayError:
    """Return what the `errors` of a GraphQL answer mean for `call`; anything unknown is Unavailable."""
    message = "; ".join(str(error.get("message", "")) for error in errors)
    kinds = {str(error.get("type", "")) for error in errors}
    reason = f"GitHub answered {_shorten(message) or 'with an error'}"
    if any(_is_inside_commit(error) for error in errors):
        return Unavailable(call.subject, f"the commit was made, but {reason}")
    if kinds & {"RATE_LIMITED", "RATE_LIMIT"}:
        return _throttled(reply, call, "primary", _until_reset_s(reply, now), resource="graphql")
    if _SECONDARY.search(message):
        return _secondary(reply, call, now)
    if any(_is_unknown_field(error) for error in errors):
        return Missing(NO_GRAPHQL, f"this server's GraphQL lacks what we need: {_shorten(message)}")
    by_message = _by_message(reply, call, message, reason)
    if by_message:
        return by_message
    return _by_kind(kinds, reply, call, reason)


def _by_kind(kinds: set[str], reply: Reply, call: Call[Any], reason: str) -> GatewayError:
    if "STALE_DATA" in kinds:
        return Conflict(call.subject, reason, kind="head_moved")
    if "NOT_FOUND" in kinds:
        return Missing(call.subject, reason)
    if kinds & {"FORBIDDEN", "INSUFFICIENT_SCOPES"}:
        return Refused(call.subject, reason, kind="permission", advice=_permission_advice(reply))
    if "UNPROCESSABLE" in kinds:
        return Refused(call.subject, reason, kind="invalid", advice=_INVALID_ADVICE)
    return Unavailable(call.subject, reason)


def _is_inside_commit(error: dict[str, Any]) -> bool:
    """Whether what failed is not the mutation but reading back what it made."""
    path = error.get("path")
    return isinstance(path, list) and len(path) > 1 and path[0] == "createCommitOnBranch"


def _is_unknown_field(error: dict[str, Any]) -> bool:
    extensions = error.get("extensions")
    return isinstance(extensions, dict) and extensions.get("code") == "undefinedField"


def _limit_or_permission(reply: Reply, call: Call[Any], now: float) -> GatewayError:
    message = _message(reply)
    if _is_secondary(reply):
        return _secondary(reply, call, now)
    if "retry-after" in reply.headers:
        return _told_to_wait(reply, call, now)
    by_message = _by_message(reply, call, message, _reason(reply))
    if by_message:
        return by_message
    if not _PERMISSION.search(message) and (_has_no_calls_left(reply) or "rate limit" in message.lower()):
        return _throttled(reply, call, "primary", _until_reset_s(reply, now))
    return Refused(call.subject, _reason(reply), kind="permission", advice=_permission_advice(reply))


def _clear_refusal(reply: Reply, call: Call[Any]) -> GatewayError:
    message, reason, path = _message(reply), _reason(reply), call.subject
    if reply.status == 401:
        return Refused(path, reason, kind="auth", advice=_AUTH_ADVICE)
    if _EMPTY_REPOSITORY.search(message):
        return Conflict(path, reason, kind="exists") if call.is_mutation else Missing(path, reason)
    by_message = _by_message(reply, call, message, reason)
    if by_message:
        return by_message
    if reply.status == 404 or (reply.status == 422 and _NO_OBJECT.search(message)):
        return Missing(path, reason)
    if reply.status == 409:
        return Conflict(path, reason, kind="head_moved")
    if reply.status == 413:
        return Refused(path, reason, kind="invalid", advice=_TOO_LARGE_ADVICE)
    if reply.status in (410, 451):
        return Refused(path, reason, kind="not_found_or_no_access", advice=_GONE_ADVICE)
    # Without its reason a refusal is unclear: most often the file exists already, by an earlier write.
    if reply.status == 422 and (_TOO_SLOW.search(message) or not reply.members()):
        return Unavailable(path, reason)
    return Refused(path, reason, kind="invalid", advice=_INVALID_ADVICE)


def _by_message(reply: Reply, call: Call[Any], message: str, reason: str) -> GatewayError | None:
    """Return what the message alone decides: GitHub sends these with several statuses."""
    path = call.subject
    if _HEAD_MOVED.search(message):
        return Conflict(path, reason, kind="head_moved")
    if _SECRET.search(message) or _has_secret_scanning(reply):
        return Refused(path, reason, kind="secret_detected", advice=_PUSH_PROTECTION_ADVICE)
    if _PROTECTED.search(message):
        return Refused(path, reason, kind="protected_branch", advice=_PROTECTED_ADVICE)
    if _RULES.search(message):
        return Refused(path, reason, kind="rules", advice=_RULES_ADVICE)
    if _OBSTRUCTED.search(message):
        return Refused(path, reason, kind="obstructed", advice=_OBSTRUCTED_ADVICE)
    if _EXISTS.search(message):
        return Conflict(path, reason, kind="exists")
    if reply.status != 422 and _STALE_FILE.search(message):
        return Conflict(path, reason, kind="stale_file")
    return None


def _has_secret_scanning(reply: Reply) -> bool:
    metadata = reply.members().get("metadata")
    return isinstance(metadata, dict) and bool(metadata.get("secret_scanning"))


def _is_secondary(reply: Reply) -> bool:
    page = str(reply.members().get("documentation_url", ""))
    return bool(_SECONDARY.search(_message(reply))) or page.endswith(_SECONDARY_PAGES)


def _secondary(reply: Reply, call: Call[Any], now: float) -> Throttled:
    wait_s = reply.retry_after_s(now)
    if wait_s is None:
        reset_s = _until_reset_s(reply, now) if _has_no_calls_left(reply) else 0.0
        wait_s = max(SECONDARY_WAIT_S, reset_s)
    return _throttled(reply, call, "secondary", wait_s)


def _told_to_wait(reply: Reply, call: Call[Any], now: float) -> Throttled:
    wait_s = reply.retry_after_s(now)
    if wait_s is None:
        wait_s = SECONDARY_WAIT_S
    if _has_no_calls_left(reply):
        return _throttled(reply, call, "primary", max(wait_s, _until_reset_s(reply, now)))
    return _throttled(reply, call, "secondary", wait_s)


def _throttled(
    reply: Reply, call: Call[Any], kind: ThrottleKind, wait_s: float, *, resource: str | None = None
) -> Throttled:
    named = resource or reply.headers.get("x-ratelimit-resource") or call.resource
    return Throttled(call.subject, _reason(reply), kind=kind, retry_after_s=wait_s, resource=named)


def _has_no_calls_left(reply: Reply) -> bool:
    return reply.headers.get("x-ratelimit-remaining", "").strip() == "0"


def _until_reset_s(reply: Reply, now: float) -> float:
    """Return the wait until the limit is lifted, by the server's clock: ours may be wrong."""
    reset = reply.headers.get("x-ratelimit-reset", "").strip()
    if not reset.isdecimal():
        return SECONDARY_WAIT_S
    return max(0.0, float(reset) - reply.sent_at(otherwise=now)) + RESET_MARGIN_S


def _permission_advice(reply: Reply) -> str:
    asked = reply.headers.get("x-accepted-github-permissions", "").strip()
    named = f" (GitHub asks for {asked})" if asked else ""
    return f"Give the token the permission contents: write on this repository{named}."


def _message(reply: Reply) -> str:
    members = reply.members()
    parts = [members.get("message")]
    errors = members.get("errors")
    if isinstance(errors, list):
        parts += [error.get("message") if isinstance(error, dict) else error for error in errors]
    return "; ".join(part for part in parts if isinstance(part, str))


def _reason(reply: Reply) -> str:
    message = _shorten(_message(reply))
    return f"GitHub answered {reply.status}: {message}" if message else f"GitHub answered {reply.status}"


def _shorten(message: str) -> str:
    line = " ".join(message.split()).rstrip(".")
    return line if len(line) <= 300 else f"{line[:299]}…"
