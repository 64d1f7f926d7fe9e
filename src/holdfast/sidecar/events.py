"""`GET /v1/events`: what happens, as server-sent events, for pages and programs that follow along.

An event is encoded once, however many follow. Who was away goes on where it stopped, as long as that is
among the last KEPT events; else it is told that it has missed some.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from itertools import takewhile
from random import SystemRandom
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from holdfast.sidecar.problems import invalid, unavailable

KEPT = 1000
HEARTBEAT_S = 15.0
# Under load many events become one piece of text: each follower costs a few writes a second, not thousands.
# Many of them cost little more than so many together, and not at the same moment: savers would have to wait.
# No pause is so long that more would come than we keep, or that our end is not heard in time.
SHORTEST_GATHER_S, LONGEST_GATHER_S = 0.25, 0.75
MOST_PIECES_A_SECOND = 100
MOST_FOLLOWERS = 256


class EventFeed:
    """The last events, in order, and whoever waits for the next one."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        # Numbers go on over a restart, so that nobody takes an old one for a new one.
        self._last_id = int(now() * 1000)
        self._events: deque[tuple[int, bytes]] = deque(maxlen=KEPT)
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._is_told = False
        self.followers = 0
        self.is_ended = False

    def start(self) -> None:
        """Begin to wake followers; to be called where the event loop runs."""
        self._loop = asyncio.get_running_loop()

    def publish(self, kind: str, data: Mapping[str, Any]) -> None:
        """Tell of something, from any thread; this returns at once."""
        with self._lock:
            self._last_id += 1
            text = b"id: %d\nevent: %b\ndata: %b\n\n" % (self._last_id, kind.encode(), orjson.dumps(data))
            self._events.append((self._last_id, text))
            is_told, self._is_told = self._is_told, self.followers > 0
        if self.followers and not is_told:
            self._wake()

    def end(self) -> None:
        """Let every follower come to its end."""
        self.is_ended = True
        self._wake()

    def since(self, last_id: int | None) -> tuple[int, bytes]:
        """Return the newest number, and all that came after `last_id`; nothing for None."""
        with self._lock:
            newest = self._last_id
            if last_id is None or last_id >= newest:
                return newest, b""
            kept = [text for _, text in takewhile(lambda event: event[0] > last_id, reversed(self._events))]
            has_missed = not self._events or self._events[0][0] > last_id + 1
        missed = b"event: missed\ndata: {}\n\n" if has_missed else b""
        return newest, missed + b"".join(reversed(kept))

    def check_followers(self) -> None:
        """Have every follower asked again whether it may stay, from any thread."""
        self._wake()

    async def follow(
        self, last_id: int | None, may_stay: Callable[[], bool] = lambda: True
    ) -> AsyncGenerator[bytes, None]:
        """Yield what happens from `last_id` on, and now and then a comment that shows that we are there."""
        self.followers += 1
        try:
            yield b"retry: 3000\n\n"
            while not self.is_ended and may_stay():
                last_id, text = self.since(last_id)
                if text:
                    yield text
                    await self._gather()
                elif not await self._wait(HEARTBEAT_S):
                    yield b": still here\n\n"
        finally:
            self.followers -= 1

    async def _gather(self) -> None:
        """Let more events gather, unless we are about to end."""
        if not self.is_ended:
            wanted_s = self.followers / MOST_PIECES_A_SECOND
            pause_s = min(LONGEST_GATHER_S, max(SHORTEST_GATHER_S, wanted_s))
            await asyncio.sleep(pause_s * SystemRandom().uniform(0.5, 1.25))

    async def _wait(self, seconds: float) -> bool:
        """Whether there is news before the time is over."""
        self._is_told = False
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
                return True
        return False

    def _wake(self) -> None:
        if self._loop is not None and not self._loop.is_closed():
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._pulse)

    def _pulse(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()


class EventRoutes:
    """Answers those who follow along."""

    def __init__(self, feed: EventFeed, may_follow: Callable[[str, dict[bytes, bytes]], bool]) -> None:
        self._feed = feed
        self._may_follow = may_follow

    def routes(self) -> list[Route]:
        """Return the route."""
        return [Route("/v1/events", self.follow, methods=["GET"])]

    async def follow(self, request: Request) -> Response:
        """Answer with events, for as long as the caller stays, and may."""
        path, headers = request.url.path, dict(request.scope["headers"])
        if self._feed.followers >= MOST_FOLLOWERS:
            raise unavailable("too_many_followers", f"{MOST_FOLLOWERS} follow already; try again later.")
        return StreamingResponse(
            self._feed.follow(_last_id(request), lambda: self._may_follow(path, headers)),
            media_type="text/event-stream",
            headers={"X-Accel-Buffering": "no"},
        )


def _last_id(request: Request) -> int | None:
    text = request.headers.get("last-event-id", "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 20):
        raise invalid("Last-Event-ID", "use the id of an event of this feed")
    return int(text) if text else None
