"""Every gateway that the suite is run against, each on an empty repository."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from holdfast.clock import Deadline
from holdfast.emulator.app import Emulator
from holdfast.emulator.options import EmulatorOptions
from holdfast.emulator.server import EmulatorServer
from holdfast.emulator.transport import EmulatorTransport
from holdfast.github.calls import Gateway
from holdfast.github.client import GitHubClient
from holdfast.github.light_client import LightClient
from holdfast.github.wrappers.budgeted import BudgetedGateway
from holdfast.github.wrappers.deadline import DeadlineGateway
from holdfast.github.wrappers.retrying import RetryingGateway
from holdfast.ratelimit.limits import Limits
from holdfast.ratelimit.shared_file import FileRateLimiter
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway

REPOSITORY = "holdfast/checkpoints"
WITH_RETRIES = ("every wrapper", "retrying memory")


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
        REPOSITORY, token=lambda: "a-token", api_url="http://github.test", clock=clock, transport=transport
    ) as client:
        yield client


@pytest.fixture
def light_client(emulator: Emulator, clock: VirtualClock) -> Iterator[LightClient]:
    with (
        EmulatorServer(emulator, sleep=clock.sleep) as server,
        LightClient(REPOSITORY, token=lambda: "a-token", api_url=server.url, clock=clock) as client,
    ):
        yield client


@pytest.fixture(
    params=["memory", "client on the emulator", "light client", "every wrapper", "retrying memory"]
)
def gateway(request: pytest.FixtureRequest, tmp_path: Path, clock: VirtualClock) -> Gateway:
    kind: str = request.param
    if kind == "light client":
        return cast(LightClient, request.getfixturevalue("light_client"))
    inner: Gateway = MemoryGateway() if "memory" in kind else request.getfixturevalue("client")
    if kind == "every wrapper":
        deadline = Deadline(clock)
        limiter = FileRateLimiter(tmp_path / "budget.json", Limits(), clock)
        inner = DeadlineGateway(BudgetedGateway(inner, limiter, deadline.wait_for_room), deadline)
        return RetryingGateway(inner, sleep=deadline.wait)
    return RetryingGateway(inner, sleep=clock.sleep) if kind in WITH_RETRIES else inner
