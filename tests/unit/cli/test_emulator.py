import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from .conftest import Holdfast


@contextmanager
def emulator(*options: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Run the emulator as a process; give its first line."""
    command = [sys.executable, "-m", "holdfast", "emulator", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline(), process
        finally:
            process.kill()


@pytest.mark.processes
def test_it_serves_a_repository_made_on_the_spot_until_a_signal(tmp_path: Path) -> None:
    options = ("--json", "--root", str(tmp_path), "--repo", "acme/state", "--limit", "60", "--token", "good")
    with emulator(*options, "--fault", "get:502:nth=3") as (line, process):
        announced = json.loads(line)
        headers = {"authorization": "Bearer good"}
        with httpx.Client(base_url=announced["url"], headers=headers, timeout=60) as client:
            first = client.get("/repos/acme/state")
            denied = client.get("/repos/acme/state", headers={"authorization": "Bearer bad"})
            faulty = client.get("/repos/acme/state")
        process.send_signal(signal.SIGTERM)
        rest, errors = process.communicate(timeout=60)

    assert (announced["repository"], announced["root"]) == ("acme/state", str(tmp_path))
    assert (first.status_code, denied.status_code, faulty.status_code) == (200, 401, 502)
    assert first.headers["x-ratelimit-limit"] == "60"
    assert (tmp_path / "acme" / "state.git").is_dir()
    assert (process.returncode, rest, errors) == (0, "", "")


@pytest.mark.processes
def test_the_line_for_people_has_the_address(data_dir: Path) -> None:
    with emulator() as (line, process):
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    assert line.startswith("Serving holdfast/checkpoints at http://127.0.0.1:")
    assert line.endswith(f"over {data_dir / 'emulator' / 'holdfast' / 'checkpoints'}.git\n")
    assert process.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--host", "0.0.0.0"), "not a loopback address"),
        (("--host", "example.com"), "not a loopback address"),
        (("--host", "::1"), "not a loopback address"),
        (("--port", "70000"), "--port 70000 is no port"),
        (("--port", "http"), "'http' is not a whole number"),
        (("--limit", "-1"), "'-1' is not a whole number"),
        (("--fault", "put"), "fault 'put' needs a target and an effect"),
        (("--fault", "put:explode"), "unknown effect 'explode'"),
        (("--repo", "nowhere"), "use owner/name"),
    ],
)
def test_wrong_options_are_refused(holdfast: Holdfast, options: tuple[str, ...], complaint: str) -> None:
    ended = holdfast("emulator", *options)

    assert ended.code == 2
    assert complaint in ended.err


def test_a_port_that_is_taken_is_a_failure(holdfast: Holdfast) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = holdfast("emulator", "--port", taken.getsockname()[1])

    assert ended.code == 1
    assert "cannot serve" in ended.err
    assert "Traceback" not in ended.err


def test_a_root_that_cannot_hold_a_repository_is_a_failure(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    ended = holdfast("emulator", "--root", tmp_path / "file")

    assert ended.code == 1
    assert "cannot serve" in ended.err
