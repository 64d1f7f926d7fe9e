"""The sections of the benchmark; each adds its figures and bars to the report."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.report import Report
from benchmarks.sections import (
    acknowledgement,
    bytes_sent,
    growth,
    holding,
    hour,
    langgraph_put,
    long_run,
    memory,
    network,
    recording,
    requests,
    security,
    shared_queue,
    start_up,
    tracing,
)
from benchmarks.workshop import Workshop


@dataclass(frozen=True)
class Section:
    """One question and how it is answered. `is_quick` asks for a rough answer."""

    title: str
    run: Callable[[Workshop, Report, bool], None]


SECTIONS = {
    acknowledgement.NAME: Section("How long a save takes until it is on disk", acknowledgement.run),
    langgraph_put.NAME: Section("How long a put of LangGraph's takes", langgraph_put.run),
    security.NAME: Section("What it costs that nothing secret is stored", security.run),
    shared_queue.NAME: Section("What several sidecars on one PostgreSQL take in", shared_queue.run),
    recording.NAME: Section("What a run costs that is recorded", recording.run),
    requests.NAME: Section("What a checkpoint costs at GitHub", requests.run),
    bytes_sent.NAME: Section("What goes up if little changes", bytes_sent.run),
    network.NAME: Section("How fast checkpoints get there, near and far", network.run),
    hour.NAME: Section("What one token carries in an hour (virtual time, GitHub's real limits)", hour.run),
    holding.NAME: Section("A repository that already holds many checkpoints", holding.run),
    growth.NAME: Section("How the costs grow with the checkpoints of a run", growth.run),
    long_run.NAME: Section("A run of ten thousand checkpoints beside one of a hundred", long_run.run),
    memory.NAME: Section("Memory", memory.run),
    start_up.NAME: Section("Start-up", start_up.run),
    tracing.NAME: Section("What traces cost, on and off", tracing.run),
}
