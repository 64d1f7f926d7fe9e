"""The tools for agents over streamable HTTP, for a server that has its own connections and its own guard."""

from contextlib import AbstractAsyncContextManager

from starlette.types import Receive, Scope, Send

from holdfast.library import Holdfast
from holdfast.mcp.server import build_server


class AgentServer:
    """Answers one request after the other. None depends on another, so any replica may answer the next."""

    def __init__(self, holdfast: Holdfast) -> None:
        server = build_server(holdfast)
        server.settings.stateless_http = server.settings.json_response = True
        server.settings.transport_security = None  # hosts and origins are checked by who listens
        server.streamable_http_app()  # makes the session manager
        self._manager = server.session_manager

    def run(self) -> AbstractAsyncContextManager[None]:
        """Be ready to answer for as long as the context lasts."""
        return self._manager.run()

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._manager.handle_request(scope, receive, send)
