"""A caller's own field `checkpoints` makes no batch of a checkpoint, anywhere on its way."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from holdfast import Holdfast
from holdfast.settings import Settings
from tests.fakes.assembly import BRANCH, make_assembly
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway

VALUES: list[Any] = [[], [1, {"checkpoint_id": "x"}], {"a": 1}, "text", 7, None]


@pytest.fixture
def repository() -> MemoryGateway:
    return MemoryGateway()


@pytest.fixture(params=["contents", "commit"])
def holdfast(tmp_path: Path, repository: MemoryGateway, request: pytest.FixtureRequest) -> Iterator[Holdfast]:
    assembly = make_assembly(tmp_path, repository, VirtualClock(), write_mode=request.param)
    with Holdfast(Settings(), assembly=assembly) as holdfast:
        yield holdfast


def submit(holdfast: Holdfast, value: Any, number: int) -> None:
    checkpoint = {
        "run_id": "r",
        "trigger": "manual",
        "state": {"n": number, "checkpoints": value},
        "checkpoints": value,
        "batch_metadata": {"first_sequence": 1},
    }
    holdfast.submit(orjson.dumps(checkpoint))


@pytest.mark.parametrize("is_index_lost", [False, True])
def test_checkpoint_with_the_field_is_shown_resumed_and_compared(
    holdfast: Holdfast, repository: MemoryGateway, is_index_lost: bool
) -> None:
    for number, value in enumerate(VALUES, 1):
        submit(holdfast, value, number)
    assert holdfast.drain().left == 0
    if is_index_lost:
        repository.write_as_someone_else(BRANCH, {"checkpoints/r/index.json": None})
        submit(holdfast, [], len(VALUES) + 1)
        assert holdfast.drain().left == 0

    numbers = range(1, len(VALUES) + 1)
    assert [entry.sequence for entry in holdfast.checkpoints("r").entries][: len(VALUES)] == [*numbers]
    for number, value in zip(numbers, VALUES, strict=True):
        document = orjson.loads(holdfast.checkpoint("r", number).content)
        assert document["checkpoints"] == document["state_snapshot"]["checkpoints"] == value
        assert holdfast.resume("r", at=number).checkpoint_id == document["checkpoint_id"]
    assert holdfast.diff("r", 1, 2) is not None
    assert holdfast.validate("r").is_valid
