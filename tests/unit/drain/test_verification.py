"""What was written is read back at the commit that wrote it; what others changed meanwhile is a conflict."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.drain.verification import Verifier
from holdfast.drain.write_plan import FileWrite
from holdfast.errors import Conflict, Unverified
from holdfast.format.git_ids import blob_sha
from holdfast.format.paths import Layout
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.github.calls import ListFolder, ReadFile
from tests.fakes.assembly import BRANCH
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, open_workshop

INDEX_PATH, LATEST_PATH = "checkpoints/r/index.json", "checkpoints/r/latest.json"


@pytest.fixture
def workshop(tmp_path: Path, repository: MemoryGateway) -> Iterator[Workshop]:
    """Return one that has stored a checkpoint of the run r, and knows nothing of it by heart."""
    with open_workshop(tmp_path, repository) as workshop:
        workshop.save()
        workshop.worker.drain()
        workshop.runs.forget("r")
        yield workshop


@pytest.fixture
def verifier(workshop: Workshop, repository: MemoryGateway) -> Verifier:
    return Verifier(repository, workshop.runs, Layout(), BRANCH)


@pytest.fixture
def snapshot(workshop: Workshop) -> RunSnapshot:
    return workshop.runs.refresh("r")


def put(repository: MemoryGateway, *names: str) -> tuple[list[FileWrite], dict[str, str]]:
    """Write such files, as a step would; return them, and the commit of each."""
    paths = [f"checkpoints/r/{name}" for name in names]
    repository.write_as_someone_else(BRANCH, {path: path.encode() for path in paths})
    head = repository.branches[BRANCH]
    files = [FileWrite(path, path.encode(), blob_sha(path.encode()), "A message") for path in paths]
    return files, dict.fromkeys(paths, head)


def test_many_files_are_found_with_one_listing(
    verifier: Verifier, snapshot: RunSnapshot, repository: MemoryGateway
) -> None:
    files, commits = put(repository, "cp_002_manual.json", "cp_003_manual.json")
    repository.calls.clear()

    found = verifier.find(snapshot, snapshot.index, files, commits)

    assert found == {file.path: file.blob_sha for file in files}
    assert (repository.count(ListFolder), repository.count(ReadFile)) == (1, 0)


def test_file_that_was_never_stored_has_no_blob(
    verifier: Verifier, snapshot: RunSnapshot, repository: MemoryGateway
) -> None:
    files, commits = put(repository, "cp_002_manual.json", "cp_003_manual.json")
    lost = FileWrite("checkpoints/r/cp_004_manual.json", b"{}", blob_sha(b"{}"), "A message")

    found = verifier.find(
        snapshot, snapshot.index, [*files, lost], {**commits, lost.path: commits[files[0].path]}
    )

    assert found[lost.path] is None


@pytest.mark.parametrize("path", [INDEX_PATH, LATEST_PATH])
@pytest.mark.parametrize("content", [None, b'{"changed": true}'])
def test_index_or_latest_that_others_changed_is_a_conflict(
    verifier: Verifier, snapshot: RunSnapshot, repository: MemoryGateway, path: str, content: bytes | None
) -> None:
    repository.write_as_someone_else(BRANCH, {path: content})
    files, commits = put(repository, "cp_002_manual.json", "cp_003_manual.json")

    with pytest.raises(Conflict, match="changed or removed"):
        verifier.find(snapshot, snapshot.index, files, commits)


def test_file_of_the_index_that_others_removed_is_a_conflict(
    verifier: Verifier, snapshot: RunSnapshot, repository: MemoryGateway
) -> None:
    repository.write_as_someone_else(BRANCH, {"checkpoints/r/cp_001_manual.json": None})
    files, commits = put(repository, "cp_002_manual.json", "cp_003_manual.json")

    with pytest.raises(Conflict, match="removed meanwhile"):
        verifier.find(snapshot, snapshot.index, files, commits)


def test_what_is_not_visible_yet_is_unverified(
    verifier: Verifier, snapshot: RunSnapshot, repository: MemoryGateway
) -> None:
    part = FileWrite("checkpoints/r/parts/x.json", b"{}", blob_sha(b"{}"), "A message", is_part=True)

    with pytest.raises(Unverified, match="not visible yet"):
        verifier.find(snapshot, snapshot.index, [part], {part.path: repository.branches[BRANCH]})


def test_sound_checkpoint_in_the_place_of_ours_is_another_writers(
    verifier: Verifier, repository: MemoryGateway
) -> None:
    path = "checkpoints/r/cp_001_manual.json"
    ours = FileWrite(path, b"{}", blob_sha(b"{}"), "A message")
    theirs = blob_sha(repository.files(BRANCH)[path])

    with pytest.raises(Conflict, match="taken this name"):
        verifier.check_ours(ours, theirs)
    verifier.check_ours(ours, None)


def test_damaged_file_in_the_place_of_ours_may_be_replaced(
    verifier: Verifier, repository: MemoryGateway
) -> None:
    repository.write_as_someone_else(BRANCH, {"checkpoints/r/cp_002_manual.json": b"{damaged"})
    ours = FileWrite("checkpoints/r/cp_002_manual.json", b"{}", blob_sha(b"{}"), "A message")

    verifier.check_ours(ours, blob_sha(b"{damaged"))
