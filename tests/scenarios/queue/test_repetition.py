"""A checkpoint that is sent again, at any stage: the same is answered as the first time, another refused."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast.errors import CheckpointChanged
from holdfast.format.checkpoint import Draft, draft_from_mapping, draft_from_text, fingerprint_body
from holdfast.format.receipt import Delivery, Progress
from holdfast.queue import SqliteQueue
from tests.fakes.spooling import open_spool

AN_ID = "550e8400-e29b-41d4-a716-446655440000"
FIRST: dict[str, Any] = {
    "checkpoint_id": AN_ID,
    "run_id": "build-1",
    "trigger": "manual",
    "sequence_number": 3,
    "state": {"b": 1.5, "a": [None, "\u00e9"]},
    "header": {"a member of the caller": True},
}
# Another order, other spelling, no number, another time.
AGAIN = (
    b'{"header": {"a member of the caller": true}, "state_snapshot": {"a": [null, "\\u00e9"], "b": 1.5},'
    b' "run_id": "build-1", "trigger": "manual", "timestamp": "2026-01-01T00:00:00Z",'
    b' "checkpoint_id": "550E8400-E29B-41D4-A716-446655440000"}'
)


def draft(checkpoint: dict[str, Any] | bytes, now: str = "2026-11-17T10:00:00Z") -> Draft:
    make: Callable[..., Draft] = draft_from_text if isinstance(checkpoint, bytes) else draft_from_mapping
    return make(checkpoint, now=now, new_id=lambda: str(uuid4()))


def acknowledge(spool: SqliteQueue) -> None:
    spool.acknowledge({AN_ID: Delivery(3, "a path", blob_sha="b10b", commit_sha="c0ffee")})


def mark_committed(spool: SqliteQueue) -> None:
    spool.mark_committed({AN_ID: Delivery(3, "a path", blob_sha="b10b", commit_sha="c0ffee")})


def renumber(spool: SqliteQueue) -> None:
    (item,) = spool.pending()
    spool.renumber(item, 9, draft(FIRST).body(9))


def verify_renumbered(spool: SqliteQueue) -> None:
    renumber(spool)
    spool.acknowledge({AN_ID: Delivery(9, "a path", blob_sha="b10b", commit_sha="c0ffee")})


def set_aside(spool: SqliteQueue) -> None:
    (item,) = spool.pending()
    spool.set_aside(item, "GitHub will not take it")


def leave(spool: SqliteQueue) -> None:
    del spool


STAGES = [leave, mark_committed, renumber, set_aside, acknowledge, verify_renumbered]


@pytest.fixture
def spool(tmp_path: Path) -> Any:
    queue = open_spool(tmp_path / "spool")
    yield queue
    queue.close()


@pytest.mark.parametrize("advance", STAGES)
def test_same_content_is_answered_as_the_first_time(
    spool: SqliteQueue, advance: Callable[[SqliteQueue], None]
) -> None:
    spool.put(draft(FIRST))
    advance(spool)
    depth = spool.status(0.0).depth

    for again in (draft(FIRST), draft(FIRST, now="2027-01-01T00:00:00Z"), draft(AGAIN)):
        assert spool.put(again) == spool.receipt(AN_ID)

    assert spool.status(0.0).depth == depth


@pytest.mark.parametrize("advance", STAGES)
@pytest.mark.parametrize(
    "changes",
    [{"state": {"b": 1.5, "a": []}}, {"phase": "another"}, {"run_id": "build-2"}, {"header": {}}],
    ids=["state", "phase", "run", "member"],
)
def test_other_content_is_refused(
    spool: SqliteQueue, advance: Callable[[SqliteQueue], None], changes: dict[str, Any]
) -> None:
    spool.put(draft(FIRST))
    advance(spool)
    before = spool.receipt(AN_ID)

    with pytest.raises(CheckpointChanged):
        spool.put(draft({**FIRST, **changes}))

    assert spool.receipt(AN_ID) == before


def test_no_fingerprint_is_made_for_what_comes_once(
    spool: SqliteQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Draft, "fingerprint", property(lambda _: pytest.fail("it was asked for")))

    assert spool.put_all([draft(FIRST)], are_new=True)[0] == spool.receipt(AN_ID)


def test_fingerprint_that_the_body_does_not_tell_is_kept_beside_it(spool: SqliteQueue) -> None:
    """As of an encrypted one, whose bytes differ each time."""

    def hidden(secret: str, said: str) -> Draft:
        plain = draft({**FIRST, "state": secret})
        return Draft(plain.header, plain.texts, is_named=True, kept_fingerprint=said)

    spool.put(hidden("one spelling", "the same"))
    assert spool.put(hidden("another", "the same")).status is Progress.SPOOLED
    acknowledge(spool)

    assert spool.put(hidden("a third", "the same")).status is Progress.VERIFIED
    with pytest.raises(CheckpointChanged):
        spool.put(hidden("a third", "something else"))


def test_body_tells_the_fingerprint_of_its_draft() -> None:
    for each in (draft(FIRST), draft(AGAIN)):
        assert fingerprint_body(each.body(7)) == each.fingerprint == draft(FIRST).fingerprint


def test_damaged_body_is_not_compared_with(spool: SqliteQueue, tmp_path: Path) -> None:
    spool.put(draft(FIRST))
    flip_body(tmp_path)

    assert spool.put(draft(FIRST)).status is Progress.SPOOLED  # byte for byte what the row stands for
    with pytest.raises(CheckpointChanged):
        spool.put(draft(AGAIN))
    set_aside(spool)

    assert spool.put(draft(AGAIN)).status is Progress.REFUSED


def flip_body(folder: Path) -> None:
    with sqlite3.connect(folder / "spool" / "queue" / "queue.db") as database:
        (body,) = database.execute("select bytes from body").fetchone()
        database.execute("update body set bytes = ?", (bytes(body[:-2] + b"!}"),))
    database.close()


def test_number_that_an_item_has_lost_is_given_to_nobody_who_asks_for_it(spool: SqliteQueue) -> None:
    spool.put(draft(FIRST))
    renumber(spool)

    receipt = spool.put(draft({**FIRST, "checkpoint_id": str(uuid4())}))

    assert receipt.sequence_number == 10
