"""An httpx transport that runs the emulator in the caller's own process, with the caller's own clock."""

import time
from collections.abc import Callable, Iterator

import httpx

from holdfast.emulator.app import Emulator
from holdfast.emulator.exchange import Answer, Request


class EmulatorTransport(httpx.BaseTransport):
    """Answers like a server would, network failures included, without a network or real waiting.

    Closing it leaves the emulator open: clients close the transport they are given.
    """

    def __init__(self, emulator: Emulator, sleep: Callable[[float], None] = time.sleep) -> None:
        self._emulator = emulator
        self._sleep = sleep

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request, or fail as a connection would."""
        target = request.url.raw_path.decode("ascii")
        received = Request.from_target(request.method, target, dict(request.headers), request.read())
        answer = self._emulator.handle(received)
        self._wait(request, answer.delay_s)
        if answer.ending == "cut":
            raise httpx.RemoteProtocolError(
                "Server disconnected without sending a response.", request=request
            )
        headers = {**answer.headers, "content-length": str(answer.content_length)}
        if answer.status in {204, 304}:
            del headers["content-length"]
        return httpx.Response(answer.status, headers=headers, stream=_Body(request, answer), request=request)

    def _wait(self, request: httpx.Request, delay_s: float) -> None:
        if delay_s <= 0:
            return
        limit_s = request.extensions.get("timeout", {}).get("read")
        if limit_s is not None and delay_s > limit_s:
            self._sleep(limit_s)
            raise httpx.ReadTimeout("timed out", request=request)
        self._sleep(delay_s)


class _Body(httpx.SyncByteStream):
    def __init__(self, request: httpx.Request, answer: Answer) -> None:
        self._request = request
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        answer = self._answer
        if self._request.method == "HEAD":
            return
        body = answer.sent_body[: answer.content_length]
        yield body
        if answer.status not in {204, 304} and len(body) < answer.content_length:
            raise httpx.RemoteProtocolError(
                "peer closed connection without sending complete message body "
                f"(received {len(body)} bytes, expected {answer.content_length})",
                request=self._request,
            )
