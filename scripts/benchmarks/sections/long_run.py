"""What a run of ten thousand checkpoints costs beside one of a hundred: processor time, and requests."""

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
_AT_WORK, _BEGINNING, _COLD = "in a process at work", "in a process that begins", "where nothing is known yet"

Use = Callable[[Holdfast], object]


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Save, list and resume, as often with one run as with the other, by turns."""
    with ExitStack() as opened:
        sizes = (_SHORT, _QUICK_LONG if is_quick else _LONG)
        stores = [_Store(workshop, opened, size) for size in sizes]
        for work, use in {"save and drain": _save, "list 20": _list, "resume": _resume}.items():
            for state in (_AT_WORK, _BEGINNING, _COLD):
                _compare(
                    report, stores, f"{work}, {state}", partial(_Store.cost, use=use, state=state), is_quick
                )
    promise = (
        f"processor time of one of {sizes[1]:,} beside one of {_SHORT}, the most of save, list and resume"
    )
    for state in (_AT_WORK, _BEGINNING):
        times = [
            figure.ratio or 0.0
            for figure in report.of(NAME).figures
            if figure.contestant == stores[1].name
            and figure.name == "processor"
            and figure.work.endswith(state)
        ]
        report.bars.append(Bar(NAME, f"{promise}, {state}", max(times), _MOST_TIMES))


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


def _save(holdfast: Holdfast) -> None:
    holdfast.save(RUN, make_state("5 KB"), phase="phase_1_plan")
    if holdfast.drain(timeout_s=60).left:
        raise AssertionError("Holdfast left work behind")


def _list(holdfast: Holdfast) -> None:
    holdfast.checkpoints(RUN, limit=20)


def _resume(holdfast: Holdfast) -> None:
    holdfast.resume(RUN)
