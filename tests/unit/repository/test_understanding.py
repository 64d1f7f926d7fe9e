"""A snapshot: what is read for it, and what it tells of a folder in every state."""

import json
from collections.abc import Callable, Container, Mapping
from threading import Event, Thread

import pytest

from holdfast.errors import NotInCopy
from holdfast.format.checkpoint import stamp
from holdfast.format.git_ids import blob_sha
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.repository.understanding import RunFiles, take_snapshot
from tests.fakes.stored_runs import LAYOUT, make_envelope, make_run

SINGLES = [f"cp_00{number}_manual.json" for number in (1, 2, 3)]


class Folder:
    """Files of the run r that note which of them were read."""

    def __init__(self, files: Mapping[str, bytes], *, is_whole: bool = True) -> None:
        self.files = files
        self.read_names: list[str] = []
        self._is_whole = is_whole

    def read(self, name: str) -> bytes:
        self.read_names.append(name)
        if not self.files[name]:
            raise NotInCopy(f"checkpoints/r/{name}")
        return self.files[name]

    def take(self) -> RunSnapshot:
        blobs = {name: blob_sha(content) for name, content in self.files.items()}
        files = RunFiles("r", blobs, self.read, lambda: self.files, is_whole=self._is_whole)
        return take_snapshot(files, LAYOUT)


def without(*names: str, count: int = 3) -> dict[str, bytes]:
    files = make_run("r", count, workflow="ci.yml")
    return {name: content for name, content in files.items() if name not in names}


def numbers(snapshot: RunSnapshot) -> list[int]:
    return [entry.sequence for entry in snapshot.index.entries]


def test_sound_folder_costs_only_its_index() -> None:
    folder = Folder(make_run("r"))

    snapshot = folder.take()

    assert folder.read_names == ["index.json"]
    assert (numbers(snapshot), snapshot.latest_sequence) == ([1, 2, 3], 3)
    assert snapshot.is_index_stored
    assert snapshot.flaws == ()


def test_new_run_has_nothing_and_nothing_to_store() -> None:
    snapshot = Folder({}).take()

    assert (numbers(snapshot), snapshot.is_index_stored, snapshot.index_sha) == ([], True, None)


@pytest.mark.parametrize("index", [None, b"{", make_run("other")["index.json"]])
def test_lost_index_is_made_anew_with_the_workflow(index: bytes | None) -> None:
    files = without("index.json") | ({"index.json": index} if index else {})
    folder = Folder(files)

    snapshot = folder.take()

    assert numbers(snapshot) == [1, 2, 3]
    assert not snapshot.is_index_stored
    assert snapshot.index.workflow == "ci.yml"
    assert snapshot.index.last_updated == snapshot.index.entries[-1].timestamp
    assert snapshot.flaws[0].path == "checkpoints/r/index.json"
    assert {*SINGLES} <= {*folder.read_names}


def test_dangling_entries_are_told_and_left_out() -> None:
    snapshot = Folder(without("cp_002_manual.json")).take()

    assert (numbers(snapshot), snapshot.is_index_stored) == ([1, 3], False)
    assert str(snapshot.flaws[0]) == (
        "checkpoints/r/index.json: it names cp_002_manual.json, which is not there"
    )


def test_index_is_taken_at_its_word_where_the_listing_is_not_whole() -> None:
    snapshot = Folder(without("cp_002_manual.json"), is_whole=False).take()

    assert (numbers(snapshot), snapshot.is_index_stored, snapshot.flaws) == ([1, 2, 3], True, ())


def test_outdated_index_is_united_with_the_files() -> None:
    older = make_run("r", 1)["index.json"]

    snapshot = Folder({**make_run("r"), "index.json": older}).take()

    assert (numbers(snapshot), snapshot.is_index_stored) == ([1, 2, 3], False)
    assert "older than latest.json" in snapshot.flaws[0].reason


def test_latest_that_is_alone_is_revived() -> None:
    snapshot = Folder(without("index.json", *SINGLES)).take()

    assert snapshot.revived
    assert snapshot.revived.sequence == 3
    assert [entry.file_path for entry in snapshot.index.entries] == ["checkpoints/r/cp_003_manual.json"]
    assert not snapshot.is_index_stored


@pytest.mark.parametrize("content", [b"{", make_envelope("other", 3).content])
def test_damaged_latest_is_worth_nothing(content: bytes) -> None:
    snapshot = Folder({**make_run("r"), "latest.json": content}).take()

    assert (numbers(snapshot), snapshot.latest_sequence, snapshot.is_index_stored) == ([1, 2, 3], 0, True)
    assert [flaw.path for flaw in snapshot.flaws] == ["checkpoints/r/latest.json"]


@pytest.mark.slow
def test_file_of_too_many_values_is_not_opened() -> None:
    bomb = b'{"state_snapshot":[' + b"[]," * 7_000_000 + b"0]}"

    snapshot = Folder({**without("index.json"), "cp_004_manual.json": bomb}).take()

    assert numbers(snapshot) == [1, 2, 3]
    assert "so many values" in snapshot.flaws[-1].reason


def test_file_that_cannot_be_had_is_told_and_its_number_is_not_taken_for_pruned() -> None:
    snapshot = Folder({**without("index.json"), "cp_001_manual.json": b""}).take()

    assert (numbers(snapshot), snapshot.index.pruned_through) == ([2, 3], 0)
    assert "checkpoints/r/cp_001_manual.json" in [flaw.path for flaw in snapshot.flaws]


def in_parts() -> bytes:
    """Return a checkpoint that refers to a part."""
    body = json.loads(make_envelope("r", 1, state={"x": {"$part": "checkpoints/r/parts/a.json"}}).content)
    del body["integrity"]
    body["parts"] = [["state_snapshot", "x"]]
    return stamp(json.dumps(body, separators=(",", ":")).encode()).content


def test_lost_part_is_told() -> None:
    snapshot = Folder({"cp_001_manual.json": in_parts()}).take()

    assert (numbers(snapshot), snapshot.flaws[-1].path) == ([], "checkpoints/r/parts/a.json")


def test_request_of_one_thread_keeps_no_other_waiting() -> None:
    is_asked, is_answered = Event(), Event()

    def answer_late() -> Container[str]:
        is_asked.set()
        is_answered.wait(60)
        return ()

    def start(part_names: Callable[[], Container[str]]) -> Thread:
        files = RunFiles("r", {"cp_001_manual.json": "x"}, lambda _: in_parts(), part_names)
        thread = Thread(target=take_snapshot, args=(files, LAYOUT))
        thread.start()
        return thread

    slow = start(answer_late)
    assert is_asked.wait(60)
    quick = start(tuple)
    quick.join(60)
    is_kept_waiting = quick.is_alive()
    is_answered.set()
    slow.join(60)

    assert not is_kept_waiting
