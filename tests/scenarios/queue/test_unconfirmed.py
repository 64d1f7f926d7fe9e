"""A disk that did not confirm the name of a folder: this process trusts it no more, the next one may."""

import errno
import os
from itertools import count
from pathlib import Path

import pytest

from holdfast.errors import DiskFailed
from tests.fakes.spooling import FakeEntry, open_spool, run_python

PUT_AND_CLOSE = """
import sys
from pathlib import Path
from tests.fakes.spooling import FakeEntry, open_spool
spool = open_spool(Path(sys.argv[1]))
spool.put(FakeEntry(run_id="other"))
spool.close()
"""

LIST_IDS = """
import sys
from pathlib import Path
from tests.fakes.spooling import open_spool
print(*(item.checkpoint_id for item in open_spool(Path(sys.argv[1])).pending()))
"""


def fail_one_sync(monkeypatch: pytest.MonkeyPatch, number: int) -> list[int]:
    """Let the disk refuse the sync of this number, counted from now on; return the list of those refused."""
    sync, numbers, refused = os.fsync, count(1), list[int]()

    def sync_or_fail(descriptor: int) -> None:
        if next(numbers) == number:
            refused.append(number)
            raise OSError(errno.EIO, "Input/output error")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync_or_fail)
    return refused


@pytest.mark.parametrize("number", range(1, 7))
def test_folder_that_the_disk_did_not_confirm_takes_nothing_from_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    folder = tmp_path / "above" / "spool"
    refused = fail_one_sync(monkeypatch, number)

    with pytest.raises(DiskFailed, match="Input/output error; check the disk"):
        open_spool(folder)
    assert refused
    for _ in range(2):
        with pytest.raises(DiskFailed, match=r"failed to confirm a write.*start Holdfast again"):
            open_spool(folder)

    run_python(PUT_AND_CLOSE, str(folder))


# The fifth is that of the report, which nobody's checkpoint depends on.
@pytest.mark.parametrize("number", [1, 2, 3, 4, 6, 7])
def test_salvage_that_the_disk_did_not_confirm_is_never_acknowledged_by_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    spool = open_spool(tmp_path)
    kept = spool.put(FakeEntry(run_id="kept"))
    refused = fail_one_sync(monkeypatch, number)

    with pytest.raises(DiskFailed, match="Input/output error; check the disk"):
        spool._folder._replace(spool._folder._file, is_damaged=True)
    assert refused
    for _ in range(2):
        with pytest.raises(DiskFailed, match=r"failed to confirm a write.*start Holdfast again"):
            spool.put(FakeEntry())
    spool.close()

    run_python(PUT_AND_CLOSE, str(tmp_path))
    found = run_python(LIST_IDS, str(tmp_path)).split()
    assert len(found) == 2
    assert kept.checkpoint_id in found
