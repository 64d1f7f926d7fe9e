"""Handing on what waits in the spool of one shard, and is stored in another."""

from collections.abc import Sequence

from holdfast.format.receipt import Persistence, QueueItem
from holdfast.logs import log
from holdfast.queue import Queue
from holdfast.queue.moving import first_batch, move_batch


def hand_on(source: Queue, target: Queue, items: Sequence[QueueItem]) -> None:
    """Move these items, in the order of their arrival; `source` learns how far their runs are.

    Killed anywhere, it is done again the next time. Raises SpoolError.
    """
    rest = list(items)
    while batch := first_batch(source, rest):
        receipts = move_batch(source, target, batch, persistence=Persistence.NORMAL)
        for run_id, sequence in {each.run_id: each.sequence_number for each in receipts}.items():
            source.learn_sequence(run_id, sequence)
        moved = {item.checkpoint_id for item in batch}
        rest = [item for item in rest if item.checkpoint_id not in moved]
    log.info("checkpoints_handed_on", checkpoints=len(items), runs=len({item.run_id for item in items}))
