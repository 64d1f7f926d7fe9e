"""Checkpoints that are too large for one file: stored in parts, read as one."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import IntegrityFailure
from holdfast.github.calls import ListFolder, ReadFile
from holdfast.github.write_calls import WriteFile
from tests.fakes.assembly import BRANCH
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, open_workshop, stored_run

LIMIT = 20_000
OUTPUT = "x" * 30_000


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    repository.write_as_someone_else(BRANCH, {"README.md": b""})
    return repository


def state_of(workshop: Workshop, sequence: int) -> Any:
    return json.loads(workshop.reader.read_checkpoint("r", sequence).content)["state_snapshot"]


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_large_output_is_stored_once_for_all_checkpoints_and_read_back(
    tmp_path: Path, repository: MemoryGateway, mode: str
) -> None:
    with open_workshop(tmp_path, repository, mode=mode, max_file_bytes=LIMIT) as workshop:
        for number in (1, 2, 3):
            workshop.save(state={"output": OUTPUT, "n": number})
            workshop.worker.drain()

        assert [state_of(workshop, number)["n"] for number in (1, 2, 3)] == [1, 2, 3]
        assert state_of(workshop, 2)["output"] == OUTPUT
    files = stored_run(repository)
    assert sum(name.startswith("parts/") for name in files) == 1
    assert all(len(json.dumps(files[name])) < LIMIT for name in files if "/" not in name)


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_burst_of_large_ones_is_verified_too(tmp_path: Path, repository: MemoryGateway, mode: str) -> None:
    with open_workshop(tmp_path, repository, mode=mode, max_file_bytes=LIMIT) as workshop:
        for number in (1, 2, 3):
            workshop.save(state={"output": OUTPUT + str(number)})

        assert workshop.worker.drain().verified == 3
        assert [state_of(workshop, number)["output"][-1] for number in (1, 2, 3)] == ["1", "2", "3"]


def test_part_is_written_and_read_back_before_its_checkpoint_is_indexed(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path, repository, max_file_bytes=LIMIT) as workshop:
        workshop.save(state={"output": OUTPUT})
        workshop.worker.drain()

    calls = [call for call in repository.calls if isinstance(call, WriteFile | ReadFile | ListFolder)]
    order = [f"{type(call).__name__} {call.path.split('/')[2:3]}" for call in calls]
    assert order[-6:] == [
        "WriteFile ['parts']",
        "WriteFile ['cp_001_manual.json']",
        "ReadFile ['parts']",
        "ListFolder []",
        "WriteFile ['index.json']",
        "WriteFile ['latest.json']",
    ]


@pytest.mark.parametrize("damage", [None, b"short"])
def test_lost_or_altered_part_is_named(
    tmp_path: Path, repository: MemoryGateway, damage: bytes | None
) -> None:
    with open_workshop(tmp_path, repository, max_file_bytes=LIMIT) as workshop:
        workshop.save(state={"output": OUTPUT})
        workshop.worker.drain()
        (part,) = [path for path in repository.files(BRANCH) if "/parts/" in path]
        repository.write_as_someone_else(BRANCH, {part: damage})

    with open_workshop(tmp_path / "elsewhere", repository) as other:
        with pytest.raises(IntegrityFailure) as failure:
            other.reader.read_checkpoint("r", 1)
        with pytest.raises(IntegrityFailure, match=part):
            other.reader.read_checkpoint("r")

    assert failure.value.path == part
