"""Reading request bodies: what they may be, how large, and how long they may take."""

import asyncio
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Send

from holdfast.jsontext.parse import parse_value
from holdfast.settings import MOST_BYTES
from holdfast.settings.kinds import MEGABYTE
from holdfast.sidecar.problems import Problem, invalid, unavailable

BODY_TIME_S = 60.0
LINGER_S = 10.0
LINGER_BYTES = 256 * MEGABYTE
# What all bodies on their way may hold together: one process serves everyone from one memory.
MOST_IN_FLIGHT_BYTES = 256 * MEGABYTE


class Asked(BaseModel, extra="forbid", frozen=True):
    """What a call with a body of few fields asks for; unknown ones are refused."""


AskedT = TypeVar("AskedT", bound=Asked)


def check_headers(headers: dict[bytes, bytes], *, limit_bytes: int, is_setting: bool = False) -> None:
    """Refuse a body by its headers, before any of it is read. Raises Problem.

    The limit `is_setting` if HOLDFAST_MAX_BODY_BYTES says what it is.
    """
    if headers.get(b"content-encoding", b"identity").strip().lower() != b"identity":
        raise Problem(415, "encoded", "Send the JSON as it is, without Content-Encoding.")
    media_type = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    is_json = media_type == b"application/json" or (
        media_type.startswith(b"application/") and media_type.endswith(b"+json")
    )
    if not is_json:
        raise Problem(415, "not_json", "Send JSON with Content-Type: application/json.")
    length = headers.get(b"content-length", b"0")
    # More digits than this are no length that anyone can send.
    if not length.isdigit() or len(length) > 18:
        raise Problem(400, "bad_length", "Content-Length is not a number of bytes.")
    if int(length) > limit_bytes:
        raise too_large(limit_bytes, is_setting=is_setting)


def too_large(limit_bytes: int, *, is_setting: bool) -> Problem:
    """Return the problem of a body beyond the limit."""
    advice = "keep large outputs elsewhere and store references to them"
    if is_setting and limit_bytes < MOST_BYTES:
        advice += f", or raise HOLDFAST_MAX_BODY_BYTES, up to {MOST_BYTES:,}"
    detail = f"The body is larger than the limit of {limit_bytes:,} bytes; {advice}."
    extra: dict[str, object] = {"limit_bytes": limit_bytes}
    return Problem(413, "too_large", detail, headers={"Connection": "close"}, extra=extra)


@dataclass
class BodyReader:
    """Reads bodies of `limit_bytes` at most, counting what really arrives."""

    limit_bytes: int
    is_setting: bool = False
    time_s: float = BODY_TIME_S
    most_in_flight_bytes: int = MOST_IN_FLIGHT_BYTES
    in_flight_bytes: int = field(default=0, init=False)

    async def read(self, receive: Receive) -> bytes:
        """Return the whole body. Raises Problem, or ClientDisconnect."""
        chunks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self.time_s):
                while True:
                    message = await receive()
                    chunk, is_last = _chunk_of(message)
                    chunks.append(chunk)
                    size += len(chunk)
                    self.in_flight_bytes += len(chunk)
                    self._check(size)
                    if is_last:
                        return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        except TimeoutError:
            raise Problem(
                408,
                "too_slow",
                f"The body did not arrive within {self.time_s:.0f} s; send it again.",
                headers={"Connection": "close"},
            ) from None
        finally:
            self.in_flight_bytes -= size

    def _check(self, size: int) -> None:
        if size > self.limit_bytes:
            raise too_large(self.limit_bytes, is_setting=self.is_setting)
        if self.in_flight_bytes > self.most_in_flight_bytes:
            raise unavailable("busy", "Too many large bodies arrive at once; send it again.", retry_after_s=1)


async def linger(receive: Receive, *, time_s: float = LINGER_S, most_bytes: int = LINGER_BYTES) -> None:
    """Read on and forget, so that a client that is still sending gets to see the answer, not a reset."""
    size = 0
    try:
        async with asyncio.timeout(time_s):
            while size <= most_bytes:
                chunk, is_last = _chunk_of(await receive())
                size += len(chunk)
                if is_last:
                    return
    except (TimeoutError, ClientDisconnect):
        return


def _chunk_of(message: Message) -> tuple[bytes, bool]:
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message.get("body", b""), not message.get("more_body", False)


async def answer_and_linger(
    start: Message, body: bytes, receive: Receive, send: Send, *, lingers: bool
) -> None:
    """Send a whole answer, and only then the end of it: until then the connection stays open.

    Unless it `lingers`, nothing is waited for: a client that waits for "100 Continue" sends nothing more.
    """
    await send(start)
    await send({"type": "http.response.body", "body": body, "more_body": True})
    if lingers:
        await linger(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def read_model(
    bodies: BodyReader, request: Request, model: type[AskedT], nothing: AskedT | None = None
) -> AskedT:
    """Return what the body asks for; `nothing` if there is none and that is allowed."""
    headers = dict(request.scope["headers"])
    is_empty = headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers
    if nothing is not None and is_empty:
        return nothing
    check_headers(headers, limit_bytes=bodies.limit_bytes)
    value = parse_value(await bodies.read(request.receive))
    try:
        return model.model_validate(value)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        name = str(problem["loc"][0]) if problem["loc"] else "body"
        known = ", ".join(model.model_fields)
        raise invalid(name, f"{problem['msg']}; the body may have {known}") from error
