"""One piece of work in a process of its own, which prints its peak memory and times as JSON."""

import json
import logging
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import structlog

from benchmarks.states import encode, make_state

_CHUNK = 500


def main() -> None:
    """Do what the arguments say: save or drain, who, where, how many, and at which GitHub."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    task, name, folder, checkpoints, url = sys.argv[1:]
    if task == "drain":
        found = _drain(name, Path(folder), int(checkpoints), url)
    else:
        found = _save(name, Path(folder), int(checkpoints))
    print(json.dumps({**found, "peak_mb": _peak_mb()}))


def _peak_mb() -> float:
    """Return the most memory that this process ever held."""
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    # On Linux, ru_maxrss begins with what the process that started this one held.
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**10


def _save(name: str, folder: Path, checkpoints: int) -> dict[str, float]:
    state = make_state("50 KB")
    if name == "Holdfast":
        from benchmarks.contestants import CONTENTS, holdfast_settings
        from holdfast import Holdfast

        with Holdfast(holdfast_settings(CONTENTS, "http://127.0.0.1:9", folder)) as holdfast:
            for _ in range(checkpoints):
                holdfast.save("run-1", state, phase="phase_1_plan")
    elif name == "LangGraph SqliteSaver":
        from benchmarks.peers.local_saving import LangGraphSaver

        saver = LangGraphSaver(folder)
        for _ in range(checkpoints):
            saver.save(state, b"")
        saver.close()
    else:
        import github  # noqa: F401 (what a loop needs is its library and a state)
    return {}


def _drain(name: str, folder: Path, checkpoints: int, url: str) -> dict[str, float]:
    """Fill the spool in another process, so that this one's peak is that of draining alone."""
    child = os.fork()
    if child == 0:
        _fill(name, folder, checkpoints, url)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        raise AssertionError("the spool could not be filled")
    from benchmarks.contestants import holdfast_settings
    from holdfast import Holdfast

    cpu_before = time.process_time()
    with Holdfast(holdfast_settings(name, url, folder)) as holdfast:
        result = holdfast.drain(timeout_s=600)
    if result.left:
        raise AssertionError(f"Holdfast left work behind: {result}")
    return {"cpu_s": time.process_time() - cpu_before}


def _fill(name: str, folder: Path, checkpoints: int, url: str) -> None:
    from benchmarks.contestants import holdfast_settings
    from holdfast.core.envelope import Draft, draft_from_text
    from holdfast.wiring import Assembly

    state = encode(make_state("50 KB"))

    def drafts(numbers: range) -> Iterator[Draft]:
        for number in numbers:
            head = b'"run_id":"run-%d","trigger":"manual","phase":"phase_1_plan"' % (number % 10)
            text = b'{%b,"state":%b}' % (head, state)
            yield draft_from_text(text, now="2026-03-01T12:00:00Z", new_id=lambda: str(uuid4()))

    assembly = Assembly(holdfast_settings(name, url, folder))
    for start in range(0, checkpoints, _CHUNK):
        assembly.spool.put_all(list(drafts(range(start, min(start + _CHUNK, checkpoints)))))
    assembly.close()


if __name__ == "__main__":
    main()
