"""Members that did not change are stored once: on every way from the spool to the repository and back."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import Unavailable
from holdfast.format.checkpoint import Envelope
from holdfast.github.calls import ReadHeadIfChanged, ReadPage
from holdfast.github.write_calls import WriteFile
from holdfast.repository.validate import Validator
from holdfast.retention.rules import RetentionRules
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.desk import open_desk
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.one_run import names_of, remove
from tests.fakes.stored_runs import NOON
from tests.fakes.workshop import Workshop, check_run, open_workshop

MODES = pytest.mark.parametrize("mode", ["contents", "commit"])
BIG = "x" * 80_000


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    repository.write_as_someone_else(BRANCH, {"README.md": b""})
    return repository


def store_states(workshop: Workshop, *states: Any) -> None:
    for state in states:
        workshop.save(state=state)
        assert workshop.worker.drain().left == 0


def state_of(envelope: Envelope) -> Any:
    return json.loads(envelope.content)["state_snapshot"]


def states_of(workshop: Workshop) -> list[Any]:
    return [state_of(envelope) for envelope in workshop.reader.history("r").envelopes]


def parts_of(repository: MemoryGateway) -> list[str]:
    return [name for name in names_of(repository) if name.startswith("parts/")]


def sent_bytes(repository: MemoryGateway) -> Iterator[int]:
    for call in repository.calls:
        if content := getattr(call, "content", None):
            yield len(content)
        yield from (len(each) for each in getattr(call, "additions", {}).values())


@MODES
def test_member_that_stays_is_stored_once_and_every_state_comes_back(
    tmp_path: Path, repository: MemoryGateway, mode: str
) -> None:
    states = [{"big": BIG, "n": number} for number in range(6)]
    with open_workshop(tmp_path / "ours", repository, mode=mode, incremental="on") as ours:
        store_states(ours, *states)
    with open_workshop(tmp_path / "theirs", repository, mode=mode) as theirs:
        assert states_of(theirs) == states
        assert theirs.reader.resume("r").state == states[-1]
        assert Validator(theirs.reader).check_run("r").is_valid

    assert len(parts_of(repository)) == 1
    assert len(check_run(repository)) == 6
    files = repository.files(BRANCH)
    assert files["checkpoints/r/latest.json"] == files["checkpoints/r/cp_006_manual.json"]
    assert len(files["checkpoints/r/latest.json"]) < 1500


@pytest.mark.parametrize(("mode", "setting"), [("contents", "auto"), ("contents", "off"), ("commit", "off")])
def test_nothing_is_split_where_that_is_off(
    tmp_path: Path, repository: MemoryGateway, mode: str, setting: str
) -> None:
    with open_workshop(tmp_path, repository, mode=mode, incremental=setting) as workshop:
        store_states(workshop, *[{"big": BIG}] * 3)

    assert parts_of(repository) == []


@MODES
def test_checkpoint_with_known_members_takes_no_more_requests(
    tmp_path: Path, repository: MemoryGateway, mode: str
) -> None:
    counts = {}
    for setting in ("off", "on"):
        other = MemoryGateway()
        other.write_as_someone_else(BRANCH, {"README.md": b""})
        with open_workshop(tmp_path / setting, other, mode=mode, incremental=setting) as workshop:
            store_states(workshop, *[{"big": BIG, "n": number} for number in range(3)])
            other.calls.clear()
            store_states(workshop, *[{"big": BIG, "n": number} for number in range(5)])
            counts[setting] = len(other.calls)
            if setting == "on":
                assert sum(sent_bytes(other)) < 30_000

    assert counts["on"] == counts["off"]


def test_another_machine_and_a_restart_go_on_with_the_same_part(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    for number, machine in enumerate(("ours", "theirs", "ours", "theirs", "new")):
        with open_workshop(tmp_path / machine, repository, mode="commit") as workshop:
            store_states(workshop, {"big": BIG, "n": number})

    assert len(parts_of(repository)) == 1
    contents = [len(content) for path, content in repository.files(BRANCH).items() if "/cp_" in path]
    assert sorted(contents)[-2] < 2000


def test_resume_on_a_fresh_machine_gets_all_parts_in_one_query_and_then_asks_for_none(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    state = {f"m{number}": str(number) * 5000 for number in range(30)}
    with open_workshop(tmp_path / "ours", repository, mode="commit") as ours:
        store_states(ours, state, state)
    assert len(parts_of(repository)) == 30
    repository.calls.clear()

    with open_workshop(tmp_path / "theirs", repository, mode="commit") as theirs:
        assert theirs.reader.resume("r").state == state
        # The head, index.json and latest.json in one query, and all parts in one further.
        assert [type(call) for call in repository.calls] == [ReadHeadIfChanged, ReadPage, ReadPage]
        repository.calls.clear()
        assert theirs.reader.resume("r").state == state
        assert repository.count(ReadPage) == 0


def test_part_that_someone_deleted_is_sent_again(tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path / "ours", repository, mode="commit") as ours:
        store_states(ours, {"big": BIG, "n": 1}, {"big": BIG, "n": 2})
    remove(repository, *parts_of(repository))

    with open_workshop(tmp_path / "theirs", repository, mode="commit") as theirs:
        store_states(theirs, {"big": BIG, "n": 3}, {"big": BIG, "n": 4})
        assert theirs.reader.resume("r").state == {"big": BIG, "n": 4}


@MODES
def test_pruning_takes_the_parts_that_nobody_refers_to_and_no_others(
    tmp_path: Path, repository: MemoryGateway, mode: str
) -> None:
    old, new = "o" * 80_000, "n" * 80_000
    states = [{"big": text, "n": number} for number, text in enumerate([old, old, old, new, new, new])]
    with open_workshop(tmp_path / "ours", repository, mode=mode, incremental="on") as ours:
        store_states(ours, *states)
    assert len(parts_of(repository)) == 2

    with open_desk(tmp_path / "desk", repository, VirtualClock(NOON), RetentionRules(checkpoints=2)) as desk:
        desk.sweeper.sweep()

    assert len(parts_of(repository)) == 1
    with open_workshop(tmp_path / "theirs", repository, mode=mode) as theirs:
        assert states_of(theirs) == states[-2:]
        assert Validator(theirs.reader).check_run("r").is_valid


def test_part_without_a_checkpoint_is_swept(tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path / "ours", repository, mode="commit") as ours:
        store_states(ours, {"big": BIG, "n": 1}, {"big": BIG, "n": 2})
    orphan = f"checkpoints/r/parts/{'0' * 64}.json"
    repository.write_as_someone_else(BRANCH, {orphan: b"{}"})

    with open_desk(tmp_path / "desk", repository, VirtualClock(NOON), RetentionRules()) as desk:
        assert desk.sweeper.sweep().done
        assert not desk.sweeper.sweep().done

    assert len(parts_of(repository)) == 1
    assert orphan not in repository.files(BRANCH)


def test_writer_goes_on_after_its_parts_were_pruned(tmp_path: Path, repository: MemoryGateway) -> None:
    old, new = "o" * 80_000, "n" * 80_000
    with open_workshop(tmp_path / "ours", repository, mode="commit") as ours:
        store_states(ours, *({"big": text} for text in (old, old, old, new)))
        rules = RetentionRules(checkpoints=1)
        with open_desk(tmp_path / "desk", repository, VirtualClock(NOON), rules) as desk:
            desk.sweeper.sweep()
        (kept,) = parts_of(repository)
        assert repository.files(BRANCH)[f"checkpoints/r/{kept}"] == f'"{new}"'.encode()
        store_states(ours, {"big": old}, {"big": old}, {"big": old})
        assert [state["big"] for state in states_of(ours)] == [new, old, old, old]


@MODES
def test_large_member_lies_in_pieces(
    tmp_path: Path, repository: MemoryGateway, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.format.part_files.MAX_FILE_BYTES", 30_000)
    state = {"text": "".join(f"ä{number}" for number in range(30_000)), "n": 1}
    with open_workshop(tmp_path, repository, mode=mode, max_file_bytes=65_536) as workshop:
        store_states(workshop, state, state)
        assert states_of(workshop) == [state, state]

    assert len(parts_of(repository)) == 7
    assert (
        max(len(repository.files(BRANCH)[f"checkpoints/r/{name}"]) for name in parts_of(repository)) <= 30_000
    )
    assert all(len(content) <= 65_536 for content in repository.files(BRANCH).values())


@MODES
def test_parts_are_compressed_when_asked_for(tmp_path: Path, repository: MemoryGateway, mode: str) -> None:
    states = [{"log": "a line of the log\n" * 10_000, "n": number} for number in range(3)]
    settings: dict[str, Any] = {"incremental": "on", "compress": 65_536}
    with open_workshop(tmp_path / "ours", repository, mode=mode, **settings) as ours:
        store_states(ours, *states)
    (part,) = parts_of(repository)
    assert part.endswith(".json.gz")
    assert len(repository.files(BRANCH)[f"checkpoints/r/{part}"]) < 2000

    with open_workshop(tmp_path / "theirs", repository, mode=mode) as theirs:
        assert states_of(theirs) == states
        assert Validator(theirs.reader).check_run("r").is_valid


@MODES
def test_latest_that_is_made_up_for_is_the_file_as_it_was_stored(
    tmp_path: Path, repository: MemoryGateway, mode: str
) -> None:
    """What is stamped a second time finds its own members stored, and would refer to parts of them."""
    gone = Unavailable(BRANCH, "no answer")
    repository.fail_next(
        WriteFile, gone, is_applied=False, times=9, when=lambda call: call.path.endswith("latest.json")
    )
    clock = VirtualClock()
    with open_workshop(tmp_path, repository, clock=clock, mode="contents", incremental="on") as workshop:
        workshop.save(state={"big": BIG})
        assert workshop.worker.drain().left == 1
    repository.forget_failures()
    clock.sleep(10_000)

    with open_workshop(tmp_path, repository, clock=clock, mode=mode, incremental="on") as workshop:
        assert workshop.worker.drain().left == 0

    files = repository.files(BRANCH)
    assert files["checkpoints/r/latest.json"] == files["checkpoints/r/cp_001_manual.json"]
    with open_workshop(tmp_path / "theirs", repository) as theirs:
        assert Validator(theirs.reader).check_run("r").is_valid
