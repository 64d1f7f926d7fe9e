"""The shipped workflows are well formed, and every call in them is one that the sidecar has."""

import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast.cli import main
from holdfast.format.header import RunStatus
from holdfast.format.triggers import Trigger
from holdfast.n8n import DEFAULT_URL, NAMES, prepare_workflow, read_workflow
from holdfast.sidecar.openapi import document

PATHS: dict[str, Any] = document()["paths"]
SCHEMAS: dict[str, Any] = document()["components"]["schemas"]

# What n8n 1.x and 2.x both have.
KNOWN_NODES: dict[str, set[float]] = {
    "code": {2},
    "errorTrigger": {1},
    "executeWorkflow": {1.2},
    "executeWorkflowTrigger": {1.1},
    "httpRequest": {4.2},
    "if": {2.2},
    "manualTrigger": {1},
    "noOp": {1},
    "set": {3.4},
    "splitInBatches": {3},
    "stickyNote": {1},
    "stopAndError": {1},
    "switch": {3.2},
    "wait": {1.1},
}


def load(name: str) -> dict[str, Any]:
    workflow: dict[str, Any] = json.loads(read_workflow(name))
    return workflow


WORKFLOWS = {name: load(name) for name in NAMES}
each_workflow = pytest.mark.parametrize("workflow", WORKFLOWS.values(), ids=NAMES)
REQUESTS = [
    (f"{name}: {node['name']}", node["parameters"])
    for name, workflow in WORKFLOWS.items()
    for node in workflow["nodes"]
    if node["type"].endswith(".httpRequest")
]
each_request = pytest.mark.parametrize(
    "request_", [each for _, each in REQUESTS], ids=[n for n, _ in REQUESTS]
)


@each_workflow
def test_it_has_what_an_import_needs(workflow: dict[str, Any]) -> None:
    assert re.fullmatch(r"Holdfast[A-Za-z0-9]{8}", workflow["id"])
    assert workflow["name"].startswith("Holdfast: ")
    assert workflow["active"] is False
    assert str(UUID(workflow["versionId"])) == workflow["versionId"]
    assert len({UUID(node["id"]) for node in workflow["nodes"]}) == len(workflow["nodes"])
    assert len({node["name"] for node in workflow["nodes"]}) == len(workflow["nodes"])


@each_workflow
def test_its_nodes_are_known_to_both_lines_of_n8n(workflow: dict[str, Any]) -> None:
    for node in workflow["nodes"]:
        kind = node["type"].removeprefix("n8n-nodes-base.")
        assert node["typeVersion"] in KNOWN_NODES[kind], node["name"]


@each_workflow
def test_every_connection_leads_from_a_node_to_a_node(workflow: dict[str, Any]) -> None:
    names = {node["name"] for node in workflow["nodes"]}
    for source, outputs in workflow["connections"].items():
        assert source in names
        for output in outputs["main"]:
            assert {target["node"] for target in output} <= names


@each_workflow
def test_every_node_is_reached(workflow: dict[str, Any]) -> None:
    targets = {
        target["node"]
        for outputs in workflow["connections"].values()
        for output in outputs["main"]
        for target in output
    }
    for node in workflow["nodes"]:
        is_beginning = node["type"].lower().endswith(("trigger", "stickynote"))
        assert is_beginning or node["name"] in targets, node["name"]


@each_workflow
def test_every_node_that_code_speaks_of_is_there(workflow: dict[str, Any]) -> None:
    names = {node["name"] for node in workflow["nodes"]}

    assert set(re.findall(r"\$\('([^']+)'\)", json.dumps(workflow))) <= names


@each_workflow
def test_it_explains_itself_and_holds_no_credential(workflow: dict[str, Any]) -> None:
    assert any(node["type"].endswith(".stickyNote") for node in workflow["nodes"])
    assert not any("credentials" in node for node in workflow["nodes"])
    assert "$env" not in json.dumps(workflow)


def test_the_error_workflow_is_tried_with_its_sample() -> None:
    kinds = [node["type"].removeprefix("n8n-nodes-base.") for node in WORKFLOWS["on-error.json"]["nodes"]]

    # n8n 2.x executes from the first trigger in the file, and counts the error trigger as one.
    assert kinds.index("manualTrigger") < kinds.index("errorTrigger")


@each_request
def test_every_call_is_one_that_the_sidecar_has(request_: dict[str, Any]) -> None:
    url = request_["url"].removeprefix("=")
    assert url.startswith(DEFAULT_URL + "/")
    path, _, query = url.removeprefix(DEFAULT_URL).partition("?")
    path = re.sub(r"\{\{ encodeURIComponent\(\$json\.(\w+)\) \}\}", r"{\1}", path)
    operation = PATHS[path][request_["method"].lower()]
    known = {each["name"] for each in operation["parameters"] if each["in"] == "query"}

    assert {each.partition("=")[0] for each in query.split("&") if each} <= known
    assert ("requestBody" in operation) == request_.get("sendBody", False)


def test_every_field_that_is_handed_in_is_one_of_a_checkpoint() -> None:
    (code,) = [
        node["parameters"]["jsCode"]
        for node in WORKFLOWS["save-checkpoint.json"]["nodes"]
        if node["name"] == "Prepare checkpoint"
    ]
    literal = re.search(r"const body = \{(.*?)\n  \};", code, re.DOTALL)
    assert literal is not None
    fields = {*re.findall(r"^    (\w+):", literal[1], re.MULTILINE), *re.findall(r"body\.(\w+) =", code)}

    assert fields >= {"checkpoint_id", "trigger", "state", "phase", "priority", "fence"}
    assert fields <= set(SCHEMAS["CheckpointIn"]["properties"])
    assert set(re.findall(r": '(\w+)'", code.partition("statusOf")[2].partition(";")[0])) <= set(RunStatus)


def test_every_field_of_an_answer_that_code_reads_is_one_of_it() -> None:
    properties = {name for each in SCHEMAS.values() for name in each.get("properties", {})}
    for workflow in WORKFLOWS.values():
        text = json.dumps(workflow)
        read = {*re.findall(r"\bplan\.(\w+)", text), *re.findall(r"\$json\.body\?\.(\w+)", text)}
        assert read <= properties


def test_a_run_that_is_claimed_is_gone_on_with_only_if_it_is_ours() -> None:
    workflow = WORKFLOWS["resume-run.json"]
    nodes = {node["name"]: node["parameters"] for node in workflow["nodes"]}
    ways = {
        source: [[target["node"] for target in output] for output in outputs["main"]]
        for source, outputs in workflow["connections"].items()
    }
    rules = [rule["outputKey"] for rule in nodes["Which way?"]["rules"]["values"]]
    sent = set(re.findall(r"(\w+):", nodes["Claim the run"]["jsonBody"]))

    assert ways["Alone?"] == [["Claim the run"], ["Go on"]]
    assert ways["Is it ours?"] == [["Go on"], ["Which way?"]]
    assert ways["Which way?"][rules.index("someone else drives it")] == ["Someone else drives it"]
    assert ways["Which way?"][len(rules)] == ["Cannot tell"]
    assert sent == set(SCHEMAS["ClaimIn"]["properties"])
    assert not next(node for node in workflow["nodes"] if node["name"] == "Claim the run").get("retryOnFail")


def test_the_inputs_of_the_sub_workflows_are_those_of_their_callers() -> None:
    inputs = {workflow["id"]: _inputs(workflow) for workflow in WORKFLOWS.values()}
    calls = [
        node["parameters"]
        for workflow in WORKFLOWS.values()
        for node in workflow["nodes"]
        if node["type"].endswith(".executeWorkflow")
    ]

    assert inputs["HoldfastSaveCp01"] == {
        "trigger",
        "state",
        "run_id",
        "phase",
        "priority",
        "context",
        "fence",
    }
    assert inputs["HoldfastResume01"] == {"run_id", "claim", "ttl_s"}
    assert calls
    for call in calls:
        values = call["workflowInputs"]["value"]
        assert inputs[call["workflowId"]["value"]] - set(values) <= {"context", "fence", "claim", "ttl_s"}
        assert set(values) <= inputs[call["workflowId"]["value"]]
        assert values.get("trigger", "manual") in set(Trigger)


def test_an_export_is_made_ready_for_one_sidecar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["n8n", "export", str(tmp_path / "flows"), "--url", "http://holdfast:8723/"])

    assert code == 0
    told = capsys.readouterr().out
    assert "Header Auth" in told
    assert "published" in told
    for name in NAMES:
        text = (tmp_path / "flows" / name).read_text()
        nodes = json.loads(text)["nodes"]
        assert DEFAULT_URL not in text
        for node in nodes:
            if node["type"].endswith(".httpRequest"):
                assert "http://holdfast:8723/v1/" in node["parameters"]["url"]
                assert node["parameters"]["genericAuthType"] == "httpHeaderAuth"


def test_an_export_for_loopback_needs_no_token(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["n8n", "export", str(tmp_path), "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert (told["url"], told["has_token"]) == (DEFAULT_URL, False)
    assert (tmp_path / NAMES[0]).read_bytes() == read_workflow(NAMES[0])


def test_a_token_can_be_asked_for_on_loopback_too() -> None:
    assert b"httpHeaderAuth" in prepare_workflow(NAMES[0], url=DEFAULT_URL, has_token=True)


@pytest.mark.parametrize("url", ["holdfast:8723", "ftp://x", 'http://x"', "http://x y"])
def test_an_address_that_is_none_is_refused(
    tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["n8n", "export", str(tmp_path), "--url", url]) == 2
    assert "such as http://holdfast:8723" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.touch()

    assert main(["n8n", "export", str(file / "flows")]) == 1
    assert "cannot be written" in capsys.readouterr().err


def _inputs(workflow: dict[str, Any]) -> set[str]:
    for node in workflow["nodes"]:
        if node["type"].endswith(".executeWorkflowTrigger"):
            return {each["name"] for each in node["parameters"]["workflowInputs"]["values"]}
    return set()
