"""Claims where several machines share a PostgreSQL: it is the judge, by its own clock."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast import Claimed, Fenced, Holdfast
from holdfast.clock import SystemClock
from holdfast.errors import Unavailable
from holdfast.github.write_calls import WriteFile
from holdfast.settings.kinds import Secret
from tests.fakes.assembly import BRANCH, make_assembly
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.postgres import own_server, postgres_url

Machine = Callable[..., Holdfast]


class SkewedClock(SystemClock):
    """A machine whose clock is wrong by hours."""

    def __init__(self, skew_s: float) -> None:
        super().__init__()
        self.skew_s = skew_s

    def now(self) -> float:
        return super().now() + self.skew_s


@pytest.fixture
def repository() -> MemoryGateway:
    return MemoryGateway()


@pytest.fixture
def machine(tmp_path: Path, repository: MemoryGateway) -> Iterator[Machine]:
    url = postgres_url(tmp_path)
    with ExitStack() as stack:

        def open_machine(name: str, skew_s: float = 0.0) -> Holdfast:
            clock = SkewedClock(skew_s)
            assembly = make_assembly(tmp_path / name, repository, clock, database_url=Secret(url))
            return stack.enter_context(Holdfast(assembly.settings, assembly=assembly))

        yield open_machine


def test_one_of_many_gets_the_run_and_no_request_goes_to_github(
    machine: Machine, repository: MemoryGateway
) -> None:
    machines = [machine(str(number), skew_s=3600.0 * number) for number in range(4)]
    held: list[int] = []
    refused: list[str] = []

    def claim(hf: Holdfast, name: str) -> None:
        try:
            held.append(hf.take_claim("r", owner=name).claim.fence)
        except Claimed as error:
            refused.append(error.owner)

    threads = [threading.Thread(target=claim, args=(hf, str(number))) for number, hf in enumerate(machines)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert held == [1]
    assert len(refused) == 3
    assert repository.count(WriteFile) == 0


def test_a_claim_is_renewed_released_and_taken_over_with_a_higher_fence(machine: Machine) -> None:
    a, b = machine("a"), machine("b", skew_s=-7200.0)
    with a.claim("r", owner="a") as claim:
        a.save("r", {"by": "a"})
        claim.renew()
        assert claim.is_held
        with pytest.raises(Claimed):
            b.claim("r")
    with pytest.raises(Fenced):
        b.submit({"run_id": "r", "trigger": "manual", "state": {}, "fence": 1})  # all share the queue
    with b.claim("r", owner="b") as claim:
        assert claim.fence == 2
        b.save("r", {"by": "b"})
        with pytest.raises(Fenced):
            a.submit({"run_id": "r", "trigger": "manual", "state": {}, "fence": 1})
        b.drain()
    assert a.resume("r").state == {"by": "b"}
    assert [entry.fence for entry in a.checkpoints("r").entries] == [1, 2]


def test_a_driven_run_is_not_deleted_by_a_machine_whose_clock_is_ahead(machine: Machine) -> None:
    holder, other = machine("a"), machine("b", skew_s=7200.0)
    holder.save("r", {"n": 1})
    holder.drain()
    taken = holder.take_claim("r", owner="a")

    with pytest.raises(Claimed):
        other.delete("r")

    assert holder.release_claim("r", taken.token)
    assert other.delete("r").deleted_files == 3


def test_a_run_that_github_judged_before_gets_no_lower_fence(
    machine: Machine, repository: MemoryGateway, tmp_path: Path
) -> None:
    before = make_assembly(tmp_path / "before", repository, SystemClock())
    with Holdfast(before.settings, assembly=before) as hf:
        for _ in range(3):
            with hf.claim("r"):
                hf.save("r", {})
        hf.drain()
    assert any(path.endswith("r/claim.json") for path in repository.files(BRANCH))
    with machine("a").claim("r") as claim:
        assert claim.fence == 4


def test_while_the_database_is_away_nothing_can_be_claimed(tmp_path: Path, repository: MemoryGateway) -> None:
    server = own_server()
    try:
        url = Secret(server.url)
        assembly = make_assembly(tmp_path / "a", repository, SystemClock(), database_url=url)
        with Holdfast(assembly.settings, assembly=assembly) as hf:
            hf.save("r", {})
            server.stop()
            with pytest.raises(Unavailable, match="decided in the database"):
                hf.take_claim("r")
    finally:
        server.close()
