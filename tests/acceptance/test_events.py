"""What the log of a drain tells of the budget, against a GitHub that allows little."""

import json
from pathlib import Path

from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from tests.fakes.commands import run_command

LIMIT, LOW = 130, 100


def test_a_low_budget_is_told_once_in_each_window_with_what_is_left_and_until_when(tmp_path: Path) -> None:
    emulator = Emulator(EmulatorOptions(root=tmp_path / "github", repo="acme/state", primary_limit=LIMIT))
    told = []
    with EmulatorServer(emulator) as server:
        environment = {
            "HOLDFAST_DATA_DIR": str(tmp_path / "data"),
            "HOLDFAST_REPO": "acme/state",
            "HOLDFAST_TOKEN": "any",
            "HOLDFAST_API_URL": server.url,
            "HOLDFAST_WRITE_INTERVAL_S": "0",
            "HOLDFAST_LOW_BUDGET": str(LOW),
            "HOLDFAST_LOG_LEVEL": "info",
            "HOLDFAST_LOG_FORMAT": "json",
        }
        for beginning in (0, 8):  # the second drain is another process, in the same window
            for number in range(beginning, beginning + 8):
                words = ("submit", "-", "--run-id", f"r{number}", "--trigger", "manual")
                assert run_command(*words, environment=environment, stdin=b"{}").returncode == 0
            drained = run_command("drain", environment=environment)
            assert drained.returncode == 0, drained.stderr
            lines = [json.loads(line) for line in drained.stderr.splitlines() if line.startswith(b"{")]
            told += [line for line in lines if line["event"] == "budget_low"]
    emulator.close()

    (low,) = told
    assert (low["remaining"] < LOW, low["limit"]) == (True, LIMIT)
    assert low["reset"] > low["timestamp"]
