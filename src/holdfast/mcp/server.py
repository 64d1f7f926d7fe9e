"""The MCP server: the tools for agents, runs and checkpoints as resources, and a prompt."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from anyio.to_thread import run_sync
from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import ValidationError

from holdfast.errors import HoldfastError
from holdfast.library import Holdfast
from holdfast.mcp.tools import AgentTools
from holdfast.presentation.exits import describe
from holdfast.version import __version__

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from starlette.types import Receive, Scope, Send

_INSTRUCTIONS = (
    "Holdfast keeps the progress of long work durably. Continue earlier work with resume_run (list_runs "
    "finds its name), call save_checkpoint after each finished step, and complete_run at the end."
)
_JSON = "application/json"
_READS = ToolAnnotations(readOnlyHint=True, openWorldHint=False)
_ADDS = ToolAnnotations(readOnlyHint=False, destructiveHint=False, openWorldHint=False)


class _StrictServer(FastMCP):
    """Refuses arguments that a tool does not take, which would be passed over else: an agent must be told.

    It says what is wrong with an argument in a sentence, without what only a programmer of the server needs.
    """

    def __init__(self) -> None:
        super().__init__("holdfast", instructions=_INSTRUCTIONS, log_level="WARNING")
        self._mcp_server.version = __version__  # FastMCP takes none, and tells its own

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        known = {tool.name: list(tool.inputSchema["properties"]) for tool in await self.list_tools()}
        unknown = [each for each in arguments if each not in known.get(name, arguments)]
        if unknown:
            raise ToolError(f"{name} takes no {', '.join(unknown)}; it takes {', '.join(known[name])}")
        try:
            return await super().call_tool(name, arguments)
        except ToolError as error:
            raise _in_plain_words(error) from error


def _in_plain_words(error: ToolError) -> ToolError:
    cause = error.__cause__
    if isinstance(cause, ToolError):
        return cause
    if not isinstance(cause, ValidationError):
        return error
    wrong = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in cause.errors())
    return ToolError("; ".join(wrong))


def build_server(holdfast: Holdfast) -> FastMCP:
    """Return a server whose tools work on `holdfast`."""
    tools = AgentTools(holdfast)
    server = _StrictServer()
    every: dict[Callable[..., str], ToolAnnotations] = {
        tools.save_checkpoint: _ADDS,
        tools.resume_run: _READS,
        tools.list_runs: _READS,
        tools.show_checkpoint: _READS,
        tools.diff_checkpoints: _READS,
        tools.rollback_run: _ADDS,
        tools.complete_run: _ADDS,
    }
    for tool, annotations in every.items():
        server.add_tool(_in_thread(tool), annotations=annotations, structured_output=False)
    _add_resources(server, tools)
    _add_prompt(server)
    return server


def _add_resources(server: FastMCP, tools: AgentTools) -> None:
    @server.resource("holdfast://runs", name="runs", description="The newest runs", mime_type=_JSON)
    async def runs() -> str:
        return await run_sync(tools.list_runs)

    @server.resource(
        "holdfast://runs/{run_id}", name="run", description="The checkpoints of a run", mime_type=_JSON
    )
    async def run(run_id: str) -> str:
        return await run_sync(tools.list_checkpoints, run_id)

    @server.resource(
        "holdfast://runs/{run_id}/checkpoints/{at}",
        name="checkpoint",
        description="A whole checkpoint, by its number or id",
        mime_type=_JSON,
    )
    async def checkpoint(run_id: str, at: str) -> str:
        return (await run_sync(tools.holdfast.checkpoint, run_id, at)).content.decode()


def _add_prompt(server: FastMCP) -> None:
    @server.prompt(name="resume_where_we_stopped", title="Resume where we stopped")
    def resume_where_we_stopped(run_id: str = "") -> str:
        """Go on with earlier work from its newest checkpoint."""
        find = (
            f"Call resume_run for the run {run_id}."
            if run_id
            else "Call list_runs with resumable=true, choose the run that fits (ask me if several do), "
            "then call resume_run for it."
        )
        return (
            f"{find} Tell me in two sentences what is done and what is left, and any warning. If it needs "
            "a review, stop and ask me. Otherwise go on at resume_at, do not repeat what is completed, and "
            "call save_checkpoint after each step."
        )


def _in_thread(tool: Callable[..., str]) -> Callable[..., Awaitable[str]]:
    """Return the tool as a coroutine, so that a slow GitHub does not keep other calls waiting."""

    @wraps(tool)
    async def call(**arguments: object) -> str:
        try:
            return await run_sync(lambda: tool(**arguments))
        except HoldfastError as error:
            raise ToolError(describe(error)) from error

    return call


class AgentServer:
    """The tools over HTTP, for a server that has its own connections and its own guard.

    Answers one request after the other. None depends on another, so any replica may answer the next.
    """

    def __init__(self, holdfast: Holdfast) -> None:
        server = build_server(holdfast)
        server.settings.stateless_http = server.settings.json_response = True
        server.settings.transport_security = None  # hosts and origins are checked by who listens
        server.streamable_http_app()  # makes the session manager
        self._manager = server.session_manager

    def run(self) -> "AbstractAsyncContextManager[None]":
        """Be ready to answer for as long as the context lasts."""
        return self._manager.run()

    async def answer(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """Answer one request."""
        await self._manager.handle_request(scope, receive, send)
