"""What goes over the wire, as plain values: requests, answers, and refusals that become answers."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, unquote, urlsplit

JsonObject = dict[str, Any]
Ending = Literal["whole", "truncated", "cut"]

DOCUMENTATION = "https://docs.github.com/rest"
JSON_TYPE = "application/json; charset=utf-8"


@dataclass(frozen=True)
class Request:
    """One HTTP request; header names are lower case, `path` is as sent (still percent-encoded)."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def from_target(
        cls, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> "Request":
        """Build a request from a request line's target, such as `/user?page=2`.

        >>> Request.from_target("get", "/user?page=2").query
        {'page': '2'}
        """
        parts = urlsplit(target) if not target.startswith("//") else urlsplit(f"http://host{target}")
        lowered = {name.lower(): value for name, value in (headers or {}).items()}
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        return cls(method.upper(), parts.path or "/", query, lowered, body)

    @property
    def decoded_path(self) -> str:
        """The path with percent-encoding undone."""
        return unquote(self.path, errors="surrogateescape")

    @property
    def target(self) -> str:
        """The path with its query, as a journal shows it."""
        if not self.query:
            return self.path
        return self.path + "?" + "&".join(f"{quote(k)}={quote(v)}" for k, v in self.query.items())

    @property
    def base_url(self) -> str:
        """Where this server was reached, for links in answers."""
        return f"http://{self.headers.get('host', '127.0.0.1')}"

    @property
    def accept(self) -> str:
        """The media types that the caller asked for."""
        return self.headers.get("accept", "*/*")

    def json_object(self) -> JsonObject:
        """Return the body as a JSON object, or refuse the request as GitHub does."""
        if not self.body:
            return {}
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            raise Refusal(400, "Problems parsing JSON") from None
        if not isinstance(value, dict):
            raise Refusal(400, "Body should be a JSON object")
        return value


@dataclass(frozen=True)
class Answer:
    """One HTTP answer, and how its connection ends.

    `cut` sends nothing at all; `truncated` announces the whole body, sends half of it and closes. The
    answer is held back for `delay_s`; `declared_length` replaces the true Content-Length.
    """

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    ending: Ending = "whole"
    delay_s: float = 0.0
    declared_length: int | None = None

    @property
    def sent_body(self) -> bytes:
        """The bytes of the body that really leave the server."""
        if self.ending == "cut":
            return b""
        return self.body[: len(self.body) // 2] if self.ending == "truncated" else self.body

    @property
    def content_length(self) -> int:
        """The length that the answer claims to have."""
        return len(self.body) if self.declared_length is None else self.declared_length

    def with_headers(self, added: Mapping[str, str]) -> "Answer":
        """Return this answer with more headers; those it has already win."""
        return replace(self, headers={**added, **self.headers})

    def json(self) -> Any:
        """Return the body as a JSON value."""
        return json.loads(self.body)


class Refusal(Exception):
    """A request that ends with an error answer; raised anywhere below the router."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        documentation: str = DOCUMENTATION,
        extra: JsonObject | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.documentation = documentation
        self.extra = extra or {}
        self.headers = headers or {}

    def answer(self) -> Answer:
        """Return the error as GitHub words it; `status` is a string there."""
        body = {
            "message": self.message,
            **self.extra,
            "documentation_url": self.documentation,
            "status": str(self.status),
        }
        return json_answer(body, self.status, self.headers)


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Return `value` as a JSON answer."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Answer(
        status, body.encode("utf-8", "surrogatepass"), {"content-type": JSON_TYPE, **(headers or {})}
    )


def not_found(message: str = "Not Found") -> Refusal:
    """Return the refusal for what is not there, or may not be seen."""
    return Refusal(404, message)


def unsupplied(*names: str) -> Refusal:
    """Return the refusal for fields that were left out.

    >>> unsupplied("sha").message
    'Invalid request.\\n\\n"sha" wasn\\'t supplied.'
    """
    verb = "wasn't" if len(names) == 1 else "weren't"
    return Refusal(
        422, "Invalid request.\n\n" + ", ".join(f'"{name}"' for name in names) + f" {verb} supplied."
    )


def wrong_type(name: str, value: object, expected: str) -> Refusal:
    """Return the refusal for a field of another type than `expected`."""
    shown = "nil" if value is None else json.dumps(value)[:100]
    return Refusal(422, f"Invalid request.\n\nFor 'properties/{name}', {shown} is not {expected}.")
