import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from holdfast.github.app import make_signer
from holdfast.library import Holdfast as Library
from holdfast.settings import Settings
from tests.fakes.app import key_pair

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


@pytest.mark.processes
def test_it_plays_the_other_side_of_an_app(tmp_path: Path) -> None:
    (tmp_path / "app.pem").write_text(key_pair()[0])
    (tmp_path / "public.pem").write_text(key_pair()[1])
    options = ("--app-id", "7", "--app-key", str(tmp_path / "public.pem"), "--root", str(tmp_path / "github"))
    where = ("--installation", "acme/one", "--installation", "umbrella/two:id=20:limit=12500")
    with emulator("--json", *options, *where) as (line, process):
        announced = json.loads(line)
        settings = Settings.from_environment(
            {
                "HOLDFAST_SHARDS": "acme/one,umbrella/two",
                "HOLDFAST_API_URL": announced["url"],
                "HOLDFAST_APP_ID": "7",
                "HOLDFAST_APP_PRIVATE_KEY_FILE": str(tmp_path / "app.pem"),
                "HOLDFAST_DATA_DIR": str(tmp_path / "data"),
                "HOLDFAST_WRITE_INTERVAL_S": "0",
            }
        )
        with Library(settings) as library:
            receipts = [library.save(f"run-{number}", {}) for number in range(8)]
            library.drain()
            stored = [library.receipt(receipt.checkpoint_id) for receipt in receipts]
            limits = [shard["budget"]["limit"] for shard in library.status()["shards"]]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)

    assert announced["repository"] == "acme/one"
    assert announced["repositories"] == ["acme/one", "umbrella/two"]
    assert {each.status for each in stored if each} == {"verified"}
    assert limits == [5000, 12_500]


@pytest.mark.processes
def test_without_an_installation_the_app_is_at_the_owner_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "app.pem").write_text(key_pair()[0])
    options = ("--app-id", "7", "--app-key", str(tmp_path / "app.pem"), "--root", str(tmp_path / "github"))
    with emulator(*options, "--repo", "acme/state") as (line, process):
        url = line.split(" at ")[1].split()[0]
        signed = make_signer("7", key_pair()[0], time.time)()
        headers = {"authorization": f"Bearer {signed}"}
        found = httpx.get(f"{url}/repos/acme/state/installation", headers=headers)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)

    assert line.startswith("Serving acme/state at ")
    assert (found.json()["id"], found.json()["account"]["login"]) == (1, "acme")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--app-id", "7"), "--app-key"),
        (("--app-key", "app.pem"), "--app-id"),
        (("--installation", "acme"), "--app-id"),
        (("--app-id", "7", "--app-key", "/nowhere/app.pem"), "/nowhere/app.pem cannot be read"),
        (("--app-id", "7", "--app-key", __file__), "no RSA key"),
        (("--app-id", "7", "--app-key", __file__, "--installation", "a:b"), "installation 'a:b'"),
        (("--app-id", "7", "--app-key", __file__, "--installation", "a:id=0"), "installation 'a:id=0'"),
        (("--app-id", "7", "--app-key", __file__, "--installation", "a b"), "installation 'a b'"),
        (("--app-id", "7", "--app-key", __file__, "--installation", "a", "--installation", "A"), "twice"),
        (
            ("--app-id", "7", "--app-key", __file__, "--installation", "a:id=2", "--installation", "b:id=2"),
            "twice",
        ),
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
