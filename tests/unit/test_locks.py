from pathlib import Path

import pytest

from holdfast.errors import SpoolBusy, SpoolUnwritable
from holdfast.locks import locked


def test_lock_is_held_by_one_and_free_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"

    with (
        locked(path, timeout_s=0, busy=lambda: "not mine"),
        pytest.raises(SpoolBusy, match="mine is it"),
        locked(path, timeout_s=0, busy=lambda: "mine is it"),
    ):
        pass

    with locked(path, timeout_s=0, busy=str):
        pass


def test_lock_is_let_go_of_by_an_exception(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "a.lock", timeout_s=0, busy=str):
        raise ZeroDivisionError

    with locked(tmp_path / "a.lock", timeout_s=0, busy=str):
        pass


def test_lock_in_a_folder_that_is_missing_is_said(tmp_path: Path) -> None:
    lock = locked(tmp_path / "no" / "a.lock", timeout_s=0, busy=str)

    with pytest.raises(SpoolUnwritable, match="No such file"), lock:
        pass
