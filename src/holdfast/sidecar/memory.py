"""What was needed once goes back to the system: a sidecar runs for years."""

import asyncio
import ctypes
import gc
from collections.abc import Awaitable, Callable

# A collection takes some 10 ms, in which nobody is answered.
GIVE_BACK_EVERY_S = 60.0

# The options of glibc's mallopt. By itself it opens up to eight heaps for each core, one for each thread that
# asks at the same time as another, and gives little of them back; and once a large piece was freed, it takes
# the next ones from these heaps, too.
_ARENA_MAX, _MMAP_THRESHOLD = -8, -3
_HEAPS = 2
_LARGE_BYTES = 1024**2

_c = ctypes.CDLL(None)


def share_heaps() -> None:
    """Let the threads share two heaps, where the C library is glibc. To be called before they begin."""
    if hasattr(_c, "mallopt"):
        _c.mallopt(_ARENA_MAX, _HEAPS)
        _c.mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)


def give_back() -> None:
    """Collect garbage, and give free memory back to the system, as far as the C library does that."""
    gc.collect()
    if hasattr(_c, "malloc_trim"):
        _c.malloc_trim(0)


async def stay_lean(call: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
    """Give back what is free, again and again; `call` runs that in a thread."""
    while True:
        await asyncio.sleep(GIVE_BACK_EVERY_S)
        await call(give_back)
