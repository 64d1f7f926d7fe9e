"""`/mcp`: the tools for agents over streamable HTTP. What they need is loaded by the first who asks."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from holdfast.extras import how_to_install
from holdfast.library import Holdfast
from holdfast.sidecar.bodies import check_headers
from holdfast.sidecar.problems import Problem
from holdfast.sidecar.service import Service


class ToolServer(Protocol):
    """Whoever speaks the protocol of agents."""

    def run(self) -> AbstractAsyncContextManager[None]:
        """Be ready to answer for as long as the context lasts."""
        ...

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        ...


LoadTools = Callable[[Holdfast], ToolServer]
"""Returns what answers agents. Raises ModuleNotFoundError where it is not installed."""


class AgentEndpoint:
    """Hands requests to the tools for agents, whole and bounded. There are no streams that stay open."""

    def __init__(self, service: Service, load: LoadTools | None) -> None:
        self._service = service
        self._load = load
        self._starting: asyncio.Task[ToolServer] | None = None
        self._running: asyncio.Task[None] | None = None

    def routes(self) -> list[Route]:
        """Return the route."""
        return [Route("/mcp", self, methods=["POST"])]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        check_headers(headers, limit_bytes=self._service.bodies.limit_bytes)
        body = await self._service.bodies.read(receive)
        tools = await self._tools()
        await tools.answer(scope, _replay(body, receive), send)
        self._service.drainer.wake(is_urgent=False)

    async def _tools(self) -> ToolServer:
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        try:
            return await asyncio.shield(self._starting)
        except ModuleNotFoundError as error:
            self._starting = None
            detail = f"The tools for agents are not installed here: run {how_to_install('mcp')}."
            raise Problem(404, "not_installed", detail) from error

    async def _start(self) -> ToolServer:
        if self._load is None:
            raise ModuleNotFoundError("mcp")
        # Loading takes a second, in which others want their answers.
        tools = await asyncio.to_thread(self._load, self._service.holdfast)
        is_ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(_keep_running(tools, is_ready))
        await is_ready
        return tools


async def _keep_running(tools: ToolServer, is_ready: "asyncio.Future[None]") -> None:
    """Keep the tools ready until the loop ends, in a task of its own as they demand it."""
    async with tools.run():
        is_ready.set_result(None)
        await asyncio.Event().wait()


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return what hands out a body that was read; after that, the connection speaks for itself."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay
