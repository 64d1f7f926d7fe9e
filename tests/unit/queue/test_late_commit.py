"""A commit whose process is killed: SQLite may show it later, and the journal has gone on by then."""

from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

import pytest

from tests.fakes.spooling import FakeEntry, open_spool


def test_commit_that_shows_only_later_does_not_swallow_what_came_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever is killed lets go of the journal at once.
    with closing(open_spool(tmp_path)) as ours, closing(open_spool(tmp_path)) as killed:
        for name in (b"a", b"b"):
            ours.put(FakeEntry(content=name))
        store = killed._home._store
        transact = store.transact

        @contextmanager
        def transact_while_another_puts() -> Iterator[None]:
            monkeypatch.setattr(store, "transact", transact)  # only the first of them
            with transact():
                yield
                ours.put(FakeEntry(content=b"c"))

        monkeypatch.setattr(store, "transact", transact_while_another_puts)
        monkeypatch.setattr(killed._journal, "held", nullcontext)
        killed.pending()

        assert [ours.read(item) for item in ours.pending()] == [b"1:a", b"2:b", b"3:c"]
