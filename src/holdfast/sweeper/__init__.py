"""Retention: survey the repository, plan what may go, and carry that out, guarded by the branch's head."""

from holdfast.sweeper.squash import Squash, SquashReport
from holdfast.sweeper.sweep import Sweeper, SweepReport

__all__ = ["Squash", "SquashReport", "SweepReport", "Sweeper"]
