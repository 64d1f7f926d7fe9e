import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.fakes.sidecar import RunningSidecar, running_sidecar

from .conftest import Holdfast


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[RunningSidecar]:
    with running_sidecar(tmp_path / "sidecar", api_token="the-token") as sidecar:
        yield sidecar


@pytest.mark.slow
def test_a_running_sidecar_is_shown_with_a_link_that_logs_in(
    holdfast: Holdfast, guarded: RunningSidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_PORT", str(guarded.client.base_url.port))
    monkeypatch.setenv("HOLDFAST_API_TOKEN", "the-token")
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)

    printed = holdfast("ui")
    # The sidecar of this test logs to the same standard output.
    told = json.loads(holdfast("ui", "--json").out.splitlines()[-1])["url"]

    assert [f"The dashboard is at {url}" for url in opened] == [printed.out.splitlines()[-1]]
    assert httpx.get(told).headers["location"] == "/"
    assert "the-token" not in printed.out


@pytest.mark.slow
def test_another_token_than_the_sidecars_is_told(
    holdfast: Holdfast, guarded: RunningSidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_PORT", str(guarded.client.base_url.port))
    monkeypatch.setenv("HOLDFAST_API_TOKEN", "another")

    ended = holdfast("ui", "--no-browser")

    assert ended.code == 1
    assert "does not take this token" in ended.err


@pytest.mark.processes
def test_without_one_a_sidecar_is_started_that_only_the_link_opens(data_dir: Path) -> None:
    variables = {**os.environ, "HOLDFAST_DATA_DIR": str(data_dir), "HOLDFAST_PORT": "0"}
    command = [sys.executable, "-m", "holdfast", "ui", "--json"]
    with subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        try:
            url = httpx.URL(json.loads(process.stdout.readline())["url"])
            with httpx.Client(base_url=url.copy_with(path="/", query=None)) as client:
                assert client.get("/").headers["location"] == "/ui/login"
                assert client.get("/v1/runs").status_code == 401
                entered = client.get(url)
                cookie = entered.headers["set-cookie"].partition(";")[0]
                assert client.get("/", headers={"Cookie": cookie}).status_code == 200
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
