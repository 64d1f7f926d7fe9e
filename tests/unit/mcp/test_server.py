"""The server as agents meet it: by the official client, over standard input and output."""

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import McpError
from pydantic import AnyUrl

from holdfast.library import Holdfast
from holdfast.settings import Settings
from holdfast.version import __version__

pytestmark = pytest.mark.processes

TOOLS = {
    "save_checkpoint",
    "resume_run",
    "list_runs",
    "show_checkpoint",
    "diff_checkpoints",
    "rollback_run",
    "complete_run",
}


def environment(folder: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOLDFAST_DATA_DIR": str(folder), "HOLDFAST_MIN_FREE_BYTES": "0"}


def talk(folder: Path, use: Callable[[ClientSession], Awaitable[None]]) -> None:
    """Connect as an agent does, and hand the session over."""

    async def run() -> None:
        server = StdioServerParameters(
            command=sys.executable, args=["-m", "holdfast", "mcp"], env=environment(folder)
        )
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            told = await session.initialize()
            assert (told.serverInfo.name, told.serverInfo.version) == ("holdfast", __version__)
            await use(session)

    anyio.run(run)


async def call(session: ClientSession, tool: str, **arguments: Any) -> Any:
    result = await session.call_tool(tool, arguments)
    (content,) = result.content
    assert content.type == "text"
    assert not result.isError, content.text
    return json.loads(content.text)


async def fail(session: ClientSession, tool: str, **arguments: Any) -> str:
    result = await session.call_tool(tool, arguments)
    (content,) = result.content
    assert content.type == "text"
    assert result.isError, content.text
    return content.text


def test_official_client_lists_and_calls_every_tool(tmp_path: Path) -> None:
    async def use(session: ClientSession) -> None:
        tools = (await session.list_tools()).tools
        assert {tool.name for tool in tools} == TOOLS
        assert all(tool.description and "Use it" in tool.description for tool in tools)
        assert all("self" not in tool.inputSchema["properties"] for tool in tools)

        first = await call(session, "save_checkpoint", run_id="build-42", state={"done": ["plan"]})
        assert (first["sequence_number"], first["status"]) == (1, "spooled")
        await call(
            session, "save_checkpoint", run_id="build-42", state={"done": ["plan", "draft"]}, phase="draft"
        )

        (run,) = (await call(session, "list_runs", resumable=True))["runs"]
        assert (run["run_id"], run["checkpoints"]) == ("build-42", 2)
        plan = await call(session, "resume_run", run_id="build-42")
        assert plan["state"] == {"done": ["plan", "draft"]}
        shown = await call(session, "show_checkpoint", run_id="build-42", at="1", path="/state_snapshot/done")
        assert shown == ["plan"]
        diff = await call(session, "diff_checkpoints", run_id="build-42", first=1, second="2")
        assert {"op": "add", "path": "/state_snapshot/done/1", "value": "draft"} in diff["changes"]

        await call(session, "rollback_run", run_id="build-42", at=1, note="the draft was wrong")
        assert (await call(session, "resume_run", run_id="build-42"))["state"]["done"] == ["plan"]
        await call(session, "complete_run", run_id="build-42")
        assert (await call(session, "resume_run", run_id="build-42"))["resumable"] is False

    talk(tmp_path, use)


def test_bad_arguments_are_errors_of_the_tool_that_say_what_to_do(tmp_path: Path) -> None:
    async def use(session: ClientSession) -> None:
        assert "run_id" in await fail(session, "save_checkpoint", state={})
        assert "1 to 128 characters" in await fail(session, "save_checkpoint", run_id="a b", state={})
        assert "trigger" in await fail(session, "save_checkpoint", run_id="r", state={}, trigger="whim")
        assert "there is no run" in await fail(session, "resume_run", run_id="nobody")
        await call(session, "save_checkpoint", run_id="r", state={"a": 1})
        assert "nothing at" in await fail(session, "show_checkpoint", run_id="r", path="/state_snapshot/b")
        assert "number" in await fail(session, "rollback_run", run_id="r", at="yesterday")
        assert "status" in await fail(session, "complete_run", run_id="r", status="paused")
        told = await fail(session, "save_checkpoint", run_id="r", state={}, stage="two")
        assert "stage" in told
        assert "phase" in told  # among those that it takes
        assert await fail(session, "no_such_tool")

    talk(tmp_path, use)


def test_errors_of_a_tool_are_sentences_and_nothing_else(tmp_path: Path) -> None:
    async def use(session: ClientSession) -> None:
        assert await fail(session, "resume_run") == "run_id: Field required"
        told = await fail(session, "save_checkpoint", run_id=5, state="text")
        assert told == "run_id: Input should be a valid string; state: Input should be a valid dictionary"
        assert (await fail(session, "resume_run", run_id="nobody")).startswith("there is no run 'nobody'")

    talk(tmp_path, use)


def test_large_states_are_cut_and_can_be_asked_for(tmp_path: Path) -> None:
    state = {"report": "x" * 50_000, "small": 1}

    async def use(session: ClientSession) -> None:
        await call(session, "save_checkpoint", run_id="r", state=state)
        plan = await call(session, "resume_run", run_id="r")
        assert len(json.dumps(plan)) < 10_000
        assert plan["state"]["small"] == 1
        assert plan["state"]["report"]["path"] == "/state/report"

    talk(tmp_path, use)


def test_resources_and_the_prompt(tmp_path: Path) -> None:
    async def use(session: ClientSession) -> None:
        await call(session, "save_checkpoint", run_id="r", state={"a": 1})

        async def read(uri: str) -> Any:
            (content,) = (await session.read_resource(AnyUrl(uri))).contents
            return json.loads(content.text)  # type: ignore[union-attr]

        assert [str(each.uri) for each in (await session.list_resources()).resources] == ["holdfast://runs"]
        assert len((await session.list_resource_templates()).resourceTemplates) == 2
        assert (await read("holdfast://runs"))["runs"][0]["run_id"] == "r"
        assert (await read("holdfast://runs/r"))["checkpoints"][0]["sequence"] == 1
        assert (await read("holdfast://runs/r/checkpoints/1"))["state_snapshot"] == {"a": 1}
        with pytest.raises(McpError):
            await read("holdfast://runs/nobody")

        (prompt,) = (await session.list_prompts()).prompts
        told = await session.get_prompt(prompt.name, {"run_id": "r"})
        assert "resume_run for the run r" in told.messages[0].content.text  # type: ignore[union-attr]

    talk(tmp_path, use)


def test_nothing_but_protocol_is_on_standard_output_and_the_spool_is_drained_at_the_end(
    tmp_path: Path,
) -> None:
    said: list[dict[str, Any]] = [
        {
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {
            "id": 2,
            "method": "tools/call",
            "params": {"name": "save_checkpoint", "arguments": {"run_id": "r", "state": {}}},
        },
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in said)
    command = [sys.executable, "-m", "holdfast", "--log-level", "debug", "mcp"]
    with subprocess.Popen(
        command,
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(lines)
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        rest, logged = process.communicate()

    assert [each["id"] for each in answers] == [1, 2]
    assert rest == ""
    assert process.returncode == 0, logged
    with Holdfast(Settings.from_environment(environment(tmp_path))) as holdfast:
        receipt = holdfast.receipt(json.loads(answers[1]["result"]["content"][0]["text"])["checkpoint_id"])
    assert receipt is not None
    assert receipt.status == "verified"
