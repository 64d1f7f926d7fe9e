from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.assembly import Assembly
from holdfast.langgraph import HoldfastSaver
from holdfast.library import Holdfast
from holdfast.settings import Settings
from tests.fakes.memory_gateway import MemoryGateway

MakeSaver = Callable[[str], HoldfastSaver]


@pytest.fixture
def make_saver(tmp_path: Path) -> Iterator[MakeSaver]:
    """Return what makes a saver of one machine; all machines share one repository."""
    repository = MemoryGateway()
    opened: list[Holdfast] = []

    def make(machine: str) -> HoldfastSaver:
        settings = Settings.from_environment(
            {
                "HOLDFAST_DATA_DIR": str(tmp_path / machine),
                "HOLDFAST_MIN_FREE_BYTES": "0",
                "HOLDFAST_WRITE_INTERVAL_S": "0",
            }
        )
        opened.append(Holdfast(settings, assembly=Assembly(settings, gateway=repository)))
        return HoldfastSaver(opened[-1])

    yield make
    for holdfast in opened:
        holdfast.close()


@pytest.fixture
def saver(make_saver: MakeSaver) -> HoldfastSaver:
    return make_saver("here")
