"""What a process keeps in memory of a queue that is used for long."""

import gc
from contextlib import closing
from pathlib import Path
from weakref import ReferenceType

import pytest

from tests.fakes.spooling import FakeEntry, open_spool

READS = 1000
# A connection tidies up what it remembers of its statements after 200 of them.
MOST_REMEMBERED = 300


def count_references() -> int:
    gc.collect()
    return sum(isinstance(each, ReferenceType) for each in gc.get_objects())


@pytest.mark.slow
def test_reading_leaves_nothing_behind_in_the_connection(tmp_path: Path) -> None:
    with closing(open_spool(tmp_path)) as spool:
        spool.put(FakeEntry(content=b"0" * 10_000))
        (item,) = spool.pending()
        before = count_references()

        for _ in range(READS):
            assert spool.read(item)

        assert count_references() - before < MOST_REMEMBERED
