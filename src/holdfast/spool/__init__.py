"""The spool: the durable queue between a caller who was answered and the repository."""

from holdfast.spool.admission import Entry, SpoolLimits
from holdfast.spool.queue import SetAside, Spool, SpoolStatus
from holdfast.spool.records import Hold
from holdfast.spool.transfer import ImportReport, Manifest, export_spool, import_spool

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
