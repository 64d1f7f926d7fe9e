"""How what waits gets to GitHub, and how long a caller waits for that."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import SpoolBusy, Unavailable, UnknownRun
from holdfast.github.calls import Call
from holdfast.library import Holdfast
from tests.fakes.assembly import make_assembly
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    repository.write_as_someone_else("checkpoints", {"README.md": b""})
    return repository


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def holdfast(tmp_path: Path, repository: MemoryGateway, clock: VirtualClock) -> Iterator[Holdfast]:
    assembly = make_assembly(tmp_path / "data", repository, clock)
    with Holdfast(assembly.settings, assembly=assembly) as holdfast:
        yield holdfast


def test_what_was_drained_has_left_the_spool(holdfast: Holdfast) -> None:
    holdfast.save("r", {})

    result = holdfast.drain()

    assert (result.left, holdfast.status()["spool"]["depth"]) == (0, 0)


def test_who_waits_is_told_once_its_checkpoint_is_verified(holdfast: Holdfast) -> None:
    receipt = holdfast.save("r", {})

    told = holdfast.wait(receipt.checkpoint_id, timeout_s=60)

    assert told is not None
    assert told.status == "verified"


def test_who_waits_for_a_stranger_is_told_nothing(holdfast: Holdfast) -> None:
    assert holdfast.wait("00000000-0000-4000-8000-000000000000", timeout_s=60) is None


def test_who_waits_for_a_github_that_is_away_waits_no_longer_than_it_said(
    holdfast: Holdfast, repository: MemoryGateway, clock: VirtualClock
) -> None:
    receipt, began = holdfast.save("r", {}), clock.now()
    repository.fail_next(Call, Unavailable("x", "no answer"), times=100)

    told = holdfast.wait(receipt.checkpoint_id, timeout_s=60)

    assert told is not None
    assert told.status == "spooled"
    assert clock.now() - began <= 60


def test_beside_another_that_drains_one_waits_for_that(
    holdfast: Holdfast, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipt, busy = holdfast.save("r", {}), [3]
    drain = holdfast._drain

    def drain_later(*arguments: object, **options: object) -> object:
        if busy[0]:
            busy[0] -= 1
            raise SpoolBusy("another process is draining")
        return drain(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(holdfast, "_drain", drain_later)
    began = clock.now()
    told = holdfast.wait(receipt.checkpoint_id, timeout_s=60)

    assert told is not None
    assert (told.status, busy) == ("verified", [0])
    assert clock.now() - began == pytest.approx(0.3)


def test_who_is_to_stop_waits_no_more(holdfast: Holdfast) -> None:
    receipt = holdfast.save("r", {})
    holdfast._assembly.stop.set()

    told = holdfast.wait(receipt.checkpoint_id, timeout_s=60)

    assert told is not None
    assert told.status == "spooled"


def test_a_spool_can_be_carried_elsewhere(holdfast: Holdfast, tmp_path: Path) -> None:
    receipt = holdfast.save("r", {})

    holdfast.export_spool(tmp_path / "unsent")

    assert holdfast.import_spool(tmp_path / "unsent").known == (receipt.checkpoint_id,)
    assert holdfast.status()["spool"]["depth"] == 1


def test_what_was_set_aside_is_put_back(holdfast: Holdfast) -> None:
    receipt = holdfast.save("r", {})
    spool = holdfast._assembly.spool
    (item,) = spool.pending()
    spool.set_aside(item, "a rule forbids it")

    assert holdfast.restore(redact=True) == []
    assert holdfast.restore() == [receipt.checkpoint_id]
    with pytest.raises(UnknownRun):
        holdfast.restore(["00000000-0000-4000-8000-000000000000"])
