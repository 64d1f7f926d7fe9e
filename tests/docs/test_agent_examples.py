"""The configurations for assistants in docs/agents.md start the server, or find that of a sidecar."""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from holdfast.mcp.server import AgentServer
from holdfast.settings import unknown_variables
from holdfast.settings.kinds import Secret
from tests.docs.pages import page
from tests.fakes.sidecar import running_sidecar

PAGE = page("docs/agents.md")
TOOLS = {row[0].strip("`") for row in PAGE.rows() if re.fullmatch(r"`\w+_\w+`", row[0])}
TOKEN = "a-token-of-the-sidecar"


def read_claude_command(line: str) -> dict[str, Any]:
    """Return what `claude mcp add` would write down."""
    words = shlex.split(line.removeprefix("claude mcp add "))
    if "--" in words:
        split = words.index("--")
        variable, _, value = words[words.index("-e") + 1].partition("=")
        command, *args = words[split + 1 :]
        return {"command": command, "args": args, "env": {variable: value}}
    name, _, value = words[words.index("--header") + 1].partition(": ")
    assert words[words.index("--transport") + 1] == "http"
    return {"url": next(word for word in words if word.startswith("http:")), "headers": {name: value}}


CONFIGURATIONS = [json.loads(block.text) for block in PAGE.blocks if block.language == "json"]
LINES = [line for block in PAGE.blocks for line in block.lines if line.startswith("claude mcp add ")]
SERVERS = [
    *map(read_claude_command, LINES),
    *(configuration.popitem()[1]["holdfast"] for configuration in CONFIGURATIONS),
]


async def list_tools(read: Any, write: Any) -> set[str]:
    async with ClientSession(read, write) as session:
        await session.initialize()
        return {tool.name for tool in (await session.list_tools()).tools}


def test_each_assistant_has_both_ways() -> None:
    ways = ["command" if "command" in server else "url" for server in SERVERS]

    assert ways == ["command", "url", "command", "command", "url", "url"]


@pytest.mark.parametrize("server", [each for each in SERVERS if "command" in each], ids=str)
def test_what_an_assistant_starts_offers_the_tools_of_the_page(
    server: dict[str, Any], tmp_path: Path
) -> None:
    environment = {"PATH": str(Path(sys.executable).parent), "HOLDFAST_DATA_DIR": str(tmp_path)}

    async def start() -> set[str]:
        parameters = StdioServerParameters(command=server["command"], args=server["args"], env=environment)
        async with stdio_client(parameters) as (read, write):
            return await list_tools(read, write)

    assert unknown_variables(server.get("env", {})) == {}
    assert anyio.run(start) == TOOLS


@pytest.mark.parametrize("server", [each for each in SERVERS if "url" in each], ids=str)
def test_what_an_assistant_asks_is_there_behind_the_token(server: dict[str, Any], tmp_path: Path) -> None:
    given = server.get("headers", {})
    headers = {name: re.sub(r"…|\$HOLDFAST_API_TOKEN", TOKEN, value) for name, value in given.items()}

    async def ask(base_url: str) -> set[str]:
        url = server["url"].replace("http://127.0.0.1:8723", base_url)
        async with (
            httpx.AsyncClient(headers=headers, timeout=60) as client,
            streamable_http_client(url, http_client=client) as (read, write, _),
        ):
            return await list_tools(read, write)

    token = Secret(TOKEN) if headers else None
    with running_sidecar(tmp_path, load_tools=AgentServer, api_token=token) as sidecar:
        assert anyio.run(ask, str(sidecar.client.base_url)) == TOOLS
