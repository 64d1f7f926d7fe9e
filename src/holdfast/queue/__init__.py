"""The spool: the durable queue between a caller who was answered and the repository."""

from holdfast.queue.admission import Entry, SpoolLimits
from holdfast.queue.queue import SetAside, Spool, SpoolStatus
from holdfast.queue.records import Hold
from holdfast.queue.transfer import ImportReport, Manifest, export_spool, import_spool

__all__ = [
    "Entry",
    "Hold",
    "ImportReport",
    "Manifest",
    "SetAside",
    "Spool",
    "SpoolLimits",
    "SpoolStatus",
    "export_spool",
    "import_spool",
]
