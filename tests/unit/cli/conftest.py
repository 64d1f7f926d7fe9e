import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog

from holdfast.cli import main
from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)


Holdfast = Callable[..., Ended]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, data_dir: Path) -> Iterator[None]:
    """Nothing is configured but a data folder of the test's own; logs are as before afterwards."""
    for name in os.environ:
        if name.startswith(("HOLDFAST_", "GITHUB_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(data_dir))
    yield
    structlog.reset_defaults()


@pytest.fixture
def holdfast(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Holdfast:
    """Run a command in this process."""

    def run(*words: object, stdin: bytes | str = b"") -> Ended:
        text = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        capfd.readouterr()
        code = main([str(word) for word in words])
        captured = capfd.readouterr()
        return Ended(code, captured.out, captured.err)

    return run


@dataclass(frozen=True)
class GitHub:
    """An emulator on loopback, and the options with which a command reaches it."""

    emulator: Emulator
    url: str

    @property
    def options(self) -> tuple[str, ...]:
        return ("--repo", "holdfast/checkpoints", "--api-url", self.url)


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    """A GitHub that knows one token, with our own pauses between writes switched off."""
    monkeypatch.setenv("HOLDFAST_WRITE_INTERVAL_S", "0")
    monkeypatch.setenv("HOLDFAST_TOKEN", "the-good-token")
    emulator = Emulator(EmulatorOptions(root=tmp_path / "github", token="the-good-token"))
    with EmulatorServer(emulator) as server:
        yield GitHub(emulator, server.url)
    emulator.close()
