"""Schedules: who submits what, who drains when and dies where, and what GitHub does meanwhile.

A schedule is plain data whose repr is the Python that makes it: one that failed can be kept as a test.
"""

from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

Moment = Literal["before_request", "after_request", "before_spool", "after_spool", "event"]
Budget = Literal["open", "few", "real"]
Mode = Literal["contents", "commit"]


@dataclass(frozen=True)
class Death:
    """Where a process dies: at the `nth` moment of this kind since it was told so."""

    moment: Moment
    nth: int = 1


@dataclass(frozen=True)
class Submit:
    """Someone submits a checkpoint to a machine, perhaps once more, perhaps to another one than before.

    `checkpoint` stands for its id and all its content; it asks for `number`, or for the next if that is None.
    `dies` is where the submitting process dies, so that nobody gets the answer.
    """

    machine: int
    checkpoint: int
    number: int | None = None
    after_s: float = 0.0
    dies: Death | None = None


@dataclass(frozen=True)
class Transfer:
    """A person exports what one machine has not sent, and imports it into another."""

    source: int
    target: int
    after_s: float = 0.0


@dataclass(frozen=True)
class Stranger:
    """Someone else writes another file to the branch."""

    after_s: float = 0.0


@dataclass(frozen=True)
class Exhaust:
    """Someone else uses up the hour's calls of the token, but for a few."""

    resource: Literal["core", "graphql"] = "core"
    remaining: int = 0
    after_s: float = 0.0


Call = Submit | Transfer | Stranger | Exhaust


@dataclass(frozen=True)
class Drain:
    """A machine drains; if its process dies of it, the next drain begins with a restart."""

    mode: Mode = "contents"
    timeout_s: float = 0.0
    after_s: float = 0.0
    dies: Death | None = None


@dataclass(frozen=True)
class Machine:
    """One machine with a data folder of its own: what it may spend, and what it does one after the other."""

    drains: tuple[Drain, ...] = ()
    budget: Budget = "open"


@dataclass(frozen=True)
class Schedule:
    """Everything that happens. `faults` are in the emulator's words; `pace` seeds how long requests take."""

    machines: tuple[Machine, ...]
    calls: tuple[Call, ...]
    faults: tuple[str, ...] = ()
    pace: int = 0


WAITS_BEFORE_CALLS_S = (0.0, 0.0, 0.0, 0.1, 0.5, 2.0, 20.0, 400.0)
WAITS_BEFORE_DRAINS_S = (0.1, 0.2, 0.5, 1.0, 3.0, 20.0, 400.0)
TARGETS = ("any", "read", "write", "put", "get", "graphql", "mutation", "delete", "post")
EFFECTS = (
    "500",
    "502",
    "503",
    "429",
    "403",
    "401",
    "404",
    "409",
    "status-after=500",
    "status-after=502",
    "secondary",
    "secondary=7",
    "secondary=90",
    "cut",
    "cut-after",
    "truncate",
    "malformed",
    "length=5",
    "stale=1",
    "stale=2",
    "stale=5",
    "stale-hidden=1",
    "stale-hidden=3",
    "head-moves",
    "delay=1",
    "delay=40",
    "late=3",
    "late=100",
)

_MOMENTS: tuple[Moment, ...] = ("before_request", "after_request", "before_spool", "after_spool", "event")


@st.composite
def schedules(draw: DrawFn) -> Schedule:
    """Return any schedule of two or three machines."""
    machines = draw(st.lists(_machines(), min_size=2, max_size=3))
    calls = draw(st.lists(_calls(len(machines)), min_size=6, max_size=24))
    # Each schedule has few kinds of faults, but those often: rare mixtures are found sooner.
    effects = st.sampled_from(draw(st.lists(st.sampled_from(EFFECTS), min_size=1, max_size=4)))
    faults = draw(st.lists(_faults(effects), min_size=2, max_size=8))
    return Schedule(tuple(machines), tuple(calls), tuple(faults), draw(st.integers(0, 999)))


def _machines() -> SearchStrategy[Machine]:
    drains = st.lists(_drains(), min_size=2, max_size=8).map(tuple)
    return st.builds(Machine, drains, st.sampled_from(("open", "few", "open", "real")))


def _drains() -> SearchStrategy[Drain]:
    return st.builds(
        Drain,
        mode=st.sampled_from(("contents", "commit", "contents")),
        timeout_s=st.sampled_from((5.0, 0.0, 100.0, 4000.0)),
        after_s=st.sampled_from(WAITS_BEFORE_DRAINS_S),
        dies=st.none() | st.none() | _deaths(20),
    )


def _deaths(most: int) -> SearchStrategy[Death]:
    return st.builds(Death, st.sampled_from(_MOMENTS), st.integers(1, most))


@st.composite
def _calls(draw: DrawFn, machines: int) -> Call:
    machine, after_s = draw(st.integers(0, machines - 1)), draw(st.sampled_from(WAITS_BEFORE_CALLS_S))
    kind = draw(st.sampled_from(("submit",) * 12 + ("transfer", "stranger", "exhaust")))
    if kind == "transfer":
        return Transfer(machine, (machine + 1) % machines, after_s)
    if kind == "stranger":
        return Stranger(after_s)
    if kind == "exhaust":
        resource: Literal["core", "graphql"] = draw(st.sampled_from(("core", "graphql")))
        return Exhaust(resource, draw(st.sampled_from((0, 0, 2, 8))), after_s)
    return Submit(
        machine,
        checkpoint=draw(st.integers(0, 40)),
        number=draw(st.none() | st.integers(1, 12)),
        after_s=after_s,
        dies=draw(st.none() | st.none() | _submit_deaths()),
    )


def _submit_deaths() -> SearchStrategy[Death]:
    return st.builds(Death, st.sampled_from(("before_spool", "after_spool")))


@st.composite
def _faults(draw: DrawFn, effects: SearchStrategy[str]) -> str:
    target, effect = draw(st.sampled_from(TARGETS)), draw(effects)
    if draw(st.booleans()):
        return (
            f"{target}:{effect}:p={draw(st.sampled_from((0.05, 0.2, 0.5)))}:seed={draw(st.integers(0, 99))}"
        )
    nth, times = draw(st.integers(1, 12)), draw(st.sampled_from((1, 1, 2, 3, 6)))
    return f"{target}:{effect}:nth={nth}:times={times}"
