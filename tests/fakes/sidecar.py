"""A sidecar in this process, on a free port over an embedded GitHub, and a client for it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx

from holdfast.assembly import open_assembly
from holdfast.assembly.ground import Ground
from holdfast.library import Holdfast
from holdfast.metrics import Metrics
from holdfast.settings import Settings
from holdfast.sidecar import serving
from holdfast.sidecar.agents import LoadTools
from holdfast.sidecar.courtesy import Courtesy
from holdfast.sidecar.serving import Ending, serve

# Only there to end a test that hangs.
LONGEST_S = 60


@dataclass
class RunningSidecar:
    """One that answers; `stop` ends it."""

    client: httpx.Client
    assembly: Ground
    holdfast: Holdfast
    endings: list[Ending]

    def submit(self, run_id: str = "build-1", **fields: Any) -> httpx.Response:
        body = {"trigger": "manual", "phase": "phase_1_plan", "state": {"answer": 42}, **fields}
        return self.client.post(f"/v1/runs/{run_id}/checkpoints", json=body)

    def post(self, content: bytes, run_id: str = "build-1", **headers: str) -> httpx.Response:
        sent = {"Content-Type": "application/json", **headers}
        return self.client.post(f"/v1/runs/{run_id}/checkpoints", content=content, headers=sent)

    def depth(self) -> int:
        return int(self.client.get("/v1/status").json()["spool"]["depth"])


@contextmanager
def running_sidecar(
    folder: Path,
    *,
    answers_grace_s: float = LONGEST_S,
    load_tools: LoadTools | None = None,
    **settings: object,
) -> Iterator[RunningSidecar]:
    """Serve in a thread until the context ends."""
    given = {"data_dir": folder, "port": 0, "min_free_bytes": 0, **settings}
    stop, urls, endings = threading.Event(), [], []
    is_ready = threading.Event()
    metrics = Metrics(lambda: holdfast.status())
    courtesy = Courtesy(stop)
    settings_ = Settings.from_environment({}, given)
    assembly = open_assembly(
        settings_, stop=stop, meter=metrics, give_way=courtesy.give_way, breathe=courtesy.breathe
    )
    holdfast = Holdfast(assembly.settings, assembly=assembly)

    def announce(url: str) -> None:
        urls.append(url)
        is_ready.set()

    def run() -> None:
        try:
            parts = (holdfast, assembly, metrics, courtesy)
            endings.append(serve(*parts, on_ready=announce, load_tools=load_tools))
        finally:
            is_ready.set()

    thread = threading.Thread(target=run)
    # It would look for garbage in all that the tests have imported.
    graces = patch.multiple(
        serving, DRAINER_GRACE_S=LONGEST_S, ANSWERS_GRACE_S=answers_grace_s, even_interpreter=nullcontext
    )
    graces.start()
    thread.start()
    try:
        assert is_ready.wait(LONGEST_S)
        with httpx.Client(base_url=urls[0], timeout=LONGEST_S) as client:
            yield RunningSidecar(client, assembly, holdfast, endings)
    finally:
        stop.set()
        thread.join(LONGEST_S)
        holdfast.close()
        graces.stop()
    assert not thread.is_alive()
