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


def test_what_is_not_known_is_told_as_it_is() -> None:
    assert str(translate(OSError("boom"), Path("spool"))) == "spool cannot be used: boom"
