"""What is not needed any more goes back to the system."""

import asyncio
import threading
import weakref
from pathlib import Path

import pytest

from holdfast.sidecar import memory
from holdfast.sidecar.memory import give_back, share_heaps


class Ring:
    """Refers to itself, so that only a collection of garbage lets it go."""

    def __init__(self) -> None:
        self.itself = self


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4096


@pytest.mark.slow
def test_garbage_goes() -> None:
    ring = weakref.ref(Ring())

    give_back()

    assert ring() is None


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux tells what a process holds")
def test_what_threads_have_freed_between_what_they_still_hold_goes_back() -> None:
    share_heaps()
    kept: list[bytes] = []

    def work() -> None:
        # Pieces of 64 KB come from the C library's heap; every 100th of them is still needed.
        kept.extend([b"%065000d" % number for number in range(1000)][::100])

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    before = resident_bytes()
    give_back()

    assert before - resident_bytes() > 10_000_000
    assert len(kept) == 10


def test_the_sidecar_gives_back_regularly(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back = threading.Event()
    monkeypatch.setattr(memory, "GIVE_BACK_EVERY_S", 0.0)
    monkeypatch.setattr(memory, "give_back", given_back.set)

    async def live() -> None:
        lean = asyncio.create_task(memory.stay_lean(asyncio.to_thread))
        await asyncio.to_thread(given_back.wait, 10)
        lean.cancel()

    asyncio.run(live())

    assert given_back.is_set()
