"""How much memory a large checkpoint takes: every command is measured as a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.settings import MOST_BYTES

PAYLOAD_BYTES = 12_000_000
# The largest that is taken, less what is stored around the state.
LARGEST_BYTES = MOST_BYTES - 100_000
MOST_TIMES_PAYLOAD = {"submit": 4.0, "drain": 3.0, "show": 4.0, "resume": 3.0}
# A process that is started inherits the peak of the one that starts it, so that a small one must do that.
LAUNCHER = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


def small_members(size_bytes: int) -> str:
    text = (
        '{{"id":"task-{0:06}","status":"completed","output":"what {0:06} had to say","duration":1{0:06}.25}}'
    )
    items = (text.format(number) for number in range(size_bytes // 98))
    return '{"tasks":[' + ",".join(items) + "]}"


def large_strings(size_bytes: int) -> str:
    members = {f"output_{number}": "x" * (size_bytes // 5 - 20) for number in range(5)}
    return json.dumps(members, separators=(",", ":"))


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Yield the environment of commands that work with a GitHub in another process."""
    outside = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "GITHUB_"))
    }
    command = [sys.executable, "-m", "holdfast", "emulator", "--json", "--root", str(tmp_path / "github")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=outside) as emulator:
        try:
            assert emulator.stdout
            url = json.loads(emulator.stdout.readline())["url"]
            yield {
                **outside,
                "HOLDFAST_DATA_DIR": str(tmp_path / "data"),
                "HOLDFAST_REPO": "holdfast/checkpoints",
                "HOLDFAST_TOKEN": "a-token",
                "HOLDFAST_API_URL": url,
                "HOLDFAST_WRITE_INTERVAL_S": "0",
            }
        finally:
            emulator.terminate()


def peak_bytes(environment: dict[str, str], *words: str) -> int:
    """Return the most memory that a command has taken."""
    command = [sys.executable, "-S", "-c", LAUNCHER, sys.executable, "-m", "holdfast", *words]
    ended = subprocess.run(command, env=environment, capture_output=True, timeout=120, check=True)
    code, peak = map(int, ended.stdout.split())
    assert code == 0, ended.stderr.decode()
    return peak * UNIT_BYTES


@pytest.mark.skipif(sys.platform == "win32", reason="there is no getrusage")
@pytest.mark.parametrize(
    ("write", "write_mode"),
    [(small_members, "contents"), (small_members, "commit"), (large_strings, "commit")],
)
def test_large_checkpoint_takes_a_few_times_its_size_in_memory_on_every_way(
    environment: dict[str, str], tmp_path: Path, write: Callable[[int], str], write_mode: str
) -> None:
    environment["HOLDFAST_WRITE_MODE"] = write_mode
    size_bytes = 0
    least: dict[str, int] = {}
    for run_id, state in (("small", "{}"), ("large", write(PAYLOAD_BYTES))):
        document = tmp_path / f"{run_id}.json"
        document.write_text(state)
        size_bytes = document.stat().st_size
        for command, *words in (
            ("submit", str(document), "--run-id", run_id),
            ("drain", "--timeout", "60"),
            ("show", run_id, "--json"),
            ("resume", run_id, "--json"),
        ):
            peak = peak_bytes(environment, command, *words)
            base = least.setdefault(command, peak)
            assert peak <= base + MOST_TIMES_PAYLOAD[command] * size_bytes, (
                f"{command}: {peak:,} bytes, {base:,} of them for a small one"
            )


@pytest.mark.skipif(sys.platform == "win32", reason="there is no getrusage")
@pytest.mark.parametrize("write", [small_members, large_strings])
def test_save_of_the_largest_takes_less_than_four_times_its_size_in_memory(
    environment: dict[str, str], tmp_path: Path, write: Callable[[int], str]
) -> None:
    documents = {"small": "{}", "large": write(LARGEST_BYTES)}
    for run_id, state in documents.items():
        (tmp_path / run_id).write_text(state)
    peaks = [
        peak_bytes(environment, "submit", str(tmp_path / run_id), "--run-id", run_id) for run_id in documents
    ]

    size_bytes = (tmp_path / "large").stat().st_size
    assert size_bytes > 0.98 * MOST_BYTES
    assert peaks[1] - peaks[0] <= MOST_TIMES_PAYLOAD["submit"] * size_bytes
