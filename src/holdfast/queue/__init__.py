"""The spool: the durable queue between a caller who was answered and the repository."""

from holdfast.queue.contract import Backoff, NewItem, Quarantined, Queue, QueueLimits, QueueStatus
from holdfast.queue.sqlite_queue import SqliteQueue

__all__ = [
    "Backoff",
    "NewItem",
    "Quarantined",
    "Queue",
    "QueueLimits",
    "QueueStatus",
    "SqliteQueue",
]
