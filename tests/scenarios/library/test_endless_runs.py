"""A process that sees one run after the other, for years, remembers no more of them than it is meant to."""

import gc
import re
import sqlite3
from collections import deque
from collections.abc import Iterator, Sized
from pathlib import Path
from types import FunctionType, ModuleType

import pytest

from holdfast.cache import local_copy
from holdfast.drain import commits, stamper
from holdfast.queue import table_queue
from holdfast.repository import known_lines, runs
from tests.fakes.assembly import BRANCH
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, open_workshop

# Every limit of this kind that the way of a checkpoint has; here so small that they are soon reached.
LIMITS = [
    (runs, "MAX_REMEMBERED_RUNS"),
    (commits, "MAX_REMEMBERED_RUNS"),
    (stamper, "_MOST_REMEMBERED"),
    (table_queue, "_MAX_REMEMBERED"),
    (local_copy, "MAX_DISBELIEVED"),
    (local_copy, "MAX_WRITTEN_RUNS"),
    (known_lines, "MOST_KEPT"),
]
_RUN = re.compile(r"run-\d+-\d+")
# The repository itself; and a connection forgets the cursors that are gone after every 200.
_NOT_OURS = (type, ModuleType, FunctionType, MemoryGateway, sqlite3.Connection)
MOST = 4
RUNS = 8


@pytest.fixture(params=["contents", "commit"])
def workshop(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Workshop]:
    for module, name in LIMITS:
        monkeypatch.setattr(module, name, MOST)
    repository = MemoryGateway()
    repository.write_as_someone_else(BRANCH, {"README.md": b""})
    with open_workshop(tmp_path, repository, mode=request.param) as workshop:
        yield workshop


def play(workshop: Workshop, round_number: int) -> None:
    """Save, drain, read and complete some runs that were never seen before."""
    for number in range(RUNS):
        run_id = f"run-{round_number}-{number}"
        workshop.save(run_id)
        workshop.save(run_id, status="completed", trigger="run_complete")
        workshop.worker.drain()
        workshop.reader.resume(run_id)
    workshop.reader.list_runs()


def containers(root: object) -> Iterator[tuple[str, Sized]]:
    """Every container that can be reached, with its way there."""
    seen, waiting = set[int](), deque([("", root)])
    while waiting:
        way, each = waiting.popleft()
        if id(each) in seen or isinstance(each, _NOT_OURS):
            continue
        seen.add(id(each))
        if isinstance(each, dict | list | set | deque):
            yield way, each
        members = each.items() if isinstance(each, dict) else ()
        named = {id(value): f"{way}.{_RUN.sub('run', str(name))}" for name, value in members}
        waiting.extend((named.get(id(other), way), other) for other in gc.get_referents(each))


def sizes(workshop: Workshop) -> dict[str, int]:
    found: dict[str, int] = {}
    for way, container in containers(vars(workshop.assembly)):
        found[way] = found.get(way, 0) + len(container)
    return found


def test_nothing_that_is_remembered_grows_with_the_runs_that_were_seen(workshop: Workshop) -> None:
    play(workshop, 0)
    play(workshop, 1)
    before = sizes(workshop)
    for round_number in range(2, 5):
        play(workshop, round_number)

    after = sizes(workshop)

    assert {way: (before.get(way, 0), size) for way, size in after.items() if size > before.get(way, 0)} == {}
