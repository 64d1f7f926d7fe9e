"""How much memory this process has in use."""

import os
import sys
from pathlib import Path

_MEGABYTE = 1024 * 1024


def resident_mb() -> float:
    """Return the megabytes in use now; where the system does not tell, the most that ever were."""
    try:
        pages = int(Path("/proc/self/statm").read_bytes().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / _MEGABYTE
    except (OSError, ValueError, IndexError):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most / (_MEGABYTE if sys.platform == "darwin" else 1024)
