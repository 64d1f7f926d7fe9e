"""Retention: survey the repository, plan what may go, and carry that out, guarded by the branch's head."""

from holdfast.retention.squash import Squash, SquashReport
from holdfast.retention.sweep import Sweeper, SweepReport

__all__ = ["Squash", "SquashReport", "SweepReport", "Sweeper"]
