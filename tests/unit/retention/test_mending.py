"""How a run becomes whole that a killed writer has left unfinished."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from holdfast.format.checkpoint import Envelope
from holdfast.format.git_ids import blob_sha
from holdfast.format.index import parse_index
from holdfast.format.moments import format_moment
from holdfast.format.run_snapshot import RemoteFile
from holdfast.format.stored_file import join_batch, open_checkpoint, split_file
from holdfast.repository.understanding import RunFiles, take_snapshot
from holdfast.retention.mending import SETTLED_AFTER_DAYS, Mending, decide_mending
from holdfast.retention.scanned_run import ScannedRun
from tests.fakes.stored_runs import LAYOUT, NOON, make_envelope, run_files


def stored(*numbers: int, last_updated: float = NOON) -> dict[str, bytes]:
    """Return the files of a run that has these checkpoints."""
    envelopes = [make_envelope("r", number) for number in numbers]
    return run_files("r", envelopes, last_updated=format_moment(last_updated))


def again(envelope: Envelope, number: int, **fields: Any) -> bytes:
    """Return a checkpoint as another attempt would have stored it: under another number."""
    return make_envelope("r", number, checkpoint_id=envelope.checkpoint_id, **fields).content


def scanned(files: Mapping[str, bytes], *, is_old: bool = True) -> ScannedRun:
    listed = {name: RemoteFile(blob_sha(content), len(content)) for name, content in files.items()}
    blobs = {name: file.sha for name, file in listed.items()}
    snapshot = take_snapshot(RunFiles("r", blobs, files.__getitem__, lambda: files), LAYOUT)
    return ScannedRun(listed, snapshot, files_before={SETTLED_AFTER_DAYS: listed if is_old else {}})


def decide(files: Mapping[str, bytes]) -> Mending:
    """Return the decision, once all files are opened that it asks for."""
    run = scanned(files)
    while True:
        mending = decide_mending(run, LAYOUT)
        assert mending is not None
        if not mending.unread:
            return mending
        for name in mending.unread:
            texts = split_file(files[name], name)
            found = {open_checkpoint(text, name).checkpoint_id: text for text in texts}
            run = replace(run, texts_of={**run.texts_of, name: found})


def numbers_of(mending: Mending) -> list[int]:
    return [entry.sequence for entry in parse_index(mending.write["index.json"], "").entries]


def test_run_that_is_whole_needs_no_mending() -> None:
    assert decide_mending(scanned(stored(1, 2)), LAYOUT) is None


def test_run_that_is_damaged_is_not_mended() -> None:
    files = {**stored(1), "cp_002_manual.json": make_envelope("r", 2).content}

    assert decide_mending(replace(scanned(files), damage="it is damaged"), LAYOUT) is None
    assert decide_mending(scanned({**files, "index.json": b"{"}), LAYOUT) is None


def test_what_is_young_is_its_writers() -> None:
    files = {**stored(1), "cp_002_manual.json": make_envelope("r", 2).content}

    assert decide_mending(scanned(files, is_old=False), LAYOUT) is None


def test_newest_file_comes_into_the_index_before_it_becomes_the_latest() -> None:
    left = make_envelope("r", 3, status="completed").content

    mending = decide({**stored(1, 2, last_updated=NOON - 9), "cp_003_manual.json": left})

    assert list(mending.write) == ["index.json", "latest.json"]
    assert mending.write["latest.json"] == left
    index = parse_index(mending.write["index.json"], "")
    assert [(entry.sequence, entry.blob_sha) for entry in index.entries][-1] == (3, blob_sha(left))
    assert index.last_updated == format_moment(NOON - 9), "it was not written to by its workflow"
    assert not mending.delete
    assert "1 of its checkpoints come into the index" in mending.reason


def test_file_between_others_leaves_the_latest_as_it_is() -> None:
    mending = decide({**stored(1, 3), "cp_002_manual.json": make_envelope("r", 2).content})

    assert (numbers_of(mending), set(mending.write)) == ([1, 2, 3], {"index.json"})


def test_second_copy_goes_and_the_index_stays() -> None:
    mending = decide({**stored(1, 2), "cp_003_manual.json": again(make_envelope("r", 2), 3, state={"n": 2})})

    assert (set(mending.delete), dict(mending.write)) == ({"cp_003_manual.json"}, {})
    assert "1 second copies go" in mending.reason


def test_of_two_copies_that_no_index_names_one_comes_into_it() -> None:
    copy = again(make_envelope("r", 2), 3, state={"n": 2})
    left = {"cp_002_manual.json": make_envelope("r", 2).content, "cp_003_manual.json": copy}

    mending = decide({**stored(1), **left})

    assert (numbers_of(mending), set(mending.delete)) == ([1, 2], {"cp_003_manual.json"})


def test_same_id_that_says_something_else_is_never_deleted() -> None:
    other = again(make_envelope("r", 2), 3, state={"n": "else"})

    mending = decide({**stored(1, 2), "cp_003_manual.json": other})

    assert (dict(mending.write), dict(mending.delete)) == ({}, {})
    assert "cp_003_manual.json says something else" in mending.reason


def test_only_copy_with_a_number_that_is_taken_is_left_to_a_person() -> None:
    rival = make_envelope("r", 2, checkpoint_id="550e8400-e29b-41d4-a716-446655440000", trigger="escalation")

    mending = decide({**stored(1, 2), "cp_002_escalation.json": rival.content})

    assert (dict(mending.write), dict(mending.delete)) == ({}, {})
    assert "cp_002_escalation.json is the only copy" in mending.reason


def test_others_are_mended_beside_one_that_cannot_be() -> None:
    rival = make_envelope("r", 2, checkpoint_id="550e8400-e29b-41d4-a716-446655440000", trigger="escalation")
    left = {"cp_002_escalation.json": rival.content, "cp_003_manual.json": make_envelope("r", 3).content}

    mending = decide({**stored(1, 2), **left})

    assert (numbers_of(mending), dict(mending.delete)) == ([1, 2, 3], {})


def test_batch_of_which_some_are_stored_elsewhere_stays_for_the_others() -> None:
    held = [again(make_envelope("r", 2), 3, state={"n": 2}), make_envelope("r", 4).content]

    mending = decide({**stored(1, 2), "batch_3_4.json": join_batch(held, [3, 4])})

    assert (numbers_of(mending), dict(mending.delete)) == ([1, 2, 4], {})
    assert mending.write["latest.json"] == held[1]


@pytest.mark.parametrize(
    "left",
    [
        make_envelope("other", 3).content,
        make_envelope("r", 4).content,
    ],
    ids=["of another run", "under another number"],
)
def test_file_that_does_not_belong_there_is_left_and_told_of(left: bytes) -> None:
    mending = decide({**stored(1, 2), "cp_003_manual.json": left})

    assert (dict(mending.write), dict(mending.delete)) == ({}, {})
    assert "cp_003_manual.json is in no index, and damaged" in mending.reason


def test_file_whose_part_is_gone_is_left_and_told_of() -> None:
    left = make_envelope("r", 3)
    run = scanned({**stored(1, 2), "cp_003_manual.json": left.content})
    name = "cp_003_manual.json"
    opened = replace(
        run, parts_of={name: frozenset({"parts/x.json"})}, texts_of={name: {left.checkpoint_id: left.content}}
    )

    mending = decide_mending(opened, LAYOUT)

    assert mending is not None
    assert not mending.write
    assert "it refers to parts/x.json, which is not there" in mending.reason


def test_latest_that_is_behind_the_index_becomes_the_newest() -> None:
    files = stored(1, 2)

    for behind in ({**files, "latest.json": stored(1)["latest.json"]}, _without(files, "latest.json")):
        mending = decide(behind)
        assert dict(mending.write) == {"latest.json": files["latest.json"]}


def test_first_checkpoint_of_a_run_gets_its_index() -> None:
    mending = decide({"cp_001_manual.json": stored(1)["cp_001_manual.json"]})

    assert list(mending.write) == ["index.json", "latest.json"]
    assert numbers_of(mending) == [1]


def test_checkpoint_after_a_latest_alone_gets_an_index_with_both() -> None:
    latest = stored(1, 2)["latest.json"]

    mending = decide({"latest.json": latest, "cp_003_manual.json": make_envelope("r", 3).content})

    assert list(mending.write) == ["cp_002_manual.json", "index.json", "latest.json"]
    assert mending.write["cp_002_manual.json"] == latest
    assert numbers_of(mending) == [2, 3]


def test_run_without_index_whose_files_are_damaged_is_left_and_told_of() -> None:
    files = _without(stored(1, 2), "index.json", "latest.json")
    run = scanned({**files, "cp_001_manual.json": b"{}"})
    newest = make_envelope("r", 2)
    opened = {"cp_001_manual.json": {}, "cp_002_manual.json": {newest.checkpoint_id: newest.content}}

    mending = decide_mending(replace(run, texts_of=opened), LAYOUT)

    assert mending is not None
    assert not mending.write
    assert "none can be made" in mending.reason


def test_long_list_is_closed_into_a_segment_before_the_index() -> None:
    files = _without(stored(*range(1, 121)), "index.json", "latest.json")

    mending = decide(files)

    assert list(mending.write) == ["index_1_100.json", "index.json", "latest.json"]


def _without(files: Mapping[str, bytes], *names: str) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if name not in names}
