from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer, EmulatorTransport

START = 1_750_000_000.0


@pytest.fixture
def now() -> list[float]:
    """The emulator's clock: change its one number to let time pass."""
    return [START]


@pytest.fixture
def emulator(tmp_path: Path, now: list[float]) -> Iterator[Emulator]:
    emulator = Emulator(EmulatorOptions(root=tmp_path / "root", clock=lambda: now[0]))
    yield emulator
    emulator.close()


@pytest.fixture
def folder(emulator: Emulator) -> Path:
    """The bare repository on disk."""
    return emulator.options.root / "holdfast" / "checkpoints.git"


@pytest.fixture
def client(emulator: Emulator, now: list[float]) -> Iterator[httpx.Client]:
    """A client whose requests run in this process; waiting moves the emulator's clock."""

    def sleep(seconds: float) -> None:
        now[0] += seconds

    transport = EmulatorTransport(emulator, sleep=sleep)
    with httpx.Client(
        transport=transport, base_url="http://emulator/repos/holdfast/checkpoints/", timeout=5
    ) as client:
        yield client


@pytest.fixture
def server(emulator: Emulator) -> Iterator[EmulatorServer]:
    with EmulatorServer(emulator) as server:
        yield server
