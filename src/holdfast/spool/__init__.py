"""The spool: the durable queue between a caller who was answered and the repository."""

from holdfast.spool.admission import Entry, SpoolLimits
from holdfast.spool.change import Delivery
from holdfast.spool.group_commit import GroupCommit
from holdfast.spool.queue import SetAside, Spool, SpoolStatus
from holdfast.spool.records import Hold

__all__ = ["Delivery", "Entry", "GroupCommit", "Hold", "SetAside", "Spool", "SpoolLimits", "SpoolStatus"]
