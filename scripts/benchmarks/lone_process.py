"""One piece of work in a process of its own, which prints its peak memory and times as JSON."""

import json
import logging
import os
import resource
import sys
import time
from pathlib import Path

import structlog

from benchmarks.states import make_state


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
    from benchmarks.filling import fill_spool

    fill_spool(holdfast_settings(name, url, folder), checkpoints=checkpoints, runs=10, size="50 KB")


if __name__ == "__main__":
    main()
