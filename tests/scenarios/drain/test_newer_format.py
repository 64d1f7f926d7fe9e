"""What a newer Holdfast wrote is left alone, and told; that run waits, and the others go on."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import NewerFormat
from holdfast.repository.validate import Validator
from tests.fakes.assembly import BRANCH
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, check_run, open_workshop

INDEX = "checkpoints/r/index.json"
LATEST = "checkpoints/r/latest.json"


@pytest.fixture
def repository() -> MemoryGateway:
    return MemoryGateway()


@pytest.fixture(params=["contents", "commit"])
def workshop(tmp_path: Path, repository: MemoryGateway, request: pytest.FixtureRequest) -> Iterator[Workshop]:
    with open_workshop(tmp_path, repository, mode=request.param) as workshop:
        workshop.save("r")
        workshop.worker.drain()
        yield workshop


def upgrade(repository: MemoryGateway, *paths: str) -> dict[str, bytes]:
    """Have a newer Holdfast write these files, and return them."""
    files = {}
    for path in paths:
        document = json.loads(repository.files(BRANCH)[path])
        files[path] = json.dumps({**document, "format_version": 2, "invented_later": [1]}).encode()
    repository.write_as_someone_else(BRANCH, files)
    return files


@pytest.mark.parametrize("paths", [(INDEX,), (LATEST,), (INDEX, LATEST)])
def test_run_of_a_newer_format_waits_unchanged_while_the_others_go_on(
    workshop: Workshop, repository: MemoryGateway, paths: tuple[str, ...]
) -> None:
    newer = upgrade(repository, *paths)
    for run_id in ("a", "r", "z"):
        workshop.save(run_id)

    result = workshop.worker.drain()

    assert (result.verified, result.left) == (2, 1)
    assert "format 2 is newer than this Holdfast reads (1); upgrade it" in result.reason
    files = repository.files(BRANCH)
    assert {path: files[path] for path in paths} == newer
    for run_id in ("a", "z"):
        check_run(repository, run_id)


def test_run_goes_on_once_it_is_of_our_format_again(workshop: Workshop, repository: MemoryGateway) -> None:
    before = {path: repository.files(BRANCH)[path] for path in (INDEX, LATEST)}
    upgrade(repository, INDEX, LATEST)
    workshop.save("r")
    workshop.worker.drain()
    repository.write_as_someone_else(BRANCH, before)

    assert workshop.worker.drain(timeout_s=3600).left == 0
    assert sorted(check_run(repository)) == [1, 2]


def test_readers_tell_that_the_run_is_of_a_newer_format(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    upgrade(repository, INDEX)

    for read in (workshop.reader.list_checkpoints, Validator(workshop.reader).check_run):
        with pytest.raises(NewerFormat, match=r"checkpoints/r/index\.json: format 2 is newer"):
            read("r")


def test_sweep_leaves_the_run_alone(workshop: Workshop, repository: MemoryGateway) -> None:
    newer = upgrade(repository, INDEX)

    (plan,) = workshop.assembly.sweeper.plan().plan.runs

    assert (plan.action, plan.delete) == ("leave", {})
    assert "format 2 is newer" in plan.reason
    assert repository.files(BRANCH)[INDEX] == newer[INDEX]


@pytest.mark.parametrize("name", ["retention_log.json", "preserved_runs.json"])
def test_sweep_refuses_where_its_own_files_are_of_a_newer_format(
    workshop: Workshop, repository: MemoryGateway, name: str
) -> None:
    content = b'{"format_version": 2, "runs": {}, "sweeps": []}'
    repository.write_as_someone_else(BRANCH, {f"checkpoints/{name}": content})

    with pytest.raises(NewerFormat, match=f"{name}: format 2 is newer"):
        workshop.assembly.sweeper.sweep()
    assert repository.files(BRANCH)[f"checkpoints/{name}"] == content


def test_members_that_we_do_not_know_survive_a_rewrite(workshop: Workshop, repository: MemoryGateway) -> None:
    index = json.loads(repository.files(BRANCH)[INDEX])
    index["owner"] = {"team": "night shift"}
    index["checkpoints"][0]["label"] = "the good one"
    repository.write_as_someone_else(BRANCH, {INDEX: json.dumps(index).encode()})
    workshop.save("r")

    assert workshop.worker.drain().left == 0

    rewritten = json.loads(repository.files(BRANCH)[INDEX])
    assert rewritten["owner"] == {"team": "night shift"}
    assert [entry.get("label") for entry in rewritten["checkpoints"]] == ["the good one", None]
    check_run(repository)
