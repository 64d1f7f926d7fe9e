"""The run r of a repository in memory: stored, damaged and looked at."""

from typing import Any

from holdfast.format.index import Index, parse_index
from holdfast.format.receipt import Receipt
from tests.fakes.assembly import BRANCH
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop


def store(workshop: Workshop, count: int = 1, run_id: str = "r", **fields: Any) -> list[Receipt]:
    """Return the receipts of so many more checkpoints, each of them stored before the next is saved."""
    stored = []
    for _ in range(count):
        receipt = workshop.save(run_id, **fields)
        assert workshop.worker.drain().left == 0
        stored.append(workshop.spool.receipt(receipt.checkpoint_id) or receipt)
    return stored


def remove(repository: MemoryGateway, *names: str) -> None:
    repository.write_as_someone_else(BRANCH, {f"checkpoints/r/{name}": None for name in names})


def names_of(repository: MemoryGateway) -> list[str]:
    prefix = "checkpoints/r/"
    return [path.removeprefix(prefix) for path in repository.files(BRANCH) if path.startswith(prefix)]


def index_of(repository: MemoryGateway) -> Index:
    return parse_index(repository.files(BRANCH)["checkpoints/r/index.json"], "index.json")
