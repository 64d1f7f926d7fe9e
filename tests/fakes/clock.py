"""A clock that only moves when it is told to."""


class VirtualClock:
    """Stands still at `now`; sleeping moves it on at once and is written down in `slept`."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.time = now
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
