"""The tables of the queue, the statements that speak to them, and what notices that rows do not agree.

`item` has a row for every checkpoint that is known, `body` one for each that waits or is set aside. The SQL
is plain, so that another database can carry the same tables. A row of `item`, `run` or `note` has a seal over
what must not change unnoticed; a body has its digest beside it.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.disk import DatabaseDamaged
from holdfast.errors import SpoolDamaged, UnknownRun
from holdfast.format.receipt import Progress, QueueItem
from holdfast.queue.admission import IN_BODY
from holdfast.queue.contract import DAMAGED, Quarantined
from holdfast.queue.rows import (
    CHANGING,
    JOURNEY_COLUMNS,
    WAITING_COLUMNS,
    ItemRow,
    ItemsByRow,
    Totals,
    make_item,
    make_seal,
    understand_all,
    understand_item,
    understand_set_aside,
)

FORMAT = 3

SCHEMA = (
    """create table item (
        arrival integer primary key,
        checkpoint_id text not null unique,
        run_id text not null,
        sequence integer not null,
        trigger text not null,
        priority integer not null,
        size integer not null,
        arrived_at real not null,
        is_automatic integer not null,
        digest blob not null,
        seal blob not null,
        fingerprint text,
        persistence text not null,
        status text not null,
        file_path text not null,
        commit_sha text,
        blob_sha text,
        reason text,
        attempts integer not null,
        not_before real not null,
        changed_at real not null
    )""",
    """create table body (
        arrival integer primary key,
        digest blob not null,
        bytes blob not null
    )""",
    # What is known of a run's numbers besides those of its items. None up to `floor` is given again, though
    # the receipts that had them are gone.
    """create table run (
        run_id text primary key,
        highest integer not null,
        floor integer not null,
        seal blob not null
    )""",
    """create table note (
        name text primary key,
        value blob not null,
        seal blob not null
    )""",
    """create table total (
        depth integer not null,
        bytes integer not null,
        set_aside integer not null,
        set_aside_bytes integer not null,
        salvaged integer not null,
        lost integer not null
    )""",
    "insert into total values (0, 0, 0, 0, 0, 0)",
    "create index item_waiting on item (priority, arrival) where status in ('spooled', 'committed')",
    "create index item_set_aside on item (priority, arrival) where status = 'refused'",
    "create index item_verified on item (changed_at) where status = 'verified'",
    "create index item_number on item (run_id, sequence)",
)

SELECT_SCHEMA = "select sql from sqlite_master where sql is not null"

INSERT_ITEM = f"insert into item values ({', '.join('?' * len(ItemRow._fields))}) on conflict do nothing"
SELECT_ITEM = "select * from item where checkpoint_id = ?"
SELECT_WAITING = (
    f"select {WAITING_COLUMNS}, status from item where status in ('spooled', 'committed')"
    " order by priority, arrival"
)
COUNT_WAITING = "select count(*) from item where status in ('spooled', 'committed')"
CHECK_INDEXES = "pragma integrity_check(item)"
SELECT_OLDEST = (
    "select arrived_at from item where status in ('spooled', 'committed') and priority = ?"
    " order by arrival limit 1"
)
SELECT_SET_ASIDE = (
    "select * from item where status = 'refused'"
    " and exists (select 1 from body where body.arrival = item.arrival) order by priority, arrival"
)
SELECT_JOURNEYS = f"select {JOURNEY_COLUMNS} from item order by arrival desc limit ?"
SELECT_JOURNEYS_OF_RUN = SELECT_JOURNEYS.replace("order by", "where run_id = ? order by")
SELECT_NUMBER = "select 1 from item where run_id = ? and sequence = ?"
COUNT_VERIFIED = "select count(*) from item where status = 'verified'"
COUNT_VERIFIED_BETWEEN = f"{COUNT_VERIFIED} and changed_at between ? and ?"
SELECT_OLD = (
    "select arrival, run_id, sequence from item where status = 'verified' and changed_at < ?"
    " order by changed_at limit ?"
)
SELECT_VERIFIED = "select arrival, run_id, sequence from item where run_id = ? and status = 'verified'"
_CHANGED = ", ".join(f"{column} = ?" for column in CHANGING)
SET_ITEM = f"update item set {_CHANGED}, changed_at = ? where arrival = ?"
SET_BACKOFF = (
    "update item set attempts = attempts + 1, not_before = ?, reason = ?, changed_at = ?"
    " where checkpoint_id = ? and status in ('spooled', 'committed')"
)
TOUCH_ITEM = "update item set changed_at = ? where arrival = ? and status <> 'verified'"
SET_FINGERPRINT = "update item set fingerprint = ? where arrival = ? and digest = ?"
DELETE_ITEM = "delete from item where arrival = ?"

INSERT_BODY = "insert into body values (?, ?, ?)"
INSERT_EMPTY_BODY = "insert into body values (?, ?, zeroblob(?))"
# The bytes themselves only if they are few: a large body is read without a copy of it in memory.
SELECT_BODY = "select typeof(bytes), iif(length(bytes) <= ?, bytes, null) from body where arrival = ?"
DELETE_BODY = "delete from body where arrival = ?"

# The highest number is that of an item; `run` knows what was learned elsewhere, and outlives the items.
SELECT_RUN = "select highest, floor, seal from run where run_id = ?"
# One statement where a put would need three: most of what each of them costs is its own beginning and end.
SELECT_FOR_PUT = (
    "select total.*, (select max(sequence) from item where item.run_id = ?1), highest, floor, seal"
    " from total left join run on run.run_id = ?1"
)
WRITE_RUN = (
    "insert into run values (?, ?, ?, ?) on conflict (run_id) do update set"
    " highest = excluded.highest, floor = excluded.floor, seal = excluded.seal"
)

WRITE_NOTE = (
    "insert into note values (?, ?, ?) on conflict (name) do update set"
    " value = excluded.value, seal = excluded.seal"
)
SELECT_NOTES = "select name, value, seal from note"
DELETE_NOTE = "delete from note where name = ?"

SELECT_TOTAL = "select * from total"
ADD_TO_TOTAL = (
    "update total set depth = depth + ?, bytes = bytes + ?, set_aside = set_aside + ?,"
    " set_aside_bytes = set_aside_bytes + ?, salvaged = salvaged + ?, lost = lost + ?"
)

WAITING = frozenset({Progress.SPOOLED, Progress.COMMITTED})

# SQLite and its driver copy a value thrice on its way; a body beyond this is written in place.
_LARGE_BYTES = 1024**2
_NO_TOTALS = "the spool has lost its totals"


def are_ours(database: sqlite3.Connection) -> bool:
    """Whether the database has these very tables, whatever format it says that it has."""
    found = {sql.lower() for (sql,) in database.execute(SELECT_SCHEMA)}
    return found == {each for each in SCHEMA if each.startswith("create")}


def find_rows(database: sqlite3.Connection, checkpoint_ids: Iterable[str]) -> Iterator[ItemRow]:
    """Yield the rows of these checkpoints; unknown ones are left out. Raises DatabaseDamaged."""
    for checkpoint_id in checkpoint_ids:
        found = database.execute(SELECT_ITEM, (checkpoint_id,)).fetchone()
        if found:
            row = ItemRow._make(found)
            if not row.is_plausible:
                raise DatabaseDamaged(f"the row of checkpoint {checkpoint_id} is damaged")
            yield row


def find_row(database: sqlite3.Connection, checkpoint_id: str) -> ItemRow | None:
    """Return the row of a checkpoint, if it is known."""
    return next(find_rows(database, [checkpoint_id]), None)


def find_known(database: sqlite3.Connection, checkpoint_id: str) -> ItemRow:
    """Return the row of a checkpoint. Raises UnknownRun; DatabaseDamaged if it has got lost."""
    row = find_row(database, checkpoint_id)
    if row:
        return row
    check_waiting(database)
    check_indexes(database)
    totals = read_totals(database)
    if totals.lost or totals.salvaged:
        raise SpoolDamaged(
            f"checkpoint {checkpoint_id} is not in the spool, which was damaged: "
            "it is there under its true id, or the spool has lost some"
        )
    raise UnknownRun(f"checkpoint {checkpoint_id} is not in the spool")


def read_item(database: sqlite3.Connection, columns: tuple[Any, ...]) -> QueueItem:
    """Return the item that the second to ninth columns of `item` stand for.

    Raises DatabaseDamaged; SpoolUnwritable if the row is sound, and so of a newer Holdfast.
    """
    try:
        return make_item(columns)
    except (LookupError, TypeError) as error:
        found = database.execute(SELECT_ITEM, columns[:1]).fetchone()
        # What an index says of a row, which may be damaged as well, must be what the row says itself.
        if found and found[1:9] == tuple(columns) and ItemRow._make(found).is_sound:
            return understand_item(columns)
        raise DatabaseDamaged(f"the row of checkpoint {columns[0]!r} is damaged") from error


def read_totals(database: sqlite3.Connection) -> Totals:
    """Return the totals. Raises DatabaseDamaged."""
    found = database.execute(SELECT_TOTAL).fetchone()
    if found is None:
        raise DatabaseDamaged(_NO_TOTALS)
    return Totals._make(found)


def read_for_put(database: sqlite3.Connection, run_id: str) -> tuple[Totals, int, int]:
    """Return the totals, the highest known number of a run, and the one up to which none is given again.

    Raises DatabaseDamaged.
    """
    found = database.execute(SELECT_FOR_PUT, (run_id,)).fetchone()
    if found is None:
        raise DatabaseDamaged(_NO_TOTALS)
    *totals, of_items, highest, floor, seal = found
    if seal is None:
        return Totals._make(totals), of_items or 0, 0
    _check_run(run_id, highest, floor, seal)
    return Totals._make(totals), max(highest, of_items or 0), floor


def read_numbers(database: sqlite3.Connection, run_id: str) -> tuple[int, int]:
    """Return the highest known number of a run, and the one up to which none is given again."""
    _, highest, floor = read_for_put(database, run_id)
    return highest, floor


def raise_runs(database: sqlite3.Connection, runs: Iterable[tuple[str, int, int]]) -> None:
    """See to it that `highest` and `floor` of these runs are at least these."""
    for run_id, *wanted in runs:
        known = _read_run(database, run_id)
        highest, floor = map(max, known, wanted)
        if (highest, floor) != known:
            seal = make_seal((run_id, highest, floor))
            database.execute(WRITE_RUN, (run_id, highest, floor, seal))


def _read_run(database: sqlite3.Connection, run_id: str) -> tuple[int, int]:
    found = database.execute(SELECT_RUN, (run_id,)).fetchone()
    if found is None:
        return 0, 0
    highest, floor, seal = found
    _check_run(run_id, highest, floor, seal)
    return highest, floor


def _check_run(run_id: str, highest: int, floor: int, seal: bytes) -> None:
    if seal != make_seal((run_id, highest, floor)):
        raise DatabaseDamaged(f"the numbers of run {run_id} do not match their seal")


def write_notes(database: sqlite3.Connection, notes: Iterable[tuple[str, bytes]]) -> None:
    """Keep these notes, in place of those that have their names."""
    rows = [(name, value, make_seal((name,), value)) for name, value in notes]
    database.executemany(WRITE_NOTE, rows)


def read_notes(database: sqlite3.Connection) -> dict[str, bytes]:
    """Return all notes by name. Raises DatabaseDamaged."""
    notes = {}
    for name, value, seal in database.execute(SELECT_NOTES):
        if seal != make_seal((name,), value):
            raise DatabaseDamaged(f"the note {name!r} does not match its seal")
        notes[name] = value
    return notes


def check_waiting(database: sqlite3.Connection) -> None:
    """Raise DatabaseDamaged unless as many items wait as were counted in."""
    (found,) = database.execute(COUNT_WAITING).fetchone()
    check_count(found, read_totals(database).depth)


def check_indexes(database: sqlite3.Connection) -> None:
    """Raise DatabaseDamaged unless every item is found by its id, and listed where it belongs."""
    (found,) = database.execute(CHECK_INDEXES).fetchone()
    if found != "ok":
        raise DatabaseDamaged(f"the spool's items and their indexes do not agree: {found}")


def read_waiting(database: sqlite3.Connection, known: ItemsByRow) -> tuple[ItemsByRow, frozenset[str]]:
    """Return the waiting items in their order, each under its row, and the runs of a newer Holdfast.

    A row ends with `not_before` and status. What is `known` is not made again. Raises DatabaseDamaged.
    """
    rows = dict.fromkeys(database.execute(SELECT_WAITING))
    # A damaged index may name one row twice, or one that has left the line.
    check_count(sum(status in WAITING for *_, status in rows), read_totals(database).depth)
    return understand_all(rows, lambda row: known.get(row) or read_item(database, row[:-2]))


def read_set_aside(database: sqlite3.Connection) -> list[Quarantined]:
    """Return what is set aside with its body. Raises DatabaseDamaged."""
    rows = [ItemRow._make(row) for row in database.execute(SELECT_SET_ASIDE)]
    check_count(len({row.arrival for row in rows if row.is_sound}), read_totals(database).set_aside)
    return understand_set_aside(rows, lambda columns: read_item(database, columns))


def check_count(found: int, expected: int) -> None:
    """Raise DatabaseDamaged unless as many items were found as were counted in."""
    if found != expected:
        raise DatabaseDamaged(f"the spool lists {found} items and counts {expected}")


def write_body(database: sqlite3.Connection, arrival: int, digest: bytes, body: bytes) -> None:
    """Store a body; a large one without a copy of it in memory."""
    if len(body) <= _LARGE_BYTES:
        database.execute(INSERT_BODY, (arrival, digest, body))
        return
    database.execute(INSERT_EMPTY_BODY, (arrival, digest, len(body)))
    with database.blobopen("body", "bytes", arrival) as blob:
        blob.write(body)


def read_body(database: sqlite3.Connection, arrival: int) -> bytes | None:
    """Return a body as it is, sound or not; None if there is none. Raises DatabaseDamaged."""
    found = database.execute(SELECT_BODY, (_LARGE_BYTES, arrival)).fetchone()
    if found is None:
        return None
    kind, small = found
    if kind != "blob":
        raise DatabaseDamaged(f"body {arrival} of the spool is not made of bytes")
    if small is not None:
        return bytes(small)
    # The connection remembers every blob that it ever opened (CPython issue 144424): not for a small one.
    with database.blobopen("body", "bytes", arrival, readonly=True) as blob:
        return blob.read()


def read_checked(database: sqlite3.Connection, checkpoint_id: str) -> tuple[bytes, str | None]:
    """Return a body, and what is wrong with it."""
    row = find_known(database, checkpoint_id)
    body = read_body(database, row.arrival or 0)
    if not row.is_sound:
        raise DatabaseDamaged(f"the row of checkpoint {checkpoint_id} does not match its seal")
    if body is not None:
        return body, None if hashlib.sha256(body).digest() == row.digest else DAMAGED
    if row.status == Progress.REFUSED:
        return b"", row.reason
    if row.status == Progress.VERIFIED:
        raise UnknownRun(f"checkpoint {checkpoint_id} is not in the spool any more")
    raise DatabaseDamaged(f"checkpoint {checkpoint_id} has lost its body")


def read_untold(database: sqlite3.Connection, checkpoint_id: str) -> tuple[ItemRow | None, bytes | None]:
    """Return the row and the body of a checkpoint whose fingerprint is still to be made, if it is one."""
    row = find_row(database, checkpoint_id)
    if row is None or row.fingerprint != IN_BODY:
        return None, None
    return row, read_body(database, row.arrival or 0)
