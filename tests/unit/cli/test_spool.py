import json
from pathlib import Path

import pytest

from .conftest import Holdfast


def fill(holdfast: Holdfast, *options: str) -> list[str]:
    submitted = [
        holdfast("submit", "-", "--run-id", "r", "--json", *options, stdin=f"[{number}.10]").document
        for number in range(3)
    ]
    return [each["checkpoint_id"] for each in submitted]


@pytest.mark.slow
def test_an_export_can_be_imported_elsewhere_and_drained(holdfast: Holdfast, tmp_path: Path) -> None:
    ids = fill(holdfast)

    exported = holdfast("spool", "export", tmp_path / "unsent", "--json")
    imported = holdfast(
        "spool", "import", tmp_path / "unsent", "--json", "--data-dir", tmp_path / "elsewhere"
    )
    drained = holdfast("drain", "--json", "--data-dir", tmp_path / "elsewhere")

    assert (exported.code, imported.code) == (0, 0)
    assert exported.document["count"] == 3
    assert sorted(imported.document["taken"]) == sorted(ids)
    assert drained.document["verified"] == 3
    shown = holdfast("show", "r", "3", "--json", "--data-dir", tmp_path / "elsewhere").out
    assert '"state_snapshot":[2.10]' in shown


def test_an_export_leaves_the_spool_as_it_is(holdfast: Holdfast, tmp_path: Path) -> None:
    fill(holdfast)

    ended = holdfast("spool", "export", tmp_path / "unsent")

    assert ended.out == f"3 checkpoints exported to {tmp_path / 'unsent'}.\n"
    assert holdfast("status", "--json").document["spool"]["depth"] == 3


@pytest.mark.slow
def test_importing_again_changes_nothing(holdfast: Holdfast, tmp_path: Path) -> None:
    fill(holdfast)
    holdfast("spool", "export", tmp_path / "unsent")

    ended = holdfast("spool", "import", tmp_path / "unsent")

    assert (ended.code, ended.out) == (0, "0 checkpoints imported, 3 known before.\n")
    assert holdfast("status", "--json").document["spool"]["depth"] == 3


def test_an_earlier_export_may_be_replaced(holdfast: Holdfast, tmp_path: Path) -> None:
    fill(holdfast)
    holdfast("spool", "export", tmp_path / "unsent")

    assert holdfast("spool", "export", tmp_path / "unsent").code == 0


def test_a_folder_with_other_files_is_left_alone(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o755)
    (tmp_path / "mine" / "thesis.txt").write_text("")

    ended = holdfast("spool", "export", tmp_path / "mine")

    assert ended.code == 2
    assert "holds other files; name a new folder" in ended.err
    assert (tmp_path / "mine").stat().st_mode & 0o777 == 0o755


def test_a_file_cannot_be_exported_to(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    ended = holdfast("spool", "export", tmp_path / "file")

    assert ended.code == 2
    assert "cannot be exported to" in ended.err


def test_a_folder_that_is_no_export_is_invalid(holdfast: Holdfast, tmp_path: Path) -> None:
    ended = holdfast("spool", "import", tmp_path)

    assert ended.code == 2
    assert "name a folder that holdfast spool export has written" in ended.err


def test_a_damaged_file_is_reported_and_the_rest_is_imported(holdfast: Holdfast, tmp_path: Path) -> None:
    damaged, *_ = fill(holdfast)
    holdfast("spool", "export", tmp_path / "unsent")
    (tmp_path / "unsent" / f"{damaged}.json").write_text("{}")

    ended = holdfast("spool", "import", tmp_path / "unsent", "--data-dir", tmp_path / "elsewhere")

    assert ended.code == 1
    assert ended.out == "2 checkpoints imported, 0 known before.\n"
    assert f"1 checkpoint damaged and not imported: {damaged}" in ended.err


@pytest.mark.slow
def test_a_checkpoint_that_is_known_otherwise_is_refused(holdfast: Holdfast, tmp_path: Path) -> None:
    same = ("--checkpoint-id", "550e8400-e29b-41d4-a716-446655440000", "--run-id", "r")
    holdfast("submit", "-", *same, stdin="1")
    holdfast("spool", "export", tmp_path / "unsent")
    holdfast("submit", "-", *same, "--data-dir", tmp_path / "elsewhere", stdin="2")

    ended = holdfast("spool", "import", tmp_path / "unsent", "--json", "--data-dir", tmp_path / "elsewhere")

    assert ended.code == 1
    assert list(json.loads(ended.out)["refused"]) == ["550e8400-e29b-41d4-a716-446655440000"]
    assert "accepted before with other content" in ended.err
