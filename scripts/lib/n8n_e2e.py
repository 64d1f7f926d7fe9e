"""The shipped workflows in a real n8n: nothing that is finished is done again, nothing is lost.

Called by scripts/n8n-e2e with the n8n command.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

TOKEN = "e2e-token"
SAVE, RESUME, DECIDE = "HoldfastSaveCp01", "HoldfastResume01", "HoldfastDecide01"
EXAMPLE, ON_ERROR = "HoldfastExample1", "HoldfastOnError1"
CALLER, BAD_CALLER = "HoldfastE2eCall1", "HoldfastE2eBad01"
TRIP, ASK, DECIDER = "HoldfastE2eTrip1", "HoldfastE2eAsk01", "HoldfastE2eDeci1"
CLAIMER, HOLDER = "HoldfastE2eClai1", "HoldfastE2eHold1"
CREDENTIAL = {"id": "HoldfastE2eAuth1", "name": "Holdfast"}


class Sidecar:
    """A sidecar in a process of its own, which keeps its port and its data when it is started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.url = f"http://127.0.0.1:{server.getsockname()[1]}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        port = self.url.rpartition(":")[2]
        variables = {"HOLDFAST_DATA_DIR": str(self._folder / "holdfast"), "HOLDFAST_API_TOKEN": TOKEN}
        with (self._folder / "sidecar.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "holdfast", "serve", "--port", port],
                env={**outside_variables(), **variables},
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        wait_until("the sidecar is ready", lambda: self.ask("/readyz")["status"] == "ready")

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            check("the sidecar ends with 0", self._process.wait(20) == 0)
            self._process = None

    def ask(self, path: str) -> Any:
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)

    def phases(self, run_id: str) -> list[tuple[str, str]]:
        """Return trigger and phase of each checkpoint, in order; none if the run is unknown."""
        try:
            entries = self.ask(f"/v1/runs/{run_id}/checkpoints")["checkpoints"]
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return []
            raise
        found = [self.ask(f"/v1/runs/{run_id}/checkpoints/{entry['sequence']}") for entry in entries]
        return [(each["trigger"], each["phase"]) for each in found]


class N8n:
    """The n8n command, with a database of its own."""

    def __init__(self, command: str, folder: Path) -> None:
        self._command = command
        self._folder = folder
        self._variables = {
            **outside_variables(),
            "N8N_USER_FOLDER": str(folder / "n8n"),
            "N8N_DIAGNOSTICS_ENABLED": "false",
            "N8N_VERSION_NOTIFICATIONS_ENABLED": "false",
            "N8N_RUNNERS_ENABLED": "false",
            "GENERIC_TIMEZONE": "UTC",
        }
        (folder / "n8n").mkdir()

    def run(self, *words: str) -> str:
        """Return what a command prints."""
        ended = subprocess.run(
            [self._command, *words],
            env=self._variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        check(
            f"n8n {words[0]} ends with 0", ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
        )
        return ended.stdout

    def execute(self, workflow: str) -> dict[str, Any]:
        """Return the last output of a workflow, executed from its beginning."""
        text = self.run("execute", f"--id={workflow}")
        result = json.loads(text[text.index("\n{") :])["data"]["resultData"]
        last = result["runData"][result["lastNodeExecuted"]][-1]["data"]["main"]
        items = [item["json"] for output in last for item in output or []]
        return {"node": result["lastNodeExecuted"], **(items[0] if items else {})}

    def start(self, workflow: str) -> "subprocess.Popen[bytes]":
        """Begin to execute a workflow, in a process group that can be killed."""
        return subprocess.Popen(
            [self._command, "execute", f"--id={workflow}"],
            env=self._variables,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def main(command: str) -> int:
    """Play every scene, and say what was found."""
    with tempfile.TemporaryDirectory(prefix="holdfast-n8n-") as name:
        folder = Path(name)
        sidecar, n8n = Sidecar(folder), N8n(command, folder)
        import_workflows(n8n, sidecar.url, folder)
        sidecar.start()
        try:
            run_id = crash_in_the_middle(n8n, sidecar)
            save_a_failure(n8n, sidecar, run_id)
            go_on_after_the_crash(n8n, sidecar, run_id)
            outlive_an_outage(n8n, sidecar)
            be_refused(n8n)
            wait_for_a_person(n8n, sidecar)
            drive_alone(n8n, sidecar)
            wait_until("everything is verified", lambda: sidecar.ask("/v1/status")["spool"]["depth"] == 0)
        finally:
            sidecar.stop()
    print("scripts/n8n-e2e: every scene ended as promised")
    return 0


def import_workflows(n8n: N8n, url: str, folder: Path) -> None:
    """Import what `holdfast n8n export` writes, with a credential that a person would choose."""
    exported = folder / "workflows"
    subprocess.run(
        [sys.executable, "-m", "holdfast", "n8n", "export", str(exported), "--url", url, "--auth", "header"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    for file in exported.glob("*.json"):
        workflow = json.loads(file.read_text())
        for node in workflow["nodes"]:
            if node["type"].endswith(".httpRequest"):
                node["credentials"] = {"httpHeaderAuth": CREDENTIAL}
        file.write_text(json.dumps(workflow))
    secret = {"name": "Authorization", "value": f"Bearer {TOKEN}"}
    credentials = folder / "credentials.json"
    credentials.write_text(json.dumps([{**CREDENTIAL, "type": "httpHeaderAuth", "data": secret}]))
    callers = folder / "callers.json"
    context = "={{ ({ api_metrics: ({ calls: 3 }) }) }}"
    made = [
        caller(CALLER, "outage-1"),
        caller(BAD_CALLER, "../outside"),
        caller(TRIP, "review-1", trigger="circuit_breaker", context=context),
        caller(ASK, "review-1", target=RESUME),
        caller(DECIDER, "review-1", target=DECIDE, decision="continue", by="a person"),
        caller(CLAIMER, "alone-1", target=RESUME, claim="={{ true }}"),
        caller(HOLDER, "alone-1", fence="={{ 1 }}"),
    ]
    callers.write_text(json.dumps(made))
    n8n.run("import:credentials", f"--input={credentials}")
    n8n.run("import:workflow", "--separate", f"--input={exported}")
    n8n.run("import:workflow", f"--input={callers}")
    if not n8n.run("--version").startswith("1."):
        for workflow in (SAVE, RESUME, DECIDE, ON_ERROR):
            n8n.run("publish:workflow", f"--id={workflow}")


def crash_in_the_middle(n8n: N8n, sidecar: Sidecar) -> str:
    """Kill n8n once the example has saved its first phase and is busy with the second."""
    process = n8n.start(EXAMPLE)
    try:
        wait_until("the first phase is saved", lambda: bool(sidecar.ask("/v1/runs")["runs"]))
        run_id: str = sidecar.ask("/v1/runs")["runs"][0]["run_id"]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    check("n8n was killed after phase 1", sidecar.phases(run_id) == [("phase_complete", "phase_1_collect")])
    return run_id


def save_a_failure(n8n: N8n, sidecar: Sidecar, run_id: str) -> None:
    """Have the error workflow find the run of the example and save the failure there."""
    result = n8n.execute(ON_ERROR)
    check("the failure is saved", result.get("saved") is True and result["run_id"] == run_id, result)
    plan = sidecar.ask(f"/v1/runs/{run_id}/resume")
    check("the run goes on at the phase that failed", plan["resume_at"] == "phase_2_enrich", plan)
    check("with its state", list(plan["state"]["phase_outputs"]) == ["phase_1_collect"], plan)
    check("and with the error", len(plan["state"]["errors_encountered"]) == 1, plan)


def go_on_after_the_crash(n8n: N8n, sidecar: Sidecar, run_id: str) -> None:
    """Execute the example again: finished phases stay finished. A third time nothing is left."""
    result = n8n.execute(EXAMPLE)
    check("the run is complete", result["node"] == "Save the end" and result["saved"], result)
    outputs = result["state"]["phase_outputs"]
    executions = [outputs[name]["execution_id"] for name in sorted(outputs)]
    check("phase 1 was not done again", executions[0] != executions[1] == executions[2], executions)
    expected = [
        ("phase_complete", "phase_1_collect"),
        ("error", "phase_2_enrich"),
        ("phase_complete", "phase_2_enrich"),
        ("run_complete", "phase_3_report"),
    ]
    check("each phase was saved once", sidecar.phases(run_id) == expected, sidecar.phases(run_id))
    check("nothing is left to do", n8n.execute(EXAMPLE)["node"] == "Nothing to do")
    check("and nothing was done", sidecar.phases(run_id) == expected)


def outlive_an_outage(n8n: N8n, sidecar: Sidecar) -> None:
    """Save while the sidecar is away: n8n keeps the checkpoints and hands them in, in order, later."""
    sidecar.stop()
    kept = [n8n.execute(CALLER), n8n.execute(CALLER)]
    check("the workflow goes on", [each["saved"] for each in kept] == [False, False], kept)
    check("with a warning", all("kept in n8n" in each["warning"] for each in kept), kept)
    check("nothing is forgotten", [each["waiting"] for each in kept] == [1, 2], kept)
    sidecar.start()
    last = n8n.execute(CALLER)
    check("the next one is saved", last["saved"] and last["sequence_number"] == 3, last)
    saved = [sidecar.ask(f"/v1/runs/outage-1/checkpoints/{number}") for number in (1, 2, 3)]
    made = [each["state_snapshot"]["made_at"] for each in saved]
    check("behind the others, in order", made == [each["state"]["made_at"] for each in [*kept, last]], made)


def be_refused(n8n: N8n) -> None:
    """Save what the sidecar refuses: the workflow is told why and goes on."""
    result = n8n.execute(BAD_CALLER)
    check("a refusal is told", result["saved"] is False and "run_id" in result["warning"], result)


def wait_for_a_person(n8n: N8n, sidecar: Sidecar) -> None:
    """Trip a breaker: the run is sent to human review until someone decides."""
    tripped = n8n.execute(TRIP)
    check("the breaker's checkpoint is saved", tripped.get("saved") is True, tripped)
    stored = sidecar.ask("/v1/runs/review-1/checkpoints/1")
    check("with its context", stored["context_fields"].get("api_metrics") == {"calls": 3}, stored)
    asked = n8n.execute(ASK)
    kind = (asked.get("review") or {}).get("kind")
    check("the run waits for a person", (asked["route"], kind) == ("human_review", "circuit_breaker"), asked)
    decided = n8n.execute(DECIDER)
    check("a person decides", decided.get("decided") is True, decided)
    check("and the run goes on", n8n.execute(ASK)["route"] != "human_review")
    again = n8n.execute(DECIDER)
    check("a second decision is told that nothing waits", again.get("decided") is False, again)


def drive_alone(n8n: N8n, sidecar: Sidecar) -> None:
    """Claim a run: another execution is told who drives it, and checkpoints carry the fence."""
    first = n8n.execute(CLAIMER)
    check("a run is claimed", (first.get("route"), first.get("fence")) == ("start_fresh", 1), first)
    check("with a token", bool(first.get("claim_token")), first)
    saved = n8n.execute(HOLDER)
    check("its holder saves", saved.get("saved") is True, saved)
    stored = sidecar.ask("/v1/runs/alone-1/checkpoints/1")
    check("with the fence of the claim", stored.get("fence") == 1, stored)
    second = n8n.execute(CLAIMER)
    check("another execution does not get it", second.get("route") == "claimed", second)
    check("and is told who has", second["owner"].startswith("n8n execution "), second)


def caller(workflow_id: str, run_id: str, *, target: str = SAVE, **given: str) -> dict[str, Any]:
    """Return a workflow that calls one of ours: it saves one checkpoint unless another is named."""
    made = f"return [{{json: {{run_id: '{run_id}', state: {{made_at: Date.now()}}}}}}];"
    of_save = {"trigger": "manual", "state": "={{ $json.state }}"} if target == SAVE else {}
    inputs = {"run_id": "={{ $json.run_id }}", **of_save, **given}
    mapping = {"mappingMode": "defineBelow", "value": inputs, "matchingColumns": [], "schema": []}
    save: dict[str, Any] = {
        "workflowId": {"__rl": True, "mode": "id", "value": target},
        "workflowInputs": mapping,
        "options": {},
    }
    steps: list[tuple[str, str, float, dict[str, Any]]] = [
        ("Start", "manualTrigger", 1, {}),
        ("Make", "code", 2, {"jsCode": made}),
        ("Save", "executeWorkflow", 1.2, save),
    ]
    nodes = [
        {
            "id": str(uuid4()),
            "name": name,
            "type": f"n8n-nodes-base.{kind}",
            "typeVersion": version,
            "position": [200 * place, 0],
            "parameters": parameters,
        }
        for place, (name, kind, version, parameters) in enumerate(steps)
    ]
    links = {
        steps[place][0]: {"main": [[{"node": steps[place + 1][0], "type": "main", "index": 0}]]}
        for place in range(len(steps) - 1)
    }
    return {
        "id": workflow_id,
        "name": f"Caller {workflow_id} of {run_id}",
        "active": False,
        "settings": {"executionOrder": "v1"},
        "versionId": str(uuid4()),
        "nodes": nodes,
        "connections": links,
    }


def outside_variables() -> dict[str, str]:
    """Return the environment without settings of Holdfast and n8n that this person may have."""
    prefixes = ("HOLDFAST_", "GITHUB_", "N8N_")
    return {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}


def wait_until(what: str, is_so: Callable[[], bool], timeout_s: float = 60) -> None:
    """Wait for something that must become true."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if is_so():
                return check(what, True)
        except OSError:
            pass  # nobody listens yet
        if time.monotonic() > deadline:
            return check(what, False)
        time.sleep(0.1)


def check(what: str, is_so: bool, evidence: object = "") -> None:
    """Say that something is as promised, or end."""
    print(f"{'ok' if is_so else 'FAILED'}: {what}", flush=True)
    if not is_so:
        sys.exit(f"{evidence}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
