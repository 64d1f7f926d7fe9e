import threading
from collections.abc import Sequence
from pathlib import Path

from holdfast.core.ticket import Persistence, Receipt
from holdfast.errors import CheckpointChanged, SpoolUnwritable
from holdfast.spool import GroupCommit
from holdfast.spool.admission import Entry, Outcome
from tests.fakes.spooling import FakeEntry, open_spool, run_python

FIFTY_THREADS = """
import os, sys, threading
from pathlib import Path
from holdfast.spool import GroupCommit
from tests.fakes.spooling import FakeEntry, open_spool

spool = open_spool(Path(sys.argv[1]))
group = GroupCommit(spool)
database = spool._home._store._database
commits, acknowledged, connect = [], [], database._connect

def traced():
    connection = connect()
    connection.set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)
    return connection

database._connect = traced
start = threading.Barrier(50)

def submit(run_id):
    start.wait()
    for _ in range(20):
        acknowledged.append(group.put(FakeEntry(run_id=run_id)).checkpoint_id)

threads = [threading.Thread(target=submit, args=(f"run-{number}",)) for number in range(50)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(commits), *acknowledged, flush=True)
os._exit(0)  # as a crash would end it: nothing is closed
"""


def test_many_threads_share_few_commits_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    commits, *acknowledged = run_python(FIFTY_THREADS, str(tmp_path / "spool")).split()

    spool = open_spool(tmp_path / "spool")
    tickets = spool.pending()
    assert len(acknowledged) == 1000
    assert {ticket.checkpoint_id for ticket in tickets} == set(acknowledged)
    assert {(ticket.run_id, ticket.sequence) for ticket in tickets} == {
        (f"run-{run}", number) for run in range(50) for number in range(1, 21)
    }
    assert 0 < int(commits) < 500
    spool.close()


def test_lone_caller_is_answered_at_once(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "spool")

    receipts = [GroupCommit(spool).put(FakeEntry(), persistence=Persistence.DELAYED) for _ in range(3)]

    assert [receipt.sequence_number for receipt in receipts] == [1, 2, 3]
    assert receipts[0].persistence == Persistence.DELAYED
    spool.close()


class GatedSpool:
    """Stands in for a slow disk: the first commit waits at a gate, so that others gather behind it."""

    def __init__(self, failure: BaseException | None = None) -> None:
        self.batches: list[list[str]] = []
        self.is_committing = threading.Event()
        self.gate = threading.Event()
        self.failure = failure

    def put_all(self, entries: Sequence[Entry], *, persistence: Persistence) -> list[Outcome]:
        self.batches.append([str(persistence), *(entry.run_id for entry in entries)])
        if len(self.batches) == 1:
            self.is_committing.set()
            self.gate.wait(30)
        if self.failure and len(self.batches) > 1:
            raise self.failure
        return [
            CheckpointChanged("bad") if entry.run_id == "bad" else Receipt(*[entry.run_id] * 6)  # type: ignore[arg-type]
            for entry in entries
        ]


def gather(spool: GatedSpool, followers: Sequence[tuple[str, Persistence]]) -> dict[str, object]:
    """Put one entry, and while it is committed the others; return each one's answer."""
    group = GroupCommit(spool)  # type: ignore[arg-type]
    answers: dict[str, object] = {}

    def put(run_id: str, persistence: Persistence) -> None:
        try:
            answers[run_id] = group.put(FakeEntry(run_id=run_id), persistence=persistence).run_id
        except BaseException as error:
            answers[run_id] = error

    threads = [threading.Thread(target=put, args=("first", Persistence.NORMAL))]
    threads[0].start()
    assert spool.is_committing.wait(30)
    for follower in followers:
        threads.append(threading.Thread(target=put, args=follower))
        threads[-1].start()
        while len(group._waiting) < len(threads) - 1:
            pass
    spool.gate.set()
    for thread in threads:
        thread.join(30)
    return answers


def test_what_arrives_during_a_commit_shares_the_next_and_each_gets_its_own_answer() -> None:
    spool = GatedSpool()

    answers = gather(spool, [(name, Persistence.NORMAL) for name in ("a", "bad", "b")])

    assert spool.batches == [["normal", "first"], ["normal", "a", "bad", "b"]]
    assert isinstance(answers.pop("bad"), CheckpointChanged)
    assert answers == {"first": "first", "a": "a", "b": "b"}


def test_kinds_of_persistence_are_not_mixed() -> None:
    spool = GatedSpool()

    answers = gather(
        spool, [("a", Persistence.NORMAL), ("b", Persistence.DELAYED), ("c", Persistence.NORMAL)]
    )

    assert spool.batches == [["normal", "first"], ["normal", "a", "c"], ["delayed", "b"]]
    assert set(answers) == {"first", "a", "b", "c"}


def test_failed_commit_is_told_to_all_that_shared_it() -> None:
    failure = SpoolUnwritable("full")

    answers = gather(GatedSpool(failure), [("a", Persistence.NORMAL), ("b", Persistence.NORMAL)])

    assert answers == {"first": "first", "a": failure, "b": failure}


def test_interrupt_ends_the_thread_that_committed_and_the_others_may_submit_again() -> None:
    interrupt = KeyboardInterrupt()

    answers = gather(GatedSpool(interrupt), [("a", Persistence.NORMAL), ("b", Persistence.NORMAL)])

    assert answers["a"] is interrupt
    assert isinstance(answers["b"], SpoolUnwritable)
