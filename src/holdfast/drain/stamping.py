"""Reads checkpoints from the queue as the repository will hold them: stamped, under their final numbers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.drain.numbering import StoredFile, assign_sequences, find_arrivals, ids_to_rank
from holdfast.drain.write_plan import WritePlan
from holdfast.errors import IntegrityFailure, InvalidCheckpoint, Missing, NewerFormat, SpoolDamaged
from holdfast.format.checkpoint import Envelope, renumber_body
from holdfast.format.paths import Layout
from holdfast.format.receipt import QueueItem
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.format.stored_file import open_contents
from holdfast.logs import log
from holdfast.queue import Queue

Stamp = Callable[[bytes], Envelope]
"""Makes of a body what the repository will hold."""

Locate = Callable[[Sequence[Envelope]], Mapping[str, StoredFile]]
"""Tells which file each checkpoint is about to become."""


@dataclass(frozen=True, slots=True)
class StampedItem:
    """A queue item and the stamped checkpoint that it stands for, both under the same number."""

    item: QueueItem
    envelope: Envelope


def stamp_items(
    spool: Queue,
    snapshot: RunSnapshot,
    items: Sequence[QueueItem],
    stamp: Stamp,
    *,
    locate: Locate = lambda _: {},
    tried: Iterable[StoredFile] = (),
    breathe: Callable[[], None] = lambda: None,
    admit: Callable[[list[StampedItem]], list[StampedItem]] = lambda stamped: stamped,
) -> list[StampedItem]:
    """Return the stamped checkpoints under numbers that no other one of the run has.

    `tried` are the files of earlier attempts. A new number is durable, in item and receipt, before anything
    is sent under it. An item whose bytes are damaged is quarantined by the queue and left out here. `breathe`
    is called before each checkpoint, so that others may have a turn. What `admit` leaves out is left out.
    """
    stamped = admit(_read(spool, items, stamp, breathe))
    envelopes = [each.envelope for each in stamped]
    ids = ids_to_rank(snapshot, items)
    ranks = spool.arrivals(ids) if ids else {}
    changed = assign_sequences(
        snapshot,
        [envelope.header for envelope in envelopes],
        tried=tried,
        own=locate(envelopes),
        arrivals=find_arrivals(snapshot, items, ranks),
    )
    _learn_highest(spool, snapshot)
    affected = [each.item for each in stamped if each.item.checkpoint_id in changed]
    # The highest first: wherever a crash cuts this short, the numbers still tell the order.
    affected.sort(key=lambda item: changed[item.checkpoint_id], reverse=True)
    moved = {
        each.checkpoint_id: _renumber(spool, each, changed[each.checkpoint_id], stamp) for each in affected
    }
    return [moved.get(each.item.checkpoint_id, each) for each in stamped]


def with_stored_latest(
    plan: WritePlan, snapshot: RunSnapshot, read_blob: Callable[[str], bytes], layout: Layout
) -> WritePlan:
    """Return the plan; where `latest.json` becomes a copy of a stored checkpoint, with the stored bytes.

    Stamped again, the checkpoint may have other bytes: its members are stored by now, and become parts. But
    the copy must equal the file, and refer to no part that this plan does not write.
    """
    newest = plan.merged.current
    entry = snapshot.index.by_id.get(newest.checkpoint_id) if newest else None
    if plan.latest is None or entry is None or entry.blob_sha in ("", plan.latest.blob_sha):
        return plan
    sha = snapshot.blobs.get(layout.name_of(snapshot.run_id, entry.file_path), entry.blob_sha)
    try:
        found = open_contents(read_blob(sha), entry.file_path).envelopes.get(entry.sequence)
    except NewerFormat:
        raise
    except (IntegrityFailure, Missing):
        return plan  # someone has damaged it since, or it lies in a batch of which nobody knows the blob
    if found is None or found.checkpoint_id != entry.checkpoint_id:
        return plan
    return replace(plan, latest=replace(plan.latest, content=found.content, blob_sha=found.blob_sha))


def _learn_highest(spool: Queue, snapshot: RunSnapshot) -> None:
    """Have the queue go on above the highest number that the repository has ever had for the run."""
    newest = snapshot.index.newest
    highest = max(newest.sequence if newest else 0, snapshot.pruned_through)
    if highest > spool.known_sequence(snapshot.run_id):
        spool.learn_sequence(snapshot.run_id, highest)


def _renumber(spool: Queue, item: QueueItem, sequence: int, stamp: Stamp) -> StampedItem:
    body = renumber_body(spool.read(item), sequence)
    log.info(
        "checkpoint_renumbered",
        run_id=item.run_id,
        checkpoint_id=item.checkpoint_id,
        sequence_before=item.sequence,
        sequence=sequence,
    )
    return StampedItem(spool.renumber(item, sequence, body), stamp(body))


def _read(
    spool: Queue, items: Sequence[QueueItem], stamp: Stamp, breathe: Callable[[], None]
) -> list[StampedItem]:
    stamped = []
    for item in items:
        breathe()
        try:
            stamped.append(StampedItem(item, stamp(spool.read(item))))
        except SpoolDamaged as error:
            log.error("checkpoint_damaged", checkpoint_id=item.checkpoint_id, cause=str(error))
        except InvalidCheckpoint as error:
            # A caller's orjson.Fragment is taken at its word until here.
            spool.set_aside(item, f"its body is not JSON: {error}")
            log.error("checkpoint_set_aside", checkpoint_id=item.checkpoint_id, cause=str(error))
    return stamped
