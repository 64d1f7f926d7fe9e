"""`/mcp` as agents meet it: by the official client, over streamable HTTP."""

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl

from holdfast.library import Holdfast
from holdfast.mcp.server import AgentServer
from holdfast.settings.kinds import Secret
from tests.fakes.sidecar import RunningSidecar, running_sidecar
from tests.unit.mcp.test_server import TOOLS

TOKEN = "agents-own-token"
LISTING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSidecar]:
    folder = tmp_path_factory.mktemp("agents")
    with running_sidecar(folder, load_tools=AgentServer, api_token=Secret(TOKEN)) as running:
        yield running


def talk(sidecar: RunningSidecar, use: Callable[[ClientSession], Awaitable[None]]) -> None:
    """Connect as an agent does, and hand the session over."""

    async def run() -> None:
        url, headers = f"{sidecar.client.base_url}/mcp", {"Authorization": f"Bearer {TOKEN}"}
        async with (
            httpx.AsyncClient(headers=headers, timeout=60) as client,
            streamable_http_client(url, http_client=client) as (read, write, _),
            ClientSession(read, write) as session,
        ):
            told = await session.initialize()
            assert told.serverInfo.name == "holdfast"
            await use(session)

    anyio.run(run)


@pytest.mark.slow
def test_every_tool_resource_and_prompt_is_there_and_answers(sidecar: RunningSidecar) -> None:
    async def call(session: ClientSession, tool: str, **arguments: Any) -> Any:
        result = await session.call_tool(tool, arguments)
        (content,) = result.content
        assert content.type == "text"
        assert not result.isError, content.text
        return json.loads(content.text)

    async def use(session: ClientSession) -> None:
        assert {tool.name for tool in (await session.list_tools()).tools} == TOOLS
        for number in (1, 2):
            await call(session, "save_checkpoint", run_id="paper", state={"draft": number}, phase="write")
        assert (await call(session, "resume_run", run_id="paper"))["state"] == {"draft": 2}
        runs = await call(session, "list_runs")
        assert [run["run_id"] for run in runs["runs"]] == ["paper"]
        shown = await call(session, "show_checkpoint", run_id="paper", at="1")
        assert shown["state_snapshot"] == {"draft": 1}
        assert await call(session, "diff_checkpoints", run_id="paper", first="1", second="2")
        await call(session, "rollback_run", run_id="paper", at="1")
        assert (await call(session, "resume_run", run_id="paper"))["state"] == {"draft": 1}
        await call(session, "complete_run", run_id="paper")
        resource = await session.read_resource(AnyUrl("holdfast://runs/paper"))
        assert "paper" in resource.contents[0].text  # type: ignore[union-attr]
        assert (await session.list_prompts()).prompts[0].name == "resume_where_we_stopped"
        wrong = await session.call_tool("resume_run", {"run_id": "../x"})
        assert wrong.isError
        missing = await session.call_tool("save_checkpoint", {})
        assert missing.isError

    talk(sidecar, use)


@pytest.mark.slow
def test_it_is_behind_the_same_guard_as_everything_else(sidecar: RunningSidecar) -> None:
    url = f"{sidecar.client.base_url}/mcp"
    own = {"Authorization": f"Bearer {TOKEN}", **ACCEPT}

    def post(headers: dict[str, str], body: bytes = json.dumps(LISTING).encode()) -> httpx.Response:
        return httpx.post(
            url, content=body, headers={"Content-Type": "application/json", **headers}, timeout=60
        )

    assert post(own).status_code == 200
    assert post(ACCEPT).status_code == 401
    assert post({**own, "Authorization": "Bearer x"}).status_code == 401
    assert post({**own, "Origin": "https://evil.example"}).status_code == 403
    assert post({**own, "Host": "evil.example"}).status_code == 403
    assert post({**own, "Content-Type": "text/plain"}).status_code == 415
    assert post(own, b"{" + b" " * 40_000_000 + b"}").status_code == 413
    assert post(own, b"no json").status_code == 400
    assert httpx.get(url, headers=own).status_code == 405
    assert httpx.delete(url, headers=own).status_code == 405


@pytest.mark.slow
def test_what_an_agent_saves_is_drained(sidecar: RunningSidecar) -> None:
    async def use(session: ClientSession) -> None:
        await session.call_tool("save_checkpoint", {"run_id": "drained", "state": {}})

    talk(sidecar, use)
    receipts = sidecar.holdfast.checkpoints("drained").entries
    settled = sidecar.holdfast.wait(receipts[0].checkpoint_id, timeout_s=30)
    assert settled is not None
    assert settled.status == "verified"


@pytest.mark.slow
def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    def load(_: Holdfast) -> AgentServer:
        raise ModuleNotFoundError("No module named 'mcp'", name="mcp")

    with running_sidecar(tmp_path, load_tools=load) as sidecar:
        answer = sidecar.client.post("/mcp", json=LISTING, headers=ACCEPT)
        assert answer.status_code == 404
        assert "pip install '.[mcp]'" in answer.json()["detail"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", ["import holdfast.cli.serve, holdfast.sidecar.serving", "import holdfast.library, holdfast.cli"]
)
def test_nothing_of_agents_or_claims_is_loaded_before_it_is_used(words: str) -> None:
    forbidden = ("mcp", "langgraph", "holdfast.mcp", "holdfast.claims.holding", "holdfast.claims.desk")
    program = f"{words}; import sys; print([name for name in {forbidden} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
