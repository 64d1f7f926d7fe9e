import errno
import os
import sqlite3
from pathlib import Path

import pytest

from holdfast.disk import translate
from holdfast.errors import SpoolUnwritable


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "free some space"),
        (errno.EROFS, "let this user write to the folder"),
        (errno.EACCES, "let this user write to the folder"),
        (errno.EIO, "full, read-only or failing"),
    ],
)
def test_a_refusal_of_the_system_is_a_sentence_that_says_what_to_do(number: int, advice: str) -> None:
    told = translate(OSError(number, os.strerror(number), "a/file"), Path("spool"))

    assert isinstance(told, SpoolUnwritable)
    assert str(told).startswith(f"spool: {os.strerror(number)}; ")
    assert advice in str(told)
    assert "Errno" not in str(told)


def test_an_error_of_the_disk_below_sqlite_says_what_to_look_at() -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR

    told = str(translate(error, Path("spool")))

    assert told == "spool: disk I/O error; check the disk: it may be full, read-only or failing"


@pytest.mark.parametrize(
    ("code", "free_files", "told"),
    [
        (sqlite3.SQLITE_IOERR_SHMSIZE, 9, "the disk is full; free some space on this disk and try again"),
        (sqlite3.SQLITE_CANTOPEN, 0, "the disk is full; free some space on this disk and try again"),
        (sqlite3.SQLITE_CANTOPEN, 9, "unable to open database file; let this user write to the folder"),
    ],
)
def test_a_full_disk_is_told_as_one_though_sqlite_says_only_that_it_cannot_open_a_file(
    monkeypatch: pytest.MonkeyPatch, code: int, free_files: int, told: str
) -> None:
    disk = os.statvfs_result((4096, 4096, 100, 50, 50, 64, free_files, free_files, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorcode = code

    assert str(translate(error, Path("spool"))).startswith(f"spool: {told}")


def test_what_is_not_known_is_told_as_it_is() -> None:
    assert str(translate(OSError("boom"), Path("spool"))) == "spool cannot be used: boom"
