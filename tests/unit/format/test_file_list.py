import random

import pytest

from holdfast.format.file_list import Blobs, FileList, find_highest, highest_number
from holdfast.format.run_snapshot import RemoteFile


def files_of(*names: str) -> dict[str, RemoteFile]:
    return {name: RemoteFile(f"{number:040x}", number) for number, name in enumerate(names, 1)}


def numbered(count: int) -> list[str]:
    return [f"cp_{number:03d}_manual.json" for number in range(1, count + 1)]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 257])
def test_every_file_is_found_and_no_other(count: int) -> None:
    names = [*numbered(count), "index.json", "latest.json", "a name with spaces.txt", "\u00fcber.json", "\n"]
    random.Random(count).shuffle(names)
    files = files_of(*names)
    found = FileList(FileList.of(files).to_bytes())

    assert {name: found[name] for name in names} == files
    assert dict(found) == dict(found.items()) == files
    assert len(found) == len(files)
    assert list(found) == sorted(files, key=str.encode)
    for absent in ("", "a", "cp_", "cp_1_manual.json", "index.jso", "index.json2", "zzz", "\0", "/"):
        assert absent not in found


def test_empty_list_has_nothing() -> None:
    nothing = FileList.of({})

    assert len(nothing) == nothing.highest_number == 0
    assert "index.json" not in nothing
    assert not dict(nothing)


@pytest.mark.parametrize(
    ("names", "highest"),
    [
        (numbered(12), 12),
        (["index.json"], 0),
        (["cp_0000000009_manual.json", "cp_000000008_manual.json", "cp_010_manual.json"], 10),
        (["cp_007_manual.json", "batch_3_9.json", "cp_1000_manual.txt"], 9),
        (["cp_x_manual.json", "index_1_80.json", "notes.txt"], 0),
        (["cp_099_manual.json", "cp_1000_manual.json", "cp_200_manual.json"], 1000),
        (["cp_005_manual.json", "cp_12_manual.json", "cp_013_manual.json~", "batch_9_7.json"], 5),
        (["batch_1_4.json", "batch_1_14.json.bak", "cp_1234567890_manual.json", "xcp_020_manual.json"], 4),
    ],
)
def test_highest_number_is_that_of_a_checkpoint(names: list[str], highest: int) -> None:
    files = files_of(*names)

    assert FileList.of(files).highest_number == highest_number(files) == highest
    assert highest_number(FileList.of(files)) == find_highest(names) == highest


def test_names_that_only_begin_like_ours_cost_no_more_than_others() -> None:
    """To look through all of them again for each would take minutes."""
    foreign = [f"cp_{number:05d}_x.txt" for number in range(30_000)]

    assert find_highest([*foreign, *numbered(3)]) == 3


def test_what_holds_no_checkpoint_is_told_apart() -> None:
    found = FileList.of(files_of(*numbered(30), "batch_1_4.json", "index.json", "index_1_50.json"))

    assert set(found.beside_checkpoints()) == {"index.json", "index_1_50.json"}


def test_blobs_are_those_of_the_files() -> None:
    files = files_of("index.json", "latest.json")

    assert dict(Blobs(FileList.of(files))) == {name: file.sha for name, file in files.items()}
    assert len(Blobs(files)) == 2
