"""The tables of the shared queue, the statements that speak to them, and the rows that come back.

The names begin with `holdfast_`, in whatever schema comes first in the user's search path. One database may
serve several targets: a target is one API, repository, branch and base path. `holdfast_item` has the columns
of the queue on disk, in the same order, and the body beside them.
"""

from collections.abc import Sequence

import orjson

from holdfast.queue.rows import ItemRow

# Each entry is one version of the tables. Entries are added and never changed: somebody has run them.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """create table holdfast_target (
            target integer generated always as identity primary key,
            name text not null unique
        )""",
        """create table holdfast_item (
            arrival bigint generated always as identity primary key,
            checkpoint_id text not null,
            run_id text not null,
            sequence bigint not null,
            trigger text not null,
            priority smallint not null,
            size bigint not null,
            arrived_at double precision not null,
            is_automatic smallint not null,
            digest bytea not null,
            seal bytea not null,
            fingerprint text,
            persistence text not null,
            status text not null,
            file_path text not null,
            commit_sha text,
            blob_sha text,
            reason text,
            attempts integer not null,
            not_before double precision not null,
            changed_at double precision not null,
            target integer not null,
            body bytea,
            unique (target, checkpoint_id)
        )""",
        # States are written once and read once: compressing them costs more than it saves.
        "alter table holdfast_item alter column body set storage external",
        """create index holdfast_item_waiting on holdfast_item (target, priority, arrival)
            where status in ('spooled', 'committed')""",
        """create index holdfast_item_set_aside on holdfast_item (target, priority, arrival)
            where status = 'refused'""",
        """create index holdfast_item_verified on holdfast_item (target, changed_at)
            where status = 'verified'""",
        "create index holdfast_item_number on holdfast_item (target, run_id, sequence)",
        """create table holdfast_run (
            target integer not null,
            run_id text not null,
            highest bigint not null,
            floor bigint not null,
            primary key (target, run_id)
        )""",
        """create table holdfast_note (
            target integer not null,
            name text not null,
            value bytea not null,
            primary key (target, name)
        )""",
        # One row for each connection, by and large: a single one would let only one commit at a time.
        """create table holdfast_total (
            target integer not null,
            slot smallint not null,
            depth bigint not null,
            bytes bigint not null,
            set_aside bigint not null,
            set_aside_bytes bigint not null,
            primary key (target, slot)
        )""",
        """create table holdfast_lease (
            target integer primary key,
            fence bigint not null,
            holder text not null,
            process integer not null,
            expires_at timestamptz not null
        )""",
        """create table holdfast_budget (
            identity text primary key,
            record bytea not null
        )""",
    ),
    (
        """create table holdfast_claim (
            target text not null,
            run_id text not null,
            record bytea not null,
            primary key (target, run_id)
        )""",
    ),
)

# The first statement of every transaction that changes something. What was answered for must be on the disk
# of the server, whatever its default is; and a process that freezes must not keep its locks for long.
TERMS = """select set_config('synchronous_commit',
    case current_setting('synchronous_commit') when 'remote_apply' then 'remote_apply' else 'on' end, true),
    set_config('lock_timeout', '8s', true), set_config('statement_timeout', '60s', true),
    set_config('idle_in_transaction_session_timeout', '8s', true)"""
BEGIN = f"begin; {TERMS}"
# Advisory locks are told from those of other programs by their first number.
LOCK_CLASS = 0x484F4C44
LOCK_MIGRATIONS = f"select pg_advisory_xact_lock({LOCK_CLASS}, 0)"

FIND_TARGET = "select target from holdfast_target where name = %s"
ADD_TARGET = "insert into holdfast_target (name) values (%s) on conflict do nothing"

_ROW = ", ".join(f"i.{column}" for column in ItemRow._fields)
_KEPT = ItemRow._fields[1:]
_TYPES = {
    "sequence": "bigint",
    "priority": "smallint",
    "size": "bigint",
    "arrived_at": "double precision",
    "is_automatic": "smallint",
    "digest": "bytea",
    "seal": "bytea",
    "attempts": "integer",
    "not_before": "double precision",
    "changed_at": "double precision",
}
# The rows come as one JSON text: to write two dozen arrays costs the driver several times as much.
_RECORD = ", ".join(f"{column} {_TYPES.get(column, 'text')}" for column in _KEPT)
INSERT_ITEMS = (
    f"insert into holdfast_item (target, {', '.join(_KEPT)}, body)"
    f" select %s, * from rows from (json_to_recordset(%s::json) as ({_RECORD}), unnest(%b::bytea[]))"
)
SELECT_ITEMS = f"select {_ROW} from holdfast_item i where target = %s and checkpoint_id = any(%s)"
LOCK_ITEMS = f"{SELECT_ITEMS} order by arrival for update"
SELECT_WAITING = (
    "select checkpoint_id, run_id, sequence, trigger, priority, size, arrived_at, is_automatic, not_before"
    " from holdfast_item where target = %s and status in ('spooled', 'committed') order by priority, arrival"
)
SELECT_OLDEST = (
    "select (select arrived_at from holdfast_item where target = %s and status in ('spooled', 'committed')"
    " and priority = wanted order by arrival limit 1) from unnest(%s::smallint[]) as wanted"
)
SELECT_SET_ASIDE = (
    f"select {_ROW} from holdfast_item i where target = %s and status = 'refused' and body is not null"
    " order by priority, arrival"
)
_JOURNEY = "checkpoint_id, run_id, sequence, trigger, size, arrived_at, status, changed_at"
SELECT_JOURNEYS = (
    f"select {_JOURNEY} from holdfast_item where target = %s and run_id = coalesce(%s, run_id)"
    " order by arrival desc limit %s"
)
SELECT_BODY = f"select {_ROW}, body from holdfast_item i where target = %s and checkpoint_id = %s"
SELECT_TAKEN = (
    "select i.run_id, i.sequence from holdfast_item i join unnest(%s::text[], %s::bigint[])"
    " as wanted (run_id, sequence) using (run_id, sequence) where i.target = %s"
)
COUNT_VERIFIED = "select count(*) from holdfast_item where target = %s and status = 'verified'"
DELETE_OLD = (
    "delete from holdfast_item where arrival in (select arrival from holdfast_item where target = %s"
    " and status = 'verified' and changed_at < %s order by changed_at limit %s for update skip locked)"
    " returning run_id, sequence"
)
DELETE_VERIFIED = (
    "delete from holdfast_item where target = %s and run_id = %s and status = 'verified' returning sequence"
)
DELETE_ITEMS = "delete from holdfast_item where arrival = any(%s)"
TOUCH_ITEMS = (
    "update holdfast_item set changed_at = greatest(changed_at, %s)"
    " where arrival = any(%s) and status <> 'verified'"
)
SET_STATUS = (
    "update holdfast_item set status = %s, reason = %s, attempts = 0, not_before = 0, changed_at = %s"
    " where arrival = %s"
)
SET_DELIVERIES = (
    "update holdfast_item i set status = %s, reason = null, changed_at = %s, sequence = d.sequence,"
    " seal = d.seal, file_path = d.file_path, commit_sha = d.commit_sha, blob_sha = d.blob_sha{more}"
    " from unnest(%s::bigint[], %s::bigint[], %b::bytea[], %s::text[], %s::text[], %s::text[])"
    " as d (arrival, sequence, seal, file_path, commit_sha, blob_sha) where i.arrival = d.arrival"
)
SET_COMMITTED = SET_DELIVERIES.format(more="")
SET_VERIFIED = SET_DELIVERIES.format(more=", attempts = 0, not_before = 0, body = null")
SET_NUMBER = (
    "update holdfast_item set sequence = %s, size = %s, digest = %b, seal = %b, file_path = %s,"
    " changed_at = %s, body = %b where arrival = %s"
)
SET_BACKOFF = (
    "update holdfast_item set attempts = attempts + 1, not_before = %s, reason = %s, changed_at = %s"
    " where target = %s and checkpoint_id = any(%s) and status in ('spooled', 'committed')"
)

SELECT_RUNS = "select run_id, highest, floor from holdfast_run where target = %s and run_id = any(%s)"
RAISE_RUNS = (
    "insert into holdfast_run as known (target, run_id, highest, floor)"
    " select %s, run_id, max(highest), max(floor)"
    " from unnest(%s::text[], %s::bigint[], %s::bigint[]) as wanted (run_id, highest, floor)"
    " group by run_id order by run_id on conflict (target, run_id) do update set"
    " highest = greatest(known.highest, excluded.highest), floor = greatest(known.floor, excluded.floor)"
)

WRITE_NOTE = (
    "insert into holdfast_note values (%s, %s, %b) on conflict (target, name) do update"
    " set value = excluded.value"
)
SELECT_NOTES = "select name, value from holdfast_note where target = %s"
DELETE_NOTES = "delete from holdfast_note where target = %s and name = any(%s)"

SELECT_TOTAL = (
    "select coalesce(sum(depth), 0)::bigint, coalesce(sum(bytes), 0)::bigint,"
    " coalesce(sum(set_aside), 0)::bigint, coalesce(sum(set_aside_bytes), 0)::bigint"
    " from holdfast_total where target = %s"
)
ADD_TO_TOTAL = (
    "insert into holdfast_total as known values (%s, pg_backend_pid() %% 256, %s, %s, %s, %s)"
    " on conflict (target, slot) do update set depth = known.depth + excluded.depth,"
    " bytes = known.bytes + excluded.bytes, set_aside = known.set_aside + excluded.set_aside,"
    " set_aside_bytes = known.set_aside_bytes + excluded.set_aside_bytes"
)
# What every put asks and does, as one turn to the server and back each.
SELECT_STATE = (
    f"select t.*, r.run_id, r.highest, r.floor from ({SELECT_TOTAL}) as t (depth, bytes, aside, aside_bytes)"
    " left join holdfast_run r on r.target = %s and r.run_id = any(%s)"
)
TAKE_IN = f"with items as ({INSERT_ITEMS}), runs as ({RAISE_RUNS}) {ADD_TO_TOTAL}"

# The lease is told by the server's clock alone: those of the replicas may differ.
TAKE_LEASE = (
    "insert into holdfast_lease as known values (%s, 1, %s, %s, clock_timestamp() + %s * interval '1 second')"
    " on conflict (target) do update set fence = known.fence + 1, holder = excluded.holder,"
    " process = excluded.process, expires_at = excluded.expires_at"
    " where known.expires_at <= clock_timestamp() returning fence"
)
SELECT_LEASE = (
    "select holder, process, extract(epoch from expires_at - clock_timestamp())::double precision, fence"
    " from holdfast_lease where target = %s"
)
RENEW_LEASE = (
    "update holdfast_lease set expires_at = clock_timestamp() + %s * interval '1 second'"
    " where target = %s and fence = %s"
)
END_LEASE = "update holdfast_lease set expires_at = clock_timestamp() where target = %s and fence = %s"
CHECK_FENCE = "select fence = %s from holdfast_lease where target = %s for share"

_NOW = "extract(epoch from clock_timestamp())::double precision"
SELECT_BUDGET = f"select record, {_NOW} from holdfast_budget where identity = %s"
LOCK_BUDGET = f"{SELECT_BUDGET} for update"
ADD_BUDGET = "insert into holdfast_budget values (%s, '') on conflict do nothing"
WRITE_BUDGET = "update holdfast_budget set record = %b where identity = %s"

# Whoever is frozen while it holds the row keeps everyone else from the run, so not for long.
HURRY_CLAIM = "set local idle_in_transaction_session_timeout = '2s'"
ADD_CLAIM = "insert into holdfast_claim values (%s, %s, '') on conflict do nothing"
SELECT_CLAIM = f"select record, {_NOW} from holdfast_claim where target = %s and run_id = %s"
LOCK_CLAIM = f"{SELECT_CLAIM} for update"
WRITE_CLAIM = "update holdfast_claim set record = %b where target = %s and run_id = %s"


def columns_of(rows: Sequence[Sequence[object]]) -> list[list[object]]:
    """Return rows as one list for each column, as `unnest` takes them."""
    return [list(column) for column in zip(*rows, strict=True)]


def write_rows(rows: Sequence[ItemRow]) -> str:
    """Return new rows as the JSON text that `INSERT_ITEMS` takes."""
    return orjson.dumps([dict(zip(_KEPT, row[1:], strict=True)) for row in rows], default=_in_hex).decode()


def _in_hex(value: object) -> str:
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    raise TypeError(f"no column holds a {type(value).__name__}")
