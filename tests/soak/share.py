"""A share of a soak: some schedules from one seed, in memory if there is a disk in memory."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Generic, TypeVar

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from tests.fakes.postgres import new_schema
from tests.soak.cleaning import Cleaning, Seen, cleanings, play_cleaning
from tests.soak.play import Tally, play
from tests.soak.schedules import Schedule, schedules

MEMORY = Path("/dev/shm")

TallyT = TypeVar("TallyT", Tally, Seen)


@dataclass(frozen=True)
class Share(Generic[TallyT]):
    """What a share had in it, and how it failed, with the smallest schedule that does; else empty."""

    seed: int
    tally: TallyT
    failure: str = ""


def play_in_memory(schedule: Schedule) -> Tally:
    """Play a schedule in a folder that is gone afterwards. Raises AssertionError."""
    return _in_memory(play, schedule)


def play_cleaning_in_memory(schedule: Cleaning) -> Seen:
    """Play a schedule of cleanup in a folder that is gone afterwards. Raises AssertionError."""
    return _in_memory(play_cleaning, schedule)


def play_share(number: int, count: int) -> Share[Tally]:
    """Play `count` schedules of checkpoints that follow from the seed `number`."""
    return _play_each(number, count, schedules(), play, Tally())


def play_shared_share(server_url: str, number: int, count: int) -> Share[Tally]:
    """Play `count` schedules over one queue in the PostgreSQL at `server_url`."""

    def play_shared(schedule: Schedule, folder: Path) -> Tally:
        with new_schema(server_url) as database_url:
            return play(schedule, folder, database_url=database_url)

    return _play_each(number, count, schedules(), play_shared, Tally())


def play_cleaning_share(number: int, count: int) -> Share[Seen]:
    """Play `count` schedules of cleanup that follow from the seed `number`."""
    return _play_each(number, count, cleanings(), play_cleaning, Seen())


def _play_each(
    number: int,
    count: int,
    strategy: SearchStrategy[Any],
    play_one: Callable[[Any, Path], TallyT],
    tally: TallyT,
) -> Share[TallyT]:
    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @given(strategy)
    def play_each(schedule: Any) -> None:
        nonlocal tally
        tally += _in_memory(play_one, schedule)

    try:
        play_each()
    except Exception as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        return Share(number, tally, f"{type(error).__name__}: {error}\n{notes}")
    return Share(number, tally)


def _in_memory(play_one: Callable[[Any, Path], TallyT], schedule: Any) -> TallyT:
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        return play_one(schedule, Path(folder))
