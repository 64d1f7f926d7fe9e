"""A quick share of the fault schedules, always the same ones; `scripts/soak` plays thousands of others."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, Phase, given, settings

from tests.soak.play import play
from tests.soak.schedules import Schedule, schedules

MEMORY = Path("/dev/shm")
PLAYS = 60


@settings(
    max_examples=PLAYS,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(schedules())
def test_no_acknowledged_checkpoint_is_lost_or_doubled(schedule: Schedule) -> None:
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        play(schedule, Path(folder))
