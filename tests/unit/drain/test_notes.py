"""Notes that a newer Holdfast has written: one clear sentence, and they stay as they are."""

from pathlib import Path

import pytest

from holdfast.drain.notes import OUTAGE_NOTE, read_note
from holdfast.drain.pending import OrphanFile
from holdfast.errors import SpoolUnwritable
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import open_workshop

OUTAGE = b'{"kind":"auth","reason":"r","advice":"a","since":1,"retry_at":2,"severity":"high"}'
ORPHAN = b'{"path":"checkpoints/r/cp_001_manual.json","blob_sha":"b","due_at":1,"tries":0,"machine":"m"}'
WRITE = b'{"run_id":"r","checkpoint_ids":["a"],"is_batch":false,"files":{},"generation":7}'


def test_note_that_is_known_is_read() -> None:
    orphan = OrphanFile("a.json", "b", 3.0)

    assert read_note(OrphanFile, orphan.name, orphan.to_bytes()) == orphan


@pytest.mark.parametrize("content", [ORPHAN, b'{"path": "a.json"}', b"[1]"])
def test_note_that_says_other_things_is_of_a_newer_format(content: bytes) -> None:
    with pytest.raises(
        SpoolUnwritable, match=r"'litter/a' in the spool is of a newer format .* use the version"
    ):
        read_note(OrphanFile, "litter/a", content)


@pytest.mark.parametrize(
    ("name", "content"),
    [(OUTAGE_NOTE, OUTAGE), ("litter/checkpoints/r/cp_001_manual.json", ORPHAN), ("write/r", WRITE)],
)
def test_drain_tells_of_a_newer_note_and_changes_nothing(tmp_path: Path, name: str, content: bytes) -> None:
    repository = MemoryGateway()
    with open_workshop(tmp_path, repository) as workshop:
        workshop.save()
        workshop.spool.note(name, content)

        with pytest.raises(SpoolUnwritable, match="newer format"):
            workshop.worker.drain()

        assert workshop.spool.notes()[name] == content
        assert len(workshop.spool.pending()) == 1
        assert not any(call.is_mutation for call in repository.calls)
