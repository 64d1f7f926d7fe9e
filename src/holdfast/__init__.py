"""Durable workflow checkpoints in a GitHub repository."""

from typing import TYPE_CHECKING, Any

from holdfast.version import __version__

if TYPE_CHECKING:
    from holdfast.errors import Claimed, Fenced, HoldfastError
    from holdfast.format.receipt import Receipt
    from holdfast.library import Holdfast
    from holdfast.styles.resume import ResumePlan

__all__ = ["Claimed", "Fenced", "Holdfast", "HoldfastError", "Receipt", "ResumePlan", "__version__"]

_HOMES = {
    "Holdfast": "holdfast.library",
    "Receipt": "holdfast.format.receipt",
    "ResumePlan": "holdfast.styles.resume",
    "HoldfastError": "holdfast.errors",
    "Claimed": "holdfast.errors",
    "Fenced": "holdfast.errors",
}


def __getattr__(name: str) -> Any:
    """Load the public names when they are first used: the command line must start quickly."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
