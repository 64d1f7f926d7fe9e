"""The rules of retention."""

from dataclasses import dataclass

LAYERS = "layers"
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """How much is kept. None means no limit; 0 checkpoints mean none either, not even for layers.

    The `full_runs` runs last written to keep everything, those up to `latest_runs` their newest checkpoint,
    the others a summary. Within a run, at most `checkpoints` stay, `per_phase` of each phase, and none older
    than `days`. A completed run older than that is archived, as is every completed one if
    `deletes_completed`, and one that is not completed but was not written to for `abandoned_days`.
    """

    full_runs: int = 10
    latest_runs: int = 50
    checkpoints: int | None = None
    layers_checkpoints: int = 5
    per_phase: int | None = None
    days: float | None = None
    deletes_completed: bool = False
    abandoned_days: float | None = None

    @property
    def ages(self) -> tuple[float, ...]:
        """Return the ages in days that matter."""
        return tuple(days for days in (self.days, self.abandoned_days) if days is not None)

    @property
    def least_limit(self) -> int | None:
        """Return how many checkpoints any run may have, whatever its style."""
        return (self.layers_checkpoints if self.checkpoints is None else self.checkpoints) or None

    def limit_for(self, style: str) -> int | None:
        """Return how many checkpoints a run of this style keeps."""
        if self.checkpoints is None and style != LAYERS:
            return None
        return self.least_limit
