"""What users name is used, or refused with what to change."""

from pathlib import Path

import pytest

from holdfast import settings
from holdfast.presentation.exits import WrongUse
from holdfast.presentation.user_input import check_filled, check_run_id, read_file


def test_a_run_is_named_as_it_is_or_not_at_all() -> None:
    assert check_run_id("build-42") == "build-42"
    with pytest.raises(WrongUse, match="names no run"):
        check_run_id("../x")


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_bytes(b'{"a": 1}')

    assert read_file(file) == b'{"a": 1}'


@pytest.mark.parametrize("name", ["no/such/file", "a\0b", "."])
def test_a_file_that_cannot_be_read_is_named_with_the_reason(name: str) -> None:
    with pytest.raises(WrongUse, match="cannot be read: "):
        read_file(name)


def test_a_file_is_read_no_further_than_a_checkpoint_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "MOST_BYTES", 2000)

    with pytest.raises(WrongUse, match="has more than 2,000 bytes"):
        read_file("/dev/zero")


def test_what_is_empty_is_refused() -> None:
    assert check_filled(b" 1\n", "it") == b" 1\n"
    with pytest.raises(WrongUse, match="it is empty"):
        check_filled(b" \n", "it")
