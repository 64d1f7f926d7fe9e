"""How long it takes until a state is safe on the local disk, beside others who save locally."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from uuid import uuid4

import orjson
import re2

from benchmarks.contestants import CONTENTS, holdfast_settings
from benchmarks.peers.local_saving import LOCAL_SAVERS, LocalSaver
from benchmarks.report import Bar, Report
from benchmarks.sampling import Sample, interleave
from benchmarks.states import SIZES, State, encode, make_checkpoint, make_state
from benchmarks.workshop import Workshop
from holdfast import Holdfast
from holdfast.queue import tables
from holdfast.queue.sqlite_pages import PAGE_BYTES
from holdfast.security.credential_shapes import RULES

NAME = "acknowledgement"
BASELINE = "bare SQLite insert"
HOLDFAST = "Holdfast"
PROMISES = "Holdfast's promises alone"
_LANGGRAPH = "LangGraph SqliteSaver"
# Nobody listens there: saving needs no GitHub.
_NOWHERE = "http://127.0.0.1:9"


class _HoldfastSaver:
    """Saves the specification's own checkpoint through the library, under an id of the caller's."""

    def __init__(self, folder: Path) -> None:
        self._holdfast = Holdfast(holdfast_settings(CONTENTS, _NOWHERE, folder))
        self._sequence = 0

    def save(self, state: State, encoded: bytes) -> None:
        del encoded
        self._sequence += 1
        self._holdfast.submit(
            make_checkpoint(state, checkpoint_id=str(uuid4()), run_id="run-1", sequence=self._sequence)
        )

    def close(self) -> None:
        self._holdfast.close()


class _PromisesAlone:
    """What a save promises and nothing else: encoded, searched, digested, three rows in one transaction.

    Nothing is checked, filled in, numbered or limited: no save of Holdfast's can be quicker.
    """

    def __init__(self, folder: Path) -> None:
        self._database = sqlite3.connect(folder / "queue.db", isolation_level=None)
        pragmas = (f"page_size = {PAGE_BYTES}", "journal_mode = wal", "synchronous = full")
        for statement in (*(f"pragma {pragma}" for pragma in pragmas), *tables.SCHEMA):
            self._database.execute(statement)
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        shapes = "|".join(f"(?:{rule.pattern})" for rule in RULES)
        self._search = re2.compile(shapes.encode(), options)
        self._arrival = 0

    def save(self, state: State, encoded: bytes) -> None:
        del encoded
        self._arrival = arrival = self._arrival + 1
        checkpoint_id = str(uuid4())
        body = orjson.dumps(
            make_checkpoint(state, checkpoint_id=checkpoint_id, run_id="run-1", sequence=arrival)
        )
        assert self._search.search(body) is None
        digest = sha256(body).digest()
        numbers = ("run-1", arrival, "iteration", 2, len(body), 0.0, 0, digest, digest, "", "normal")
        row = (arrival, checkpoint_id, *numbers, "spooled", "path", None, None, None, 0, 0.0, 0.0)
        self._database.execute("begin immediate")
        self._database.execute(tables.INSERT_ITEM, row)
        self._database.execute(tables.INSERT_BODY, (arrival, digest, body))
        self._database.execute(tables.ADD_TO_TOTAL, (1, len(body), 0, 0, 0, 0))
        self._database.execute("commit")

    def close(self) -> None:
        self._database.close()


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Measure every size; the bars stand at 50 KB and at a thousand tasks."""
    for size in SIZES:
        rounds, repeats = _effort(size, is_quick)
        samples, cpu = _measure(workshop, make_state(size), rounds, repeats)
        _add(report, size, samples, cpu)
        if size == "50 KB":
            _add_bars(report, samples)
        if size == "140 KB":
            _add_bars_of_tasks(report, samples[HOLDFAST], samples[BASELINE])


def _effort(size: str, is_quick: bool) -> tuple[int, int]:
    if size == "5 MB":
        return (2, 2) if is_quick else (5, 4)
    # Short turns: the disk's speed changes from one second to the next.
    return (9, 5) if is_quick else (45, 6)


def _measure(
    workshop: Workshop, state: State, rounds: int, repeats: int
) -> tuple[dict[str, Sample], dict[str, float]]:
    encoded = encode(state)
    with ExitStack() as opened:
        savers: dict[str, LocalSaver] = {}
        ours: dict[str, Callable[[Path], LocalSaver]] = {PROMISES: _PromisesAlone, HOLDFAST: _HoldfastSaver}
        for name, make in {**LOCAL_SAVERS, **ours}.items():
            savers[name] = make(workshop.disk_folder())
            opened.callback(savers[name].close)
            savers[name].save(state, encoded)
        cpu_s = dict.fromkeys(savers, 0.0)
        timers = {name: _timer(name, saver, state, encoded, cpu_s) for name, saver in savers.items()}
        samples = interleave(timers, rounds=rounds, repeats=repeats)
    return samples, {name: spent / (rounds * repeats) for name, spent in cpu_s.items()}


def _timer(
    name: str, saver: LocalSaver, state: State, encoded: bytes, cpu_s: dict[str, float]
) -> Callable[[], float]:
    def save_once() -> float:
        cpu_before = time.process_time()
        before = time.perf_counter()
        saver.save(state, encoded)
        elapsed = time.perf_counter() - before
        cpu_s[name] += time.process_time() - cpu_before
        return elapsed

    return save_once


def _add(report: Report, size: str, samples: dict[str, Sample], cpu_s: dict[str, float]) -> None:
    report.add_samples(
        samples, section=NAME, work=size, name="median", unit="ms", baseline=BASELINE, scale=1000
    )
    # On a busy machine the median is mostly waiting for a core; the fastest tenth hardly is.
    for percent, figure in ((10, "fastest tenth"), (95, "95th percentile")):
        found = {name: sample.percentile(percent) * 1000 for name, sample in samples.items()}
        report.add_values(found, section=NAME, work=size, name=figure, unit="ms", baseline=BASELINE)
    per_thousand = {name: spent * 1000 for name, spent in cpu_s.items()}
    report.add_values(
        per_thousand, section=NAME, work=size, name="CPU per 1,000", unit="s", baseline=BASELINE
    )


def _add_bars(report: Report, samples: dict[str, Sample]) -> None:
    own = samples[HOLDFAST]
    to_bare, to_langgraph = own.ratio_to(samples[BASELINE]), own.ratio_to(samples[_LANGGRAPH])
    report.bars += [
        Bar(NAME, "a save of 50 KB, in bare SQLite inserts", to_bare, 1.8, "times"),
        Bar(NAME, "a save of 50 KB, in saves of LangGraph's", to_langgraph, 1.2, "times"),
    ]


def _add_bars_of_tasks(report: Report, own: Sample, bare: Sample) -> None:
    work = "a save of 1,000 tasks (140 KB)"
    report.bars += [
        Bar(NAME, f"{work}, in bare SQLite inserts", own.ratio_to(bare), 2.5, "times"),
        Bar(NAME, f"{work}, 95th percentile", own.percentile(95) * 1000, 50, "ms"),
    ]
