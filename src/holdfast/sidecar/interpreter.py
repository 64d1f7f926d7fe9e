"""An interpreter that answers evenly: its threads take turns, and garbage is collected seldom."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Several threads share one interpreter; with Python's 5 ms, each statement of a commit might wait that long.
SWITCH_INTERVAL_S = 0.001
# With Python's 700, 10, 10 a full collection of 50 ms and more, in which nobody is answered, comes every few
# seconds under load. What a request leaves behind is collected young; the full one still comes, rarely.
COLLECT_AFTER = (50_000, 50, 10)


@contextmanager
def even_interpreter() -> Iterator[None]:
    """Let no thread, and no collection of garbage, keep the answers waiting for long."""
    interval_s, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(*COLLECT_AFTER)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval_s)
