"""What a run of ten thousand checkpoints costs beside one of a hundred: processor time, requests, and time.

Who knows nothing of a run yet must list its folder, as a file may be there that no index names: that takes
processor time for each file, once. What it adds to the time that someone waits is measured on a network.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from benchmarks.contestants import COMMIT, holdfast_settings
from benchmarks.filling import fill_spool
from benchmarks.report import Bar, Report
from benchmarks.sampling import interleave
from benchmarks.states import make_state
from benchmarks.workshop import GitHubProcess, Workshop
from holdfast import Holdfast

NAME = "long"
RUN = "run-0"
_SHORT, _LONG, _QUICK_LONG = 100, 10_000, 2_000
_MOST_TIMES = 1.5
_NETWORK_S = 0.1
_AT_WORK, _BEGINNING, _COLD = "in a process at work", "in a process that begins", "where nothing is known yet"

_WAIT = "on a network of 100 ms"

Use = Callable[[Holdfast], object]


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Save, list and resume, as often with one run as with the other, by turns."""
    with ExitStack() as opened:
        sizes = (_SHORT, _QUICK_LONG if is_quick else _LONG)
        stores = [_Store(workshop, opened, size) for size in sizes]
        for work, use in _WORK.items():
            for state in (_AT_WORK, _BEGINNING, _COLD):
                measure = partial(_Store.cost, use=use, state=state)
                _compare(report, stores, f"{work}, {state}", measure, is_quick)
        for store in stores:
            store.delay_answers()
        for work, use in _WORK.items():
            wait = partial(_Store.wait, use=use, state=_COLD)
            _compare_waits(report, stores, f"{work}, {_COLD}", wait, is_quick)
    beside = f"one of {sizes[1]:,} beside one of {_SHORT}, the most of save, list and resume"
    for figure, state in (("processor", _AT_WORK), ("processor", _BEGINNING), (_WAIT, _COLD)):
        times = _ratios(report, stores[1].name, figure, state)
        report.bars.append(Bar(NAME, f"{figure}, {beside}, {state}", max(times), _MOST_TIMES))


def _ratios(report: Report, contestant: str, name: str, state: str) -> list[float]:
    return [
        figure.ratio or 0.0
        for figure in report.of(NAME).figures
        if figure.contestant == contestant and figure.name == name and figure.work.endswith(state)
    ]


class _Store:
    """A GitHub that holds one run of so many checkpoints, and a machine that has written it."""

    def __init__(self, workshop: Workshop, opened: ExitStack, checkpoints: int) -> None:
        self.name = f"{checkpoints:,} checkpoints"
        self._workshop = workshop
        self._github: GitHubProcess = opened.enter_context(workshop.github())
        self._folder = workshop.memory_folder()
        settings = holdfast_settings(COMMIT, self._github.url, self._folder)
        fill_spool(settings, checkpoints=checkpoints, runs=1, size="5 KB")
        self._at_work = opened.enter_context(Holdfast(settings))
        if self._at_work.drain(timeout_s=60).left:
            raise AssertionError("the repository could not be filled")

    def cost(self, *, use: Use, state: str) -> tuple[float, int]:
        """Return the processor time, in seconds, and the requests of one use."""
        with self._open(state) as holdfast:
            self._github.clear_traffic()
            before = time.process_time()
            use(holdfast)
            seconds = time.process_time() - before
        return seconds, self._github.traffic().requests

    def delay_answers(self) -> None:
        """Have each answer take as long as on a network from now on."""
        self._github.delay_answers(_NETWORK_S)

    def wait(self, *, use: Use, state: str) -> float:
        """Return how long one use takes, in seconds."""
        with self._open(state) as holdfast:
            before = time.perf_counter()
            use(holdfast)
            return time.perf_counter() - before

    @contextmanager
    def _open(self, state: str) -> Iterator[Holdfast]:
        if state == _AT_WORK:
            yield self._at_work
            return
        folder = self._folder if state == _BEGINNING else self._workshop.memory_folder()
        with Holdfast(holdfast_settings(COMMIT, self._github.url, folder)) as holdfast:
            yield holdfast


def _compare(
    report: Report,
    stores: list[_Store],
    work: str,
    cost: Callable[[_Store], tuple[float, int]],
    is_quick: bool,
) -> None:
    requests = {store.name: float(cost(store)[1]) for store in stores}
    timers = {store.name: lambda store=store: cost(store)[0] for store in stores}
    samples = interleave(timers, rounds=3 if is_quick else 9)
    baseline = stores[0].name
    report.add_samples(
        samples, section=NAME, work=work, name="processor", unit="ms", baseline=baseline, scale=1000
    )
    report.add_values(requests, section=NAME, work=work, name="requests", unit="", baseline=baseline)


def _compare_waits(
    report: Report, stores: list[_Store], work: str, wait: Callable[[_Store], float], is_quick: bool
) -> None:
    timers = {store.name: lambda store=store: wait(store) for store in stores}
    samples = interleave(timers, rounds=3 if is_quick else 9)
    report.add_samples(
        samples, section=NAME, work=work, name=_WAIT, unit="ms", baseline=stores[0].name, scale=1000
    )


def _save(holdfast: Holdfast) -> None:
    holdfast.save(RUN, make_state("5 KB"), phase="phase_1_plan")
    if holdfast.drain(timeout_s=60).left:
        raise AssertionError("Holdfast left work behind")


def _list(holdfast: Holdfast) -> None:
    holdfast.checkpoints(RUN, limit=20)


def _resume(holdfast: Holdfast) -> None:
    holdfast.resume(RUN)


_WORK: dict[str, Use] = {"save and drain": _save, "list 20": _list, "resume": _resume}
