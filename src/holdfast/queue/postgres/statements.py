"""The tables of the shared queue, the statements that speak to them, and the rows that come back.

The names begin with `holdfast_`, in whatever schema comes first in the user's search path. One database may
serve several targets: a target is one API, repository, branch and base path. `holdfast_item` has the columns
of the queue on disk, in the same order, and the body beside them.
"""

from collections.abc import Sequence

from holdfast.queue.rows import CHANGING, JOURNEY_COLUMNS, WAITING_COLUMNS, ItemRow

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
_SYNCED = """set_config('synchronous_commit',
    case current_setting('synchronous_commit') when 'remote_apply' then 'remote_apply' else 'on' end, true)"""
# The client gives up soon after these (`silence.py`), so they are also how long a save may hang in all.
LOCK_TIMEOUT_S = 4
STATEMENT_TIMEOUT_S = 60
_LOCK_TIMEOUT = f"set_config('lock_timeout', '{LOCK_TIMEOUT_S}s', true)"
TERMS = f"""select {_SYNCED}, {_LOCK_TIMEOUT},
    set_config('statement_timeout', '{STATEMENT_TIMEOUT_S}s', true),
    set_config('idle_in_transaction_session_timeout', '8s', true)"""
# The same for a statement that is a transaction of its own, which cannot be left amid.
DURABLY = f"{_SYNCED} || {_LOCK_TIMEOUT}"
BEGIN = f"begin; {TERMS}"
# Advisory locks are told from those of other programs by their first number.
LOCK_CLASS = 0x484F4C44
LOCK_MIGRATIONS = f"select pg_advisory_xact_lock({LOCK_CLASS}, 0)"

FIND_TARGET = "select target from holdfast_target where name = %s"
ADD_TARGET = "insert into holdfast_target (name) values (%s) on conflict do nothing"

_ROW = ", ".join(f"i.{column}" for column in ItemRow._fields)
_KINDS = {
    **dict.fromkeys(("digest", "seal", "body"), "bytea"),
    **dict.fromkeys(("sequence", "size"), "bigint"),
    **dict.fromkeys(("priority", "is_automatic", "attempts"), "integer"),
    **dict.fromkeys(("arrived_at", "not_before"), "double precision"),
}
# What is the same in every new row is not sent, and its length tells the size of a body.
_SENT = "checkpoint_id run_id sequence trigger priority arrived_at is_automatic digest seal fingerprint"
NEW_COLUMNS = {column: _KINDS.get(column, "text") for column in f"{_SENT} persistence file_path body".split()}
_NEW_ARRAYS = ", ".join(f"%({column})s::{kind}[]" for column, kind in NEW_COLUMNS.items())
INSERT_ITEMS = (
    f"insert into holdfast_item ({', '.join(NEW_COLUMNS)}, target, size, status, attempts, not_before,"
    f" changed_at) select {', '.join(NEW_COLUMNS)}, %(target)s::integer, length(body), 'spooled', 0, 0,"
    f" arrived_at from unnest({_NEW_ARRAYS}) as new ({', '.join(NEW_COLUMNS)})"
)
SELECT_ITEMS = f"select {_ROW} from holdfast_item i where target = %s and checkpoint_id = any(%s)"
LOCK_ITEMS = f"{SELECT_ITEMS} order by arrival for update"
SELECT_WAITING = (
    f"select {WAITING_COLUMNS} from holdfast_item where target = %s"
    " and status in ('spooled', 'committed') order by priority, arrival"
)
SELECT_OLDEST = (
    "select (select arrived_at from holdfast_item where target = %s and status in ('spooled', 'committed')"
    " and priority = wanted order by arrival limit 1) from unnest(%s::smallint[]) as wanted"
)
SELECT_SET_ASIDE = (
    f"select {_ROW} from holdfast_item i where target = %s and status = 'refused' and body is not null"
    " order by priority, arrival"
)
SELECT_JOURNEYS = (
    f"select {JOURNEY_COLUMNS} from holdfast_item where target = %s and run_id = coalesce(%s, run_id)"
    " order by arrival desc limit %s"
)
SELECT_BODY = f"select {_ROW}, body from holdfast_item i where target = %s and checkpoint_id = %s"
SELECT_TAKEN = (
    "select i.run_id, i.sequence from holdfast_item i join unnest(%s::text[], %s::bigint[])"
    " as wanted (run_id, sequence) using (run_id, sequence) where i.target = %s"
)
COUNT_VERIFIED = "select count(*) from holdfast_item where target = %s and status = 'verified'"
COUNT_VERIFIED_BETWEEN = f"{COUNT_VERIFIED} and changed_at between %s and %s"
DELETE_OLD = (
    "delete from holdfast_item where arrival in (select arrival from holdfast_item where target = %s"
    " and status = 'verified' and changed_at < %s order by changed_at limit %s for update skip locked)"
    " returning run_id, sequence"
)
DELETE_VERIFIED = (
    "delete from holdfast_item where target = %s and run_id = %s and status = 'verified'"
    " returning run_id, sequence"
)
DELETE_ITEMS = "delete from holdfast_item where arrival = any(%s)"
_CHANGED = ", ".join(f"{column} = new.{column}" for column in CHANGING)
_CHANGED_ARRAYS = ", ".join(
    f"{'%b' if column in ('digest', 'seal') else '%s'}::{_KINDS.get(column, 'text')}[]" for column in CHANGING
)
_SET_ITEMS = (
    f"update holdfast_item i set {_CHANGED}, changed_at = %s{{body}}"
    f" from unnest(%s::bigint[], {_CHANGED_ARRAYS}) as new (arrival, {', '.join(CHANGING)})"
    " where i.arrival = new.arrival"
)
SET_ITEMS = _SET_ITEMS.format(body="")
SET_ITEMS_WITH_BODY = _SET_ITEMS.format(body=", body = %b")
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
# Writes the rows even if nothing changes: a commit that writes is confirmed, and all before it as well.
LOCK_RUNS = (
    "insert into holdfast_run as known (target, run_id, highest, floor)"
    " select %s, run_id, 0, 0 from unnest(%s::text[]) as wanted (run_id) order by run_id"
    " on conflict (target, run_id) do update set highest = known.highest returning run_id, highest, floor"
)
FORGET_RUNS = "delete from holdfast_run where target = %s and run_id = any(%s) and highest = 0 and floor = 0"
TAKE_IN = f"""with items as ({INSERT_ITEMS} returning size), runs as (
    insert into holdfast_run as known (target, run_id, highest, floor)
    select %(target)s::integer, run_id, highest, 0
    from unnest(%(runs)s::text[], %(highest)s::bigint[]) as wanted (run_id, highest) order by run_id
    on conflict (target, run_id) do update set highest = greatest(known.highest, excluded.highest)
) insert into holdfast_total as known
    select %(target)s::integer, pg_backend_pid() %% 256, count(*), sum(size), 0, 0 from items
    on conflict (target, slot) do update
    set depth = known.depth + excluded.depth, bytes = known.bytes + excluded.bytes"""
# A whole put: how durable it is and how long it waits, then the runs whose numbers were guessed well, then
# their checkpoints in the order in which they came. Nothing at all if one is known or there is no room.
TAKE_IN_AT_ONCE = f"""with runs as (
    insert into holdfast_run as known (target, run_id, highest, floor)
    select %(target)s::integer, run_id, highest, 0
    from unnest(%(runs)s::text[], %(highest)s::bigint[]) as wanted (run_id, highest)
    where (select {DURABLY}) is not null and (
        select coalesce(sum(depth + set_aside), 0) <= %(items_before)s::bigint
            and coalesce(sum(bytes + set_aside_bytes), 0) <= %(bytes_before)s::bigint
        from holdfast_total where target = %(target)s::integer
    ) and not exists (
        select from unnest(%(perhaps_known)s::text[]) as asked (id)
        where (select true from holdfast_item where target = %(target)s::integer and checkpoint_id = asked.id)
    )
    order by run_id
    on conflict (target, run_id) do update set highest = excluded.highest
    where known.highest = (%(before)s::bigint[])[array_position(%(runs)s::text[], known.run_id)]
    returning run_id
), items as ({INSERT_ITEMS} where run_id = any(array(select run_id from runs)) returning size
), total as (
    insert into holdfast_total as known
    select %(target)s::integer, pg_backend_pid() %% 256, count(*), sum(size), 0, 0 from items
    having count(*) > 0
    on conflict (target, slot) do update
    set depth = known.depth + excluded.depth, bytes = known.bytes + excluded.bytes
) select run_id from runs"""

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
