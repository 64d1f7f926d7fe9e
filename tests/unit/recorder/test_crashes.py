"""Runs that die at any checkpoint: nothing completed runs again, nothing unfinished is skipped.

Dying is an error that nobody catches, raised before or after a checkpoint has reached the disk; from then on
the disk takes nothing more, and the recorder is thrown away.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.format.checkpoint import Draft
from holdfast.format.receipt import Receipt
from holdfast.recorder import AgentsRun, LayersRun, PhasesRun, StepsRun, TasksRun
from tests.fakes.recording import Shelf


class Died(BaseException):
    pass


class Failed(Exception):
    pass


@dataclass(frozen=True)
class Death:
    """At which checkpoint of its life a process dies, and whether that one still reaches the disk."""

    at: int
    is_stored: bool


class MortalShelf(Shelf):
    """Belongs to one process after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.death: Death | None = None
        self.puts = 0

    def be_born(self, death: Death | None) -> None:
        self.death, self.puts = death, 0

    def put(self, draft: Draft) -> Receipt:
        self.puts += 1
        if self.death is None or self.puts < self.death.at:
            return super().put(draft)
        if self.puts == self.death.at and self.death.is_stored:
            super().put(draft)
        raise Died


@dataclass
class Work:
    """What was really done, and how it is to go wrong; `finished` is what the recorder has taken in."""

    failures: Counter[str]
    stops: Counter[str]
    ran: Counter[str] = field(default_factory=Counter)
    done: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)

    def reach(self, name: str) -> None:
        """Come to a part of the work, or be told to stop just before it."""
        if self.stops[name]:
            self.stops[name] -= 1
            raise KeyboardInterrupt

    def do(self, name: str) -> None:
        assert name not in self.finished, f"{name} was completed, and runs again"
        self.ran[name] += 1
        if self.ran[name] <= self.failures[name]:
            raise Failed(name)
        self.done.add(name)


Live = Callable[[MortalShelf, Work], None]

NAMES = [f"phase_{number}" for number in range(8)]


@dataclass(frozen=True)
class Fate:
    """How the processes die, which parts of the work fail, and before which of them a process is stopped."""

    deaths: list[Death]
    failing: list[int]
    stopping: list[int]


fates = st.builds(
    Fate,
    deaths=st.lists(st.builds(Death, at=st.integers(1, 12), is_stored=st.booleans()), max_size=4),
    failing=st.lists(st.integers(0, 7), max_size=4),
    stopping=st.lists(st.integers(0, 7), max_size=3),
)


def live_and_die(live: Live, fate: Fate) -> Work:
    """Run the work in one process after the other until it is done."""
    shelf = MortalShelf()
    work = Work(
        failures=Counter(NAMES[index] for index in fate.failing),
        stops=Counter(NAMES[index] for index in fate.stopping),
    )
    for death in [*fate.deaths, *[None] * (len(fate.failing) + len(fate.stopping) + 1)]:
        shelf.be_born(death)
        try:
            live(shelf, work)
        except (Died, Failed, KeyboardInterrupt):
            continue
        if shelf.newest["status"] == "completed":
            return work
    raise AssertionError("the run never came to its end")


@pytest.mark.slow
@given(fates, st.booleans())
def test_steps(fate: Fate, is_announced: bool) -> None:
    def live(shelf: MortalShelf, work: Work) -> None:
        with shelf.open(StepsRun, work=NAMES if is_announced else []) as run:
            run.resume()
            if run.plan is not None:
                assert isinstance(run.plan.resume_at, int)
                assert run.plan.completed == list(range(run.plan.resume_at))
            for name in run.remaining(NAMES):
                work.reach(name)
                with run.step(name):
                    work.do(name)
                work.finished.add(name)

    assert live_and_die(live, fate).done == set(NAMES)


@pytest.mark.slow
@given(fates, st.permutations(NAMES))
def test_tasks(fate: Fate, order: list[str]) -> None:
    def live(shelf: MortalShelf, work: Work) -> None:
        with shelf.open(TasksRun, work=NAMES) as run:
            run.resume()
            if run.plan is not None:
                assert run.plan.remaining == run.remaining()
            for name in run.remaining(order):
                work.reach(name)
                with run.task(name):
                    work.do(name)
                work.finished.add(name)

    assert live_and_die(live, fate).done == set(NAMES)


@pytest.mark.slow
@given(fates, st.booleans())
def test_phases(fate: Fate, is_announced: bool) -> None:
    def live(shelf: MortalShelf, work: Work) -> None:
        with shelf.open(PhasesRun, work=NAMES if is_announced else []) as run:
            run.resume()
            if run.plan is not None:
                done = run.plan.completed
                assert done == NAMES[: len(done)]
                due = {*NAMES[len(done) : len(done) + 1], *(f"{name}_gate" for name in done[-1:])}
                # Without the order of the phases, the specification's is taken: 0, 0_5, 1 … 8.
                due |= {"phase_8", "phase_0_5"} if not is_announced and len(done) in (1, 8) else set()
                due |= {"unspecified"} if not is_announced and not done else set()
                assert run.plan.resume_at in {*due, "complete"}
            for name in run.remaining(NAMES):
                work.reach(name)
                with run.phase(name) as phase:
                    work.do(name)
                    phase.output = name
                work.finished.add(name)
                run.gate(name, decision="pass")
                run.checkpoint("expensive_op")

    assert live_and_die(live, fate).done == set(NAMES)


DAG = [NAMES[:1], NAMES[1:4], NAMES[4:6], NAMES[6:]]


@given(fates, st.booleans())
def test_layers(fate: Fate, is_saved_between: bool) -> None:
    def live(shelf: MortalShelf, work: Work) -> None:
        with shelf.open(LayersRun, work=DAG) as run:
            run.resume()
            if run.plan is not None and run.plan.status != "completed":
                assert run.plan.resume_at == run.progress["layer_index"]
            for index in run.remaining():
                work.reach(DAG[index][0])
                with run.layer(index) as layer:
                    for name in run.remaining(DAG[index]):
                        work.do(name)
                        layer.task(name)
                        if is_saved_between:
                            run.checkpoint()
                            work.finished.add(name)
                work.finished.update(DAG[index])

    assert live_and_die(live, fate).done == set(NAMES)


@pytest.mark.slow
@given(fates)
def test_agents(fate: Fate) -> None:
    phases = [1, 2, 3, 4]

    def live(shelf: MortalShelf, work: Work) -> None:
        with shelf.open(AgentsRun) as run:
            run.resume()
            for number in run.remaining(phases):
                with run.phase(number):
                    for agent_id in run.remaining(["atlas", "mercury"]):
                        name = NAMES[2 * (number - 1) + (agent_id == "mercury")]
                        work.reach(name)
                        with run.agent(agent_id):
                            work.do(name)
                        work.finished.add(name)

    assert live_and_die(live, fate).done == set(NAMES)
