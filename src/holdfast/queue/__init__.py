"""The spool: the durable queue between a caller who was answered and the repository."""

from holdfast.queue.contract import Backoff, NewItem, Quarantined, Queue, QueueLimits, QueueStatus
from holdfast.queue.sqlite_queue import SqliteQueue
from holdfast.queue.transfer import ImportReport, Manifest, export_spool, import_spool

__all__ = [
    "Backoff",
    "ImportReport",
    "Manifest",
    "NewItem",
    "Quarantined",
    "Queue",
    "QueueLimits",
    "QueueStatus",
    "SqliteQueue",
    "export_spool",
    "import_spool",
]
