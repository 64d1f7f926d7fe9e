"""A step of a job, against an emulator."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from holdfast.action.entry import main
from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from tests.fakes.repository import read_branch
from tests.unit.action.outputs import parse_outputs

REPOSITORY = "owner/name"
TOKEN = "ghs_canary0123456789"


class Stage:
    """Runs steps of one job. Another job has another folder for its files."""

    def __init__(
        self, folder: Path, emulator: Emulator, url: str, capture: pytest.CaptureFixture[str]
    ) -> None:
        self.folder = folder
        self.emulator = emulator
        self.url = url
        self._capture = capture
        self.code = 0
        self.printed = ""
        self.outputs: dict[str, str] = {}
        self.summary = ""

    def run(
        self,
        command: str,
        *,
        job: str = "build",
        run_number: str = "1",
        variables: Mapping[str, str] | None = None,
        **inputs: str,
    ) -> dict[str, str]:
        """Run one step, and return its outputs."""
        temp = self.folder / "temp" / f"{job}-{run_number}"
        temp.mkdir(parents=True, exist_ok=True)
        output, summary = temp / "output", temp / "summary"
        output.write_text("")
        self.variables, self.path = temp / "variables", temp / "path"
        self.variables.write_text("")
        self.path.write_text("")
        summary.write_text("")
        given = {"command": command, "token": TOKEN, "timeout": "0", **inputs}
        self.code = main(
            {
                **{f"HOLDFAST_INPUT_{name.upper()}": value for name, value in given.items()},
                "HOLDFAST_WRITE_INTERVAL_S": "0",
                "GITHUB_API_URL": self.url,
                "GITHUB_WORKFLOW": "CI",
                "GITHUB_RUN_ID": run_number,
                "GITHUB_JOB": job,
                "GITHUB_REPOSITORY": REPOSITORY,
                "GITHUB_OUTPUT": str(output),
                "GITHUB_ENV": str(self.variables),
                "GITHUB_PATH": str(self.path),
                "GITHUB_STEP_SUMMARY": str(summary),
                "RUNNER_TEMP": str(temp),
                **(variables or {}),
            }
        )
        self.printed, errors = self._capture.readouterr()
        assert errors == "", "the runner would not know where this belongs"
        self.summary = summary.read_text(encoding="utf-8")
        self.outputs = parse_outputs(output.read_text(encoding="utf-8"))
        return self.outputs

    @property
    def warnings(self) -> list[str]:
        """Return what the job was warned of."""
        mark = "::warning title=Holdfast::"
        return [line.removeprefix(mark) for line in self.printed.splitlines() if line.startswith(mark)]

    def stored(self, branch: str = "checkpoints") -> dict[str, bytes]:
        """Return every file of the repository's branch."""
        return read_branch(self.emulator.options.root / f"{REPOSITORY}.git", branch)


@pytest.fixture
def stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Stage]:
    options = EmulatorOptions(root=tmp_path / "github", repo=REPOSITORY, token=TOKEN, primary_limit=1000)
    emulator = Emulator(options)
    try:
        with EmulatorServer(emulator) as server:
            yield Stage(tmp_path, emulator, server.url, capsys)
    finally:
        emulator.close()
