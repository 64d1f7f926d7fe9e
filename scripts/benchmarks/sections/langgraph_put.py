"""How long a put of LangGraph's takes with HoldfastSaver, beside LangGraph's own SqliteSaver."""

import sqlite3
import time
from collections.abc import Callable
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver

from benchmarks.contestants import CONTENTS, holdfast_settings
from benchmarks.report import Bar, Report
from benchmarks.sampling import interleave
from benchmarks.states import State, make_state
from benchmarks.workshop import Workshop
from holdfast import Holdfast
from holdfast.langgraph import HoldfastSaver

NAME = "langgraph"
_SQLITE = "LangGraph SqliteSaver"
_HOLDFAST = "HoldfastSaver"
_SIZE = "50 KB"
# Nobody listens there: saving needs no GitHub.
_NOWHERE = "http://127.0.0.1:9"


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Measure a put of 50 KB, whose members are the channels."""
    rounds, repeats = (9, 5) if is_quick else (75, 6)
    state = make_state(_SIZE)
    connection = sqlite3.connect(workshop.disk_folder() / "langgraph.db", check_same_thread=False)
    connection.execute("PRAGMA synchronous=FULL")
    with Holdfast(holdfast_settings(CONTENTS, _NOWHERE, workshop.disk_folder())) as holdfast:
        timers = {
            _SQLITE: _timer(SqliteSaver(connection), state),
            _HOLDFAST: _timer(HoldfastSaver(holdfast), state),
        }
        for put in timers.values():
            put()
        samples = interleave(timers, rounds=rounds, repeats=repeats)
    connection.close()
    report.add_samples(
        samples, section=NAME, work=_SIZE, name="median", unit="ms", baseline=_SQLITE, scale=1000
    )
    ratio = samples[_HOLDFAST].ratio_to(samples[_SQLITE])
    report.bars.append(Bar(NAME, "a put of 50 KB, in puts of SqliteSaver", ratio, 1.5, "times"))


def _timer(saver: Any, state: State) -> Callable[[], float]:
    config = {"configurable": {"thread_id": "run-1", "checkpoint_ns": ""}}
    versions = dict.fromkeys(state, 1)

    def put_once() -> float:
        checkpoint = {**empty_checkpoint(), "channel_values": dict(state), "channel_versions": versions}
        before = time.perf_counter()
        saver.put(config, checkpoint, {"source": "loop", "step": 1}, versions)
        return time.perf_counter() - before

    return put_once
