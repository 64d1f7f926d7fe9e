"""Forks: neither side harms what the other has stored, whoever closes or dies first."""

from contextlib import closing
from pathlib import Path

import pytest

from tests.fakes.spooling import open_spool, run_python

PUTS = 15

_BEGIN = f"""
import os, signal, sys, threading
from contextlib import closing
from pathlib import Path
from holdfast.errors import SpoolBusy
from tests.fakes.spooling import FakeEntry, open_spool

folder, puts = Path(sys.argv[1]), {PUTS}
spool = open_spool(folder)
spool.put(FakeEntry())

def put(spool, name):
    for number in range(puts):
        spool.put(FakeEntry(run_id=name, content=os.urandom(3000)))

def fork(work):
    child = os.fork()
    if child:
        return child
    signal.alarm(60)
    try:
        work()
        os._exit(0)
    except BaseException as error:
        os.write(2, repr(error).encode())
    finally:
        os._exit(1)

def wait(*children):
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)
"""


def play(tmp_path: Path, script: str) -> dict[str, int]:
    """Run a script that forks; return how many checkpoints of each run are there afterwards, all whole."""
    run_python(_BEGIN + script, str(tmp_path))
    counts: dict[str, int] = {}
    with closing(open_spool(tmp_path)) as spool:
        items = spool.pending()
        assert len({(item.run_id, item.sequence) for item in items}) == len(items)
        for item in items:
            assert spool.read(item)
            counts[item.run_id] = counts.get(item.run_id, 0) + 1
        status = spool.status(0.0)
    assert (status.depth, status.salvaged, status.lost) == (len(items), 0, 0)
    del counts["build-1"]
    return counts


def test_child_uses_the_inherited_spool_beside_its_parent(tmp_path: Path) -> None:
    script = """
child = fork(lambda: put(spool, "child"))
put(spool, "parent")
wait(child)
"""
    assert play(tmp_path, script) == {"child": PUTS, "parent": PUTS}


def test_parent_closes_first(tmp_path: Path) -> None:
    script = """
reader, writer = os.pipe()
def work():
    put(spool, "child")
    os.read(reader, 1)
    put(spool, "later")
child = fork(work)
put(spool, "parent")
spool.close()
os.write(writer, b"x")
wait(child)
"""
    assert play(tmp_path, script) == {"child": PUTS, "later": PUTS, "parent": PUTS}


@pytest.mark.parametrize("end", ["spool.close()", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_child_ends_first(tmp_path: Path, end: str) -> None:
    script = f"""
def work():
    put(spool, "child")
    {end}
child = fork(work)
put(spool, "parent")
os.waitpid(child, 0)
put(spool, "later")
"""
    assert play(tmp_path, script) == {"child": PUTS, "later": PUTS, "parent": PUTS}


def test_child_opens_the_spool_for_itself(tmp_path: Path) -> None:
    script = """
def work():
    with closing(open_spool(folder)) as fresh:
        put(fresh, "child")
    put(spool, "inherited")
child = fork(work)
put(spool, "parent")
wait(child)
put(spool, "later")
"""
    assert play(tmp_path, script) == dict.fromkeys(("child", "inherited", "parent", "later"), PUTS)


def test_several_children_and_a_grandchild(tmp_path: Path) -> None:
    script = """
def work(name):
    put(spool, name)
    wait(fork(lambda: put(spool, name + "-grandchild")))
children = [fork(lambda name=name: work(name)) for name in ("a", "b", "c")]
put(spool, "parent")
wait(*children)
"""
    names = ("a", "b", "c", "a-grandchild", "b-grandchild", "c-grandchild", "parent")
    assert play(tmp_path, script) == dict.fromkeys(names, PUTS)


def test_threads_go_on_while_the_process_forks_again_and_again(tmp_path: Path) -> None:
    script = """
threads = [threading.Thread(target=put, args=(spool, f"thread-{number}")) for number in range(3)]
for thread in threads: thread.start()
children = []
while any(thread.is_alive() for thread in threads):
    children.append(fork(lambda: spool.put(FakeEntry(run_id="child"))))
    spool.pending()
wait(*children)
put(spool, "parent")
print(len(children))
"""
    counts = play(tmp_path, script)
    assert counts.pop("child") >= 1
    assert counts == dict.fromkeys(("thread-0", "thread-1", "thread-2", "parent"), PUTS)


def test_child_does_not_wait_for_a_thread_that_it_does_not_have(tmp_path: Path) -> None:
    script = """
is_held, is_forked = threading.Event(), threading.Event()
def hold():
    with spool._folder._mutex:
        is_held.set()
        is_forked.wait()
thread = threading.Thread(target=hold)
thread.start()
is_held.wait()
def work():
    spool._folder._replace(spool._folder._file, is_damaged=False)
    put(spool, "child")
child = fork(work)
is_forked.set()
thread.join()
wait(child)
"""
    assert play(tmp_path, script) == {"child": PUTS}


def test_fork_amid_a_save_of_the_same_thread_leaves_the_save_to_the_parent(tmp_path: Path) -> None:
    script = """
from holdfast.errors import SpoolUnwritable
class Forking(FakeEntry):
    def body(self, sequence):
        global child
        if self.bodies_made:
            child = os.fork()
        return super().body(sequence)
for _ in range(2):
    spool.put(FakeEntry())
try:
    assert spool.put(Forking(run_id="build-1", sequence=2)).sequence_number == 4
    assert child
except SpoolUnwritable:
    assert not child
    for attempt in (lambda: put(spool, "child"), spool.pending):
        try:
            attempt()
        except SpoolUnwritable as error:
            assert "forked amid a save" in str(error)
        else:
            os._exit(2)
    os._exit(0)
put(spool, "parent")
wait(child)
"""
    assert play(tmp_path, script) == {"parent": PUTS}


def test_child_of_a_drainer_does_not_drain_and_takes_nothing_from_its_parent(tmp_path: Path) -> None:
    script = """
other = open_spool(folder)
def is_busy(spool):
    try:
        with spool.drainer():
            return False
    except SpoolBusy:
        return True
with spool.drainer():
    child = os.fork()
    if child:
        wait(child)
        assert is_busy(other)
    else:
        assert is_busy(spool)
if not child:
    assert is_busy(other)
    os._exit(0)
assert not is_busy(spool)
"""
    run_python(_BEGIN + script, str(tmp_path))


def test_child_does_not_keep_the_drain_of_a_parent_that_was_killed(tmp_path: Path) -> None:
    script = """
reader, writer = os.pipe()
middle = os.fork()
if not middle:
    spool.drainer().__enter__()
    if not os.fork():
        os.write(writer, b"%d" % os.getpid())
        signal.alarm(20)
        signal.pause()
    signal.pause()
forked = int(os.read(reader, 20))
os.kill(middle, signal.SIGKILL)
os.waitpid(middle, 0)
try:
    with spool.drainer():
        pass
finally:
    os.kill(forked, signal.SIGKILL)
"""
    run_python(_BEGIN + script, str(tmp_path))
