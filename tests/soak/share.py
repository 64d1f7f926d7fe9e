"""A share of a soak: some schedules from one seed, in memory if there is a disk in memory."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.soak.play import Tally, play
from tests.soak.schedules import Schedule, schedules

MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Share:
    """What a share had in it, and how it failed, with the smallest schedule that does; else empty."""

    seed: int
    tally: Tally
    failure: str = ""


def play_in_memory(schedule: Schedule) -> Tally:
    """Play a schedule in a folder that is gone afterwards. Raises AssertionError."""
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        return play(schedule, Path(folder))


def play_share(number: int, count: int) -> Share:
    """Play `count` schedules that follow from the seed `number`."""
    tally = Tally()

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
    @given(schedules())
    def play_each(schedule: Schedule) -> None:
        nonlocal tally
        tally += play_in_memory(schedule)

    try:
        play_each()
    except Exception as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        return Share(number, tally, f"{type(error).__name__}: {error}\n{notes}")
    return Share(number, tally)
