"""How much happened lately, in bounded memory: an amount may be counted too long, never too briefly."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import floor

Spent = tuple[float, int]

MOST_ENTRIES = 600


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """Amounts and when they were spent, oldest first, over the last `span_s` seconds."""

    span_s: float
    entries: tuple[Spent, ...] = ()

    def add(self, at: float, amount: int = 1) -> "SlidingWindow":
        """Return the window with `amount` more at `at`; amounts of one second are kept as one."""
        kept = tuple(entry for entry in self.entries if entry[0] > at - self.span_s)
        if kept and floor(kept[-1][0]) == floor(at):
            kept, amount = kept[:-1], amount + kept[-1][1]
        return replace(self, entries=_thinned((*kept, (at, amount))))

    def since(self, before: "SlidingWindow") -> tuple[Spent, ...]:
        """Return what was spent since this window was `before`.

        >>> early = SlidingWindow(60.0).add(1.0).add(2.1)
        >>> early.add(2.5).add(4.0).since(early)
        ((2.5, 1), (4.0, 1))
        """
        if not before.entries:
            return self.entries
        last_at, last_amount = before.entries[-1]
        spent = [entry for entry in self.entries if entry[0] >= last_at]
        if spent and floor(spent[0][0]) == floor(last_at):  # the two became one
            spent[0] = (spent[0][0], spent[0][1] - last_amount)
        return tuple(entry for entry in spent if entry[1] > 0)

    def joined_with(self, spent: Iterable[Spent]) -> "SlidingWindow":
        """Return the window with all that was spent elsewhere as well."""
        joined: list[Spent] = []
        for at, amount in sorted((*self.entries, *spent)):
            if joined and floor(joined[-1][0]) == floor(at):
                joined[-1] = (at, joined[-1][1] + amount)
            else:
                joined.append((at, amount))
        entries = tuple(joined)
        while len(entries) > MOST_ENTRIES:
            entries = _thinned(entries)
        return replace(self, entries=entries)

    def total(self, now: float, span_s: float | None = None) -> int:
        """Return how much was spent in the last `span_s` seconds."""
        since = now - (span_s or self.span_s)
        spent = 0
        for at, amount in reversed(self.entries):
            if at <= since:
                break
            spent += amount
        return spent

    def wait_for(self, need: int, capacity: float, now: float, span_s: float | None = None) -> float:
        """Return the seconds until `need` more stay within `capacity`.

        A need that is larger than the capacity waits until the window is empty.
        """
        span = span_s or self.span_s
        excess = self.total(now, span) + min(need, capacity) - capacity if need else 0
        if excess <= 0:
            return 0.0
        for at, amount in self.entries:
            if at <= now - span:
                continue
            excess -= amount
            if excess <= 0:
                return at + span - now
        return span


def _thinned(entries: tuple[Spent, ...]) -> tuple[Spent, ...]:
    """Join the older half in pairs, each at its later time, when there are too many."""
    if len(entries) <= MOST_ENTRIES:
        return entries
    half = MOST_ENTRIES // 2
    older = entries[:half]
    joined = tuple(
        (second[0], first[1] + second[1]) for first, second in zip(older[::2], older[1::2], strict=True)
    )
    return joined + entries[half:]
