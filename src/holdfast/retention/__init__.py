"""Retention: survey the repository, plan what may go, and carry that out, guarded by the branch's head."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.retention.squash import Squash, SquashReport
    from holdfast.retention.sweep import Sweeper, SweepReport

__all__ = ["Squash", "SquashReport", "SweepReport", "Sweeper"]


def __getattr__(name: str) -> Any:
    """Load these when they are first used: who only saves needs none of them, and must start quickly."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "squash" if name.startswith("Squash") else "sweep"
    return getattr(import_module(f"holdfast.retention.{module}"), name)
