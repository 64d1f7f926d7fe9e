"""Every gateway that the suite is run against, each on an empty repository."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.emulator.app import Emulator
from holdfast.emulator.options import EmulatorOptions
from holdfast.emulator.transport import EmulatorTransport
from holdfast.github.client import GitHubClient
from holdfast.github.gateway import Gateway
from holdfast.github.retrying import RetryingGateway
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway

REPOSITORY = "holdfast/checkpoints"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def emulator(tmp_path: Path, clock: VirtualClock) -> Iterator[Emulator]:
    emulator = Emulator(EmulatorOptions(root=tmp_path / "repositories", repo=REPOSITORY, clock=clock.now))
    yield emulator
    emulator.close()


@pytest.fixture
def client(emulator: Emulator, clock: VirtualClock) -> Iterator[GitHubClient]:
    transport = EmulatorTransport(emulator, sleep=clock.sleep)
    with GitHubClient(
        REPOSITORY, token=lambda: "t", api_url="http://github.test", clock=clock, transport=transport
    ) as client:
        yield client


@pytest.fixture(params=["memory", "client on the emulator", "retrying client", "retrying memory"])
def gateway(request: pytest.FixtureRequest) -> Gateway:
    kind: str = request.param
    inner: Gateway = MemoryGateway() if "memory" in kind else request.getfixturevalue("client")
    return RetryingGateway(inner, sleep=VirtualClock().sleep) if "retrying" in kind else inner
