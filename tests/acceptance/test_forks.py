"""Programs of every kind fork while they save, and are killed; `scripts/soak --forks` plays more of them."""

from pathlib import Path

from tests.soak.forking_program import KINDS
from tests.soak.forks import fork_often


def test_nothing_acknowledged_is_lost_however_a_program_forks(tmp_path: Path) -> None:
    forked = fork_often(tmp_path, len(KINDS), seed=1)

    assert forked.plays == len(KINDS)
    assert forked.acknowledged
