import json
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any

import pytest

from holdfast.errors import Conflict, GatewayError, Missing, Refused, Throttled, Unavailable
from holdfast.github.calls import NO_GRAPHQL, Call, ReadFile, ReadHead, ReadPage
from holdfast.github.classify import error_for, error_for_graphql, error_for_limit_in_success
from holdfast.github.reply import Reply
from holdfast.github.write_calls import CommitFiles, CreateBranch, WriteFile, WriteTree

NOW = 1_800_000_000.0
SHA = "a" * 40
WRITE = WriteFile("runs/a.json", b"{}", "Checkpoint", "checkpoints")
READ = ReadFile("runs/a.json", "checkpoints")
HEAD = ReadHead("checkpoints")
COMMIT = CommitFiles("checkpoints", SHA, "Headline", "", {"runs/a.json": b"{}"})
SNAPSHOT = ReadPage("checkpoints", ("runs/a.json",))

SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
CONTENT_BLOCKED = (
    "You have exceeded a secondary rate limit and have been temporarily blocked from content creation. "
    "Please retry your request again later."
)
PRIMARY = "API rate limit exceeded for user ID 1. If you reach out to GitHub Support, include the request ID."
DENIED = "Resource not accessible by personal access token"
RULES = "Repository rule violations found\n\nChanges must be made through a pull request.\n\n"


def reply(
    status: int, message: str | None = None, headers: dict[str, str] | None = None, **more: Any
) -> Reply:
    body = {
        "message": message,
        "documentation_url": "https://docs.github.com/rest",
        "status": str(status),
        **more,
    }
    return Reply(status, headers or {}, b"" if message is None else json.dumps(body).encode())


@dataclass(frozen=True)
class Limit:
    """One answer with 403 or 429 and the wait that it asks for."""

    name: str
    message: str
    kind: str
    wait_s: float
    headers: dict[str, str] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)


def exhausted(reset_in_s: float, *, server_is_ahead_s: float = 0.0) -> dict[str, str]:
    server_now = NOW + server_is_ahead_s
    return {
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": str(int(server_now + reset_in_s)),
        "date": formatdate(server_now, usegmt=True),
    }


LIMITS = [
    Limit("secondary with retry-after", SECONDARY, "secondary", 17, {"retry-after": "17"}),
    Limit("secondary without retry-after", SECONDARY, "secondary", 60, {"x-ratelimit-remaining": "4312"}),
    Limit("secondary without any header", CONTENT_BLOCKED, "secondary", 60),
    Limit("secondary in upper case", SECONDARY.upper(), "secondary", 60),
    Limit("old wording", "You have triggered an abuse detection mechanism.", "secondary", 60),
    Limit(
        "only the page says secondary",
        "Forbidden",
        "secondary",
        60,
        more={"documentation_url": "https://docs.github.com/x#about-secondary-rate-limits"},
    ),
    Limit(
        "only the old page says secondary",
        "Forbidden",
        "secondary",
        60,
        more={"documentation_url": "https://developer.github.com/v3/#abuse-rate-limits"},
    ),
    Limit(
        "secondary beats an empty budget", SECONDARY, "secondary", 9, {"retry-after": "9", **exhausted(600)}
    ),
    Limit("secondary without retry-after and an empty budget", SECONDARY, "secondary", 605, exhausted(600)),
    Limit("retry-after alone", "Slow down", "secondary", 30, {"retry-after": "30"}),
    Limit("retry-after of a denied call", DENIED, "secondary", 30, {"retry-after": "30"}),
    Limit(
        "retry-after as a date, by the server's clock",
        "Slow down",
        "secondary",
        90,
        {"retry-after": formatdate(NOW + 7290, usegmt=True), "date": formatdate(NOW + 7200, usegmt=True)},
    ),
    Limit(
        "retry-after in the past",
        "Slow down",
        "secondary",
        0,
        {"retry-after": formatdate(NOW - 50, usegmt=True), "date": formatdate(NOW, usegmt=True)},
    ),
    Limit("retry-after that is neither", "Slow down", "secondary", 60, {"retry-after": "soon"}),
    Limit("retry-after and an empty budget", PRIMARY, "primary", 605, {"retry-after": "9", **exhausted(600)}),
    Limit("primary", PRIMARY, "primary", 605, exhausted(600)),
    Limit("primary by the header alone", "Forbidden", "primary", 605, exhausted(600)),
    Limit("primary by the message alone", PRIMARY, "primary", 60, {"x-ratelimit-remaining": "3"}),
    Limit("server two hours ahead", PRIMARY, "primary", 605, exhausted(600, server_is_ahead_s=7200)),
    Limit("server two hours behind", PRIMARY, "primary", 605, exhausted(600, server_is_ahead_s=-7200)),
    Limit("reset in the past", PRIMARY, "primary", 5, exhausted(-30)),
    Limit(
        "no date: our own clock",
        PRIMARY,
        "primary",
        305,
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW + 300))},
    ),
    Limit("no reset", PRIMARY, "primary", 60, {"x-ratelimit-remaining": "0"}),
]


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_limit_is_told_with_its_kind_and_wait(status: int, limit: Limit) -> None:
    error = error_for(reply(status, limit.message, limit.headers, **limit.more), WRITE, now=NOW)

    assert isinstance(error, Throttled)
    assert (error.kind, error.retry_after_s, error.resource) == (limit.kind, limit.wait_s, "core")
    assert error.path == "runs/a.json"


def test_limit_names_the_resource_of_its_header() -> None:
    headers = {"x-ratelimit-resource": "graphql", **exhausted(600)}

    error = error_for(reply(403, PRIMARY, headers), WRITE, now=NOW)

    assert isinstance(error, Throttled)
    assert error.resource == "graphql"


@pytest.mark.parametrize(
    "message",
    [
        DENIED,
        "Resource not accessible by integration",
        "Must have admin rights to Repository.",
        "Resource protected by organization SAML enforcement.",
        "Repository was archived so is read-only.",
        "Request forbidden by administrative rules. Please make sure your request has a User-Agent header",
    ],
)
def test_missing_permission_beats_an_empty_budget(message: str) -> None:
    headers = {"x-accepted-github-permissions": "contents=write", **exhausted(600)}

    error = error_for(reply(403, message, headers), WRITE, now=NOW)

    assert isinstance(error, Refused)
    assert error.kind == "permission"
    assert "contents: write" in error.advice
    assert "contents=write" in error.advice


def test_forbidden_without_a_reason_is_a_missing_permission() -> None:
    error = error_for(reply(403, "Forbidden", {"x-ratelimit-remaining": "4999"}), READ, now=NOW)

    assert isinstance(error, Refused)
    assert error.kind == "permission"
    assert error.advice.count(".") == 1


CONFLICTS = [
    (409, f"is at {SHA} but expected {SHA}", WRITE, "head_moved"),
    (409, f"refs/heads/checkpoints expected to be at {SHA}", WRITE, "head_moved"),
    (409, f"Could not update file: is at {SHA} but expected {SHA}", WRITE, "head_moved"),
    (409, f"runs/a.json does not match {SHA}", WRITE, "stale_file"),
    (409, "Conflict", WRITE, "head_moved"),
    (409, None, WRITE, "head_moved"),
    (422, 'Invalid request.\n\n"sha" wasn\'t supplied.', WRITE, "exists"),
    (422, "Reference already exists", CreateBranch("checkpoints", SHA), "exists"),
    (422, "Update is not a fast forward", WRITE, "head_moved"),
    (409, "Git Repository is empty.", WriteTree({"a": "b"}), "exists"),
]


@pytest.mark.parametrize(("status", "message", "call", "kind"), CONFLICTS)
def test_conflict_is_told_by_its_message(
    status: int, message: str | None, call: Call[Any], kind: str
) -> None:
    error = error_for(reply(status, message), call, now=NOW)

    assert isinstance(error, Conflict)
    assert error.kind == kind


REFUSALS = [
    (401, "Bad credentials", "auth", "HOLDFAST_TOKEN"),
    (401, None, "auth", "HOLDFAST_TOKEN"),
    (409, RULES, "protected_branch", "HOLDFAST_BRANCH"),
    (422, RULES, "protected_branch", "HOLDFAST_BRANCH"),
    (403, RULES, "protected_branch", "HOLDFAST_BRANCH"),
    (
        403,
        "Could not create file: Changes must be made through a pull request.",
        "protected_branch",
        "HOLDFAST_BRANCH",
    ),
    (
        409,
        "Could not update file: 2 required status checks are expected",
        "protected_branch",
        "HOLDFAST_BRANCH",
    ),
    (422, "Could not update file: Protected branch update failed", "protected_branch", "HOLDFAST_BRANCH"),
    (404, "Could not delete file: Required status check", "protected_branch", "HOLDFAST_BRANCH"),
    (422, "Could not create file: checkpoints/r is a file, not a folder.", "obstructed", "this run waits"),
    (409, "Could not update file: it is a submodule", "obstructed", "move that away"),
    (409, "Repository rule violations found\n\nFile path is restricted", "rules", "repository's rules"),
    (409, "Repository rule violations found\n\nSecret detected in content\n", "secret_detected", "secret"),
    (422, "Push protection blocked this commit", "secret_detected", "secret"),
    (400, "Problems parsing JSON", "invalid", "reason"),
    (413, "Payload too big", "invalid", "large"),
    (422, "content is not valid Base64", "invalid", "reason"),
    (422, 'For "sha", "x" does not match /[0-9a-f]{40}/', "invalid", "reason"),
    (405, None, "invalid", "reason"),
    (410, "Repository access blocked", "not_found_or_no_access", "HOLDFAST_REPO"),
    (451, "Repository access blocked", "not_found_or_no_access", "HOLDFAST_REPO"),
]


@pytest.mark.parametrize(("status", "message", "kind", "hint"), REFUSALS)
def test_refusal_says_what_to_do(status: int, message: str | None, kind: str, hint: str) -> None:
    error = error_for(reply(status, message), WRITE, now=NOW)

    assert isinstance(error, Refused)
    assert error.kind == kind
    assert hint in error.advice
    assert error.advice.endswith(".")
    assert error.path == "runs/a.json"


def test_secret_is_recognised_by_its_metadata() -> None:
    metadata = {"secret_scanning": {"bypass_placeholders": [{"placeholder_id": "x", "token_type": "pat"}]}}

    error = error_for(reply(409, "Repository rule violations found", metadata=metadata), WRITE, now=NOW)

    assert isinstance(error, Refused)
    assert error.kind == "secret_detected"


def test_reason_within_the_list_of_errors_counts() -> None:
    errors = [{"resource": "Reference", "message": "Reference already exists"}, "and a bare one"]

    error = error_for(reply(422, "Validation Failed", errors=errors), WRITE, now=NOW)

    assert isinstance(error, Conflict)
    assert "and a bare one" in error.reason


@pytest.mark.parametrize(
    ("status", "message", "call"),
    [
        (404, "Not Found", READ),
        (404, None, READ),
        (404, "This repository is empty.", READ),
        (409, "Git Repository is empty.", HEAD),
        (422, "Object does not exist", CreateBranch("checkpoints", SHA)),
        (422, f"No commit found for SHA: {SHA}", HEAD),
    ],
)
def test_what_is_not_there_is_missing(status: int, message: str | None, call: Call[Any]) -> None:
    error = error_for(reply(status, message), call, now=NOW)

    assert isinstance(error, Missing)
    assert error.path == call.subject


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (500, "Server Error"),
        (502, None),
        (503, "Service unavailable"),
        (504, "We couldn't respond to your request in time."),
        (408, None),
        (304, None),
        (422, "Sorry, your request timed out. It's likely that your input was too large to process."),
    ],
)
def test_no_clear_answer_is_unavailable(status: int, message: str | None) -> None:
    assert type(error_for(reply(status, message), WRITE, now=NOW)) is Unavailable


def test_torn_page_instead_of_json_is_judged_by_its_status() -> None:
    page = Reply(502, {}, b"<html><title>Unicorn!")

    assert error_for(page, WRITE, now=NOW).reason == "GitHub answered 502"


def test_refusal_whose_reason_is_torn_sets_nothing_aside() -> None:
    torn = Reply(422, {}, b'{"message": "Invalid requ')

    assert type(error_for(torn, WRITE, now=NOW)) is Unavailable


def test_named_time_of_a_503_is_waited_for_by_a_read() -> None:
    error = error_for(reply(503, "Maintenance", {"retry-after": "120"}), READ, now=NOW)

    assert isinstance(error, Throttled)
    assert (error.kind, error.retry_after_s) == ("secondary", 120)


def test_write_that_met_a_503_may_have_landed_whatever_time_it_names() -> None:
    assert type(error_for(reply(503, "Maintenance", {"retry-after": "120"}), WRITE, now=NOW)) is Unavailable


def test_reason_is_one_short_line() -> None:
    error = error_for(reply(422, "line one\n\nline two " + "x" * 1000), WRITE, now=NOW)

    assert error.reason.startswith("GitHub answered 422: line one line two")
    assert len(error.reason) < 350


def graphql_error(kind: str | None, message: str, **more: Any) -> dict[str, Any]:
    return {"message": message, **({"type": kind} if kind else {}), **more}


STALE = 'Expected branch to point to "a" but it did not.  Pull and try again.'
ROOT = ["createCommitOnBranch"]

GRAPHQL: list[tuple[dict[str, Any], type[GatewayError], str | None]] = [
    (graphql_error("STALE_DATA", STALE, path=ROOT), Conflict, "head_moved"),
    (graphql_error("STALE_DATA", "Something else", path=ROOT), Conflict, "head_moved"),
    (graphql_error("NOT_FOUND", "Could not resolve to a Repository", path=["repository"]), Missing, None),
    (graphql_error("FORBIDDEN", "Resource not accessible by integration", path=ROOT), Refused, "permission"),
    (graphql_error("INSUFFICIENT_SCOPES", "Your token has not been granted"), Refused, "permission"),
    (graphql_error("UNPROCESSABLE", RULES, path=ROOT), Refused, "protected_branch"),
    (graphql_error("FORBIDDEN", RULES, path=ROOT), Refused, "protected_branch"),
    (graphql_error("UNPROCESSABLE", "Secret detected in content", path=ROOT), Refused, "secret_detected"),
    (graphql_error("UNPROCESSABLE", "A path was given twice", path=ROOT), Refused, "invalid"),
    (
        graphql_error(
            "UNPROCESSABLE", "A path was requested for deletion which does not exist as of commit oid"
        ),
        Conflict,
        "stale_file",
    ),
    (graphql_error("RATE_LIMITED", PRIMARY), Throttled, "primary"),
    (graphql_error("RATE_LIMIT", PRIMARY), Throttled, "primary"),
    (graphql_error(None, SECONDARY), Throttled, "secondary"),
    (graphql_error(None, "Something went wrong while executing your query."), Unavailable, None),
    (graphql_error("SOME_NEW_TYPE", "Who knows"), Unavailable, None),
    (graphql_error("INTERNAL", "Timeout", path=[*ROOT, "commit", "f0"]), Unavailable, None),
    (graphql_error("NOT_FOUND", "No file", path=[*ROOT, "commit", "f0"]), Unavailable, None),
]


@pytest.mark.parametrize(("found", "expected", "kind"), GRAPHQL)
def test_graphql_error_becomes_ours(
    found: dict[str, Any], expected: type[GatewayError], kind: str | None
) -> None:
    error = error_for_graphql(Reply(200, {}, b"{}"), COMMIT, [found], now=NOW)

    assert type(error) is expected
    assert getattr(error, "kind", None) == kind
    assert error.path == "checkpoints"


def test_graphql_limit_waits_for_the_reset_although_calls_seem_to_be_left() -> None:
    headers = exhausted(600) | {"x-ratelimit-remaining": "12"}

    error = error_for_graphql(
        Reply(200, headers, b"{}"), SNAPSHOT, [graphql_error("RATE_LIMITED", PRIMARY)], now=NOW
    )

    assert isinstance(error, Throttled)
    assert (error.retry_after_s, error.resource) == (605, "graphql")


def test_server_whose_graphql_lacks_the_field_counts_as_without_graphql() -> None:
    found = graphql_error(
        None,
        "Field 'createCommitOnBranch' doesn't exist on type 'Mutation'",
        path=["mutation", "createCommitOnBranch"],
        extensions={"code": "undefinedField"},
    )

    error = error_for_graphql(Reply(200, {}, b"{}"), COMMIT, [found], now=NOW)

    assert isinstance(error, Missing)
    assert error.path == NO_GRAPHQL


def test_limit_announced_with_success_is_a_limit() -> None:
    error = error_for_limit_in_success(reply(200, SECONDARY, {"retry-after": "8"}), COMMIT, now=NOW)

    assert error is not None
    assert (error.kind, error.retry_after_s, error.resource) == ("secondary", 8, "graphql")


def test_success_that_speaks_of_no_limit_is_none() -> None:
    assert error_for_limit_in_success(Reply(200, {}, b"[]"), COMMIT, now=NOW) is None


def test_a_refusal_and_its_advice_are_two_sentences() -> None:
    error = error_for(reply(409, RULES), WRITE, now=NOW)

    assert isinstance(error, Refused)
    assert f"{error}. {error.advice}" == (
        "runs/a.json: GitHub answered 409: Repository rule violations found Changes must be made through a "
        "pull request. Allow Holdfast to push to it; or set HOLDFAST_BRANCH to another branch, and move what "
        "waits with holdfast spool export and import."
    )


def test_what_is_refused_for_a_secret_can_be_put_back() -> None:
    error = error_for(reply(409, "Secret detected in content"), WRITE, now=NOW)

    assert isinstance(error, Refused)
    assert "kept until then" in error.advice
    assert "holdfast spool restore" in error.advice
