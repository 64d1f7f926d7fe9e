"""The journal: what was acknowledged in it is found, whatever became of its process or its bytes."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.disk import digest_of
from holdfast.errors import CheckpointChanged, DiskFailed, SpoolUnwritable
from holdfast.format.receipt import Progress
from holdfast.queue import Spool, journal
from holdfast.queue.journal import BLOCK_BYTES, CAPACITY_BYTES, Journal, Mark
from tests.fakes.spooling import FakeEntry, open_spool, run_python


def path_of(tmp_path: Path) -> Path:
    return tmp_path / "spool" / "journal"


@pytest.fixture
def journalled(tmp_path: Path) -> list[FakeEntry]:
    """Put three checkpoints in a process that ends before the database has more than the first of them."""
    entries = [FakeEntry(content=bytes([65 + number]) * 5000) for number in range(3)]
    script = """
import os, sys
from pathlib import Path
from tests.fakes.spooling import FakeEntry, open_spool
spool = open_spool(Path(sys.argv[1]))
for number, checkpoint_id in enumerate(sys.argv[2:]):
    spool.put(FakeEntry(checkpoint_id=checkpoint_id, content=bytes([65 + number]) * 5000))
os._exit(0)
"""
    run_python(script, str(tmp_path / "spool"), *(entry.checkpoint_id for entry in entries))
    return entries


def bodies_of(spool: Spool) -> list[bytes]:
    return [spool.read(item) for item in spool.pending()]


def test_what_a_dead_process_left_in_the_journal_is_in_the_spool(
    tmp_path: Path, journalled: list[FakeEntry]
) -> None:
    spool = open_spool(tmp_path / "spool")

    assert bodies_of(spool) == [
        b"%d:%s" % (number, entry.content) for number, entry in enumerate(journalled, 1)
    ]
    assert spool.put(FakeEntry()).sequence_number == 4
    assert spool.status(0.0).depth == 4
    spool.close()


def test_what_is_in_the_journal_is_known_when_it_comes_again(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "spool")
    spool.put(FakeEntry())
    entry = FakeEntry(fingerprint="same")

    first = spool.put(entry)
    again = spool.put(entry)
    with pytest.raises(CheckpointChanged):
        spool.put(FakeEntry(checkpoint_id=entry.checkpoint_id, fingerprint="other"))

    assert first == again == spool.receipt(entry.checkpoint_id)
    assert spool.put(entry) == first
    assert spool.status(0.0).depth == 2
    spool.close()


def test_two_that_put_by_turns_see_the_numbers_of_each_other(tmp_path: Path) -> None:
    one, other = (open_spool(tmp_path / "spool") for _ in range(2))

    numbers = [spool.put(FakeEntry()).sequence_number for _ in range(4) for spool in (one, other)]
    one.pending()
    numbers += [spool.put(FakeEntry()).sequence_number for _ in range(3) for spool in (other, one)]

    assert numbers == list(range(1, 15))
    assert [item.sequence for item in other.pending()] == numbers
    other.close()
    one.close()


def test_journal_that_is_full_is_absorbed_and_begun_again(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "spool")
    content = bytes(CAPACITY_BYTES // 5)

    for _ in range(12):
        spool.put(FakeEntry(content=content))

    assert path_of(tmp_path).stat().st_size == CAPACITY_BYTES
    assert [item.sequence for item in spool.pending()] == list(range(1, 13))
    assert all(len(body) > len(content) for body in bodies_of(spool))
    spool.close()


def test_checkpoint_that_is_larger_than_the_journal_is_taken_and_not_copied_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[int] = []
    encode = journal.encode

    def count(generation: int, start: int, entries: Sequence[tuple[bytes, bytes, bytes]]) -> object:
        encoded.extend(len(body) for _, body, _ in entries)
        return encode(generation, start, entries)

    monkeypatch.setattr(journal, "encode", count)
    spool = open_spool(tmp_path / "spool")
    sizes = (10, 20, CAPACITY_BYTES + 1, 30)

    for size in sizes:
        spool.put(FakeEntry(content=bytes(size)))

    assert max(encoded) < 100
    assert [len(body) - 2 for body in bodies_of(spool)] == list(sizes)
    spool.close()


def test_write_that_was_cut_short_is_no_entry_and_its_place_is_used_again(
    tmp_path: Path, journalled: list[FakeEntry]
) -> None:
    content = bytearray(path_of(tmp_path).read_bytes())
    # The last of the two entries lost its last block, which nobody was told of.
    content[3 * BLOCK_BYTES : 4 * BLOCK_BYTES] = bytes(BLOCK_BYTES)
    path_of(tmp_path).write_bytes(content)

    spool = open_spool(tmp_path / "spool")

    assert [item.checkpoint_id for item in spool.pending()] == [each.checkpoint_id for each in journalled[:2]]
    assert [spool.put(FakeEntry()).sequence_number for _ in range(3)] == [3, 4, 5]
    assert (spool.status(0.0).depth, spool.status(0.0).lost) == (5, 0)
    spool.close()


@pytest.mark.parametrize("torn", [40, BLOCK_BYTES + 100], ids=["head", "body"])
def test_block_of_which_only_the_end_was_written_was_never_confirmed(tmp_path: Path, torn: int) -> None:
    script = """
import os, sys
from pathlib import Path
from tests.fakes.spooling import FakeEntry, open_spool
spool = open_spool(Path(sys.argv[1]))
spool.put(FakeEntry())
spool.put_all([FakeEntry(content=bytes(5000)) for _ in range(3)])
os._exit(0)
"""
    run_python(script, str(tmp_path / "spool"))
    content = bytearray(path_of(tmp_path).read_bytes())
    content[torn] ^= 1
    path_of(tmp_path).write_bytes(content)

    spool = open_spool(tmp_path / "spool")

    status = spool.status(0.0)
    assert (status.depth, status.set_aside, status.lost) == (1, 0, 0)
    assert [spool.put(FakeEntry()).sequence_number for _ in range(2)] == [2, 3]
    spool.close()


def test_body_that_the_disk_has_altered_is_set_aside_and_the_next_is_kept(
    tmp_path: Path, journalled: list[FakeEntry]
) -> None:
    content = bytearray(path_of(tmp_path).read_bytes())
    content[BLOCK_BYTES + 100] ^= 1
    path_of(tmp_path).write_bytes(content)

    spool = open_spool(tmp_path / "spool")

    assert [item.checkpoint_id for item in spool.pending()] == [
        journalled[0].checkpoint_id,
        journalled[2].checkpoint_id,
    ]
    receipt = spool.receipt(journalled[1].checkpoint_id)
    assert receipt is not None
    assert receipt.status is Progress.REFUSED
    assert "damaged" in (receipt.reason or "")
    spool.close()


def test_entry_whose_head_is_altered_is_counted_as_lost_and_the_next_is_kept(
    tmp_path: Path, journalled: list[FakeEntry]
) -> None:
    content = bytearray(path_of(tmp_path).read_bytes())
    content[40] ^= 1
    path_of(tmp_path).write_bytes(content)

    spool = open_spool(tmp_path / "spool")

    assert [item.checkpoint_id for item in spool.pending()] == [
        journalled[0].checkpoint_id,
        journalled[2].checkpoint_id,
    ]
    assert spool.status(0.0).lost == 1
    spool.close()


def test_absorbed_entries_are_not_taken_twice(tmp_path: Path, journalled: list[FakeEntry]) -> None:
    for _ in range(2):
        spool = open_spool(tmp_path / "spool")
        assert spool.status(0.0).depth == len(journalled)
        spool.close()


def test_disk_that_takes_nothing_more_still_shows_what_was_accepted(
    tmp_path: Path, journalled: list[FakeEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(tmp_path / "spool")

    def refuse(*_: object) -> None:
        raise SpoolUnwritable("full")

    monkeypatch.setattr(spool._intake, "absorb", refuse)

    items = spool.pending()
    assert [item.checkpoint_id for item in items] == [entry.checkpoint_id for entry in journalled]
    assert len(spool.read(items[2])) == 5002
    with pytest.raises(SpoolUnwritable, match="full"):
        spool.set_aside(items[2], "no")

    monkeypatch.undo()
    assert spool.status(0.0).depth == 3
    spool.close()


def test_failed_sync_is_never_acknowledged_and_never_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(tmp_path / "spool")
    spool.put(FakeEntry())
    spool.put(FakeEntry())
    syncs: list[int] = []

    def fail(descriptor: int) -> None:
        syncs.append(descriptor)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(journal, "_sync", fail)
    with pytest.raises(DiskFailed):
        spool.put(FakeEntry())
    with pytest.raises(SpoolUnwritable, match="start Holdfast again"):
        spool.put(FakeEntry())

    assert len(syncs) == 1
    spool.close()


def test_journal_that_another_process_holds_is_an_error_and_not_an_endless_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(tmp_path / "spool")
    other = Journal(tmp_path / "spool")
    monkeypatch.setattr(journal, "LOCK_TIMEOUT_S", 0)

    with other.held(), pytest.raises(SpoolUnwritable, match="another process has held it"):
        spool.put(FakeEntry())

    assert spool.put(FakeEntry()).sequence_number == 1
    other.close()
    spool.close()


def test_save_within_a_save_of_the_same_thread_is_refused_and_does_not_wait_for_itself(
    tmp_path: Path,
) -> None:
    spool = open_spool(tmp_path / "spool")

    class Nested(FakeEntry):
        """Saves again while the spool is held, as a signal handler may do."""

        def body(self, sequence: int) -> bytes:
            if self.bodies_made:
                with pytest.raises(SpoolUnwritable, match="this thread is just saving"):
                    spool.put(FakeEntry())
            return super().body(sequence)

    for _ in range(3):
        spool.put(FakeEntry())

    assert spool.put(Nested(sequence=2)).sequence_number == 4
    assert spool.status(0.0).depth == 4
    spool.close()


def test_forked_process_puts_beside_its_parent(tmp_path: Path) -> None:
    script = """
import os, sys
from pathlib import Path
from tests.fakes.spooling import FakeEntry, open_spool
spool = open_spool(Path(sys.argv[1]))
for _ in range(3): spool.put(FakeEntry())
child = os.fork()
for _ in range(20): spool.put(FakeEntry())
if not child: os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(*(item.sequence for item in spool.pending()))
"""
    numbers = run_python(script, str(tmp_path / "spool")).split()

    assert numbers == [str(number) for number in range(1, 44)]


def test_spool_without_a_journal_is_opened_as_before(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "spool")
    spool.put(FakeEntry())
    spool._home._store.set("format", b"1")
    spool.close()
    path_of(tmp_path).unlink()

    spool = open_spool(tmp_path / "spool")

    assert spool.status(0.0).depth == 1
    assert spool._home._store.get("format") == b"2"
    spool.close()


def test_what_was_added_to_a_generation_after_it_was_noted_is_found(tmp_path: Path) -> None:
    """A process that is killed while it commits may leave a commit that others see only later."""
    written = Journal(tmp_path)
    digest = digest_of(b"body")
    block, ends = journal.encode(1, 0, [(b"first", b"body", digest)])
    written.append(block, 0)
    noted = Mark(1, ends[-1])
    assert not written.has_more(noted)
    assert written.first_after(noted) == (2, 0)

    block, _ = journal.encode(1, noted.end, [(b"second", b"body", digest)])
    written.append(block, noted.end)

    assert written.has_more(noted)
    assert written.first_after(noted) == noted
    survey = written.survey(Mark.decode(noted.encode()))
    assert ([entry.note for entry in survey.entries], survey.lost) == ([b"second"], 0)
    written.close()
