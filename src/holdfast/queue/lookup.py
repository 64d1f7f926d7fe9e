"""Finding items and bodies in the store, and noticing when the rows do not agree with each other."""

from holdfast.cache.store import Store
from holdfast.disk import DatabaseDamaged, RowDamaged, digest_of
from holdfast.errors import SpoolDamaged, UnknownRun
from holdfast.format.receipt import Progress
from holdfast.queue import keys
from holdfast.queue.records import DAMAGED, Record, Totals


def list_items(store: Store) -> list[str]:
    """Return the keys of all items, and make sure that none has got lost."""
    found = store.keys(keys.TICKET)
    if len(found) != Totals.decode(store.get(keys.TOTALS)).depth:
        # Perhaps one came in between the two readings; behind the lock there is no between.
        with store.transact():
            found = store.keys(keys.TICKET)
            expected = Totals.decode(store.get(keys.TOTALS)).depth
        if len(found) != expected:
            raise DatabaseDamaged(f"the spool lists {len(found)} tickets and counts {expected}")
    return found


def read_body(store: Store, checkpoint_id: str) -> tuple[bytes, str | None]:
    """Return a body, and what is wrong with it."""
    record = _find_record(store, checkpoint_id)
    is_aside = record.receipt.status == Progress.REFUSED
    try:
        body = store.get((keys.ASIDE if is_aside else keys.TICKET) + record.slot)
    except RowDamaged as error:
        return b"", str(error)
    if body is None and is_aside:
        return b"", record.receipt.reason
    if body is None:
        raise UnknownRun(f"checkpoint {checkpoint_id} is not in the spool any more")
    # What was set aside because it is damaged was stored again as it was.
    is_sound = not is_aside or digest_of(body).hex() == record.body_sha256
    return body, None if is_sound else DAMAGED


def _find_record(store: Store, checkpoint_id: str) -> Record:
    row = store.get(keys.RECEIPT + checkpoint_id)
    if row is not None:
        return Record.decode(row)
    if any(keys.parse_slot(key).item.checkpoint_id == checkpoint_id for key in store.keys(keys.TICKET)):
        raise DatabaseDamaged(f"checkpoint {checkpoint_id} is in the spool without a receipt")
    if Totals.decode(store.get(keys.TOTALS)).lost:
        raise SpoolDamaged(
            f"checkpoint {checkpoint_id} is not in the spool, which was damaged and has lost some"
        )
    raise UnknownRun(f"checkpoint {checkpoint_id} is not in the spool")
