"""Hours of checkpoints in virtual time: what plans, spends and stays away is real, GitHub counts requests.

Arrivals are Poisson with bursts, and GitHub is away for half an hour. Every run belongs to one of the
installations, by rendezvous hashing; one of them is simulated, and the others are like it. Carrying out is a
model: so many requests for each step, of a fifth of a second each.
"""

import argparse
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import quantiles
from typing import Literal
from xml.sax.saxutils import escape

from holdfast.drain.chunks import CommitStep, DrainPolicy, Step
from holdfast.drain.outage import Outage, outage_after
from holdfast.drain.plan import plan_drain
from holdfast.drain.worker import LONGEST_SLEEP_IN_OUTAGE_S
from holdfast.errors import Unavailable
from holdfast.format.receipt import QueueItem
from holdfast.ratelimit.limits import Cost
from holdfast.sharding.homes import rank
from tests.fakes.drain_simulation import REQUEST_S, START, CountingGitHub, Simulation, make_item

Mode = Literal["contents", "commit"]

HOURS = 3.0
OUTAGE_S = (3600.0, 5400.0)
BURST_EVERY_S, BURST_S, BURST_FACTOR = 900.0, 60.0, 5.0
A_RUN_AN_HOUR = 100
STATE_BYTES = 5_000
INDEX_BYTES = 12_000
SAMPLE_S = 30.0
CASES: tuple[tuple[int, int, Mode], ...] = (
    (1_000, 1, "contents"),
    (1_000, 1, "commit"),
    (10_000, 1, "commit"),
    (100_000, 3, "commit"),
    (1_000_000, 30, "commit"),
)


class AwayGitHub(CountingGitHub):
    """Answers nothing for a while."""

    def answer(self, cost: Cost, now: float) -> tuple[int, dict[str, str]]:
        if OUTAGE_S[0] <= now - START < OUTAGE_S[1]:
            raise Unavailable("", "GitHub does not answer")
        return super().answer(cost, now)


@dataclass
class Timeline(Simulation):
    """A simulation whose GitHub is away for a while, and that looks at its queue from time to time."""

    github: CountingGitHub = field(default_factory=AwayGitHub)
    chance: random.Random = field(default_factory=random.Random)
    outage: Outage | None = None
    failures: list[float] = field(default_factory=list)
    depths: list[tuple[float, int]] = field(default_factory=list)
    requests: int = 0
    sent_bytes: int = 0

    def run(self, until: float) -> "Timeline":
        coming = deque(self.arrivals)
        while self.now < until:
            self._take(coming)
            try:
                wait_s = self._pass()
            except Unavailable as error:
                self.failures.append(self.now - START)
                self.now += REQUEST_S
                self.outage = outage_after(
                    error, self.outage, now=self.now, jitter=self.chance.random(), credentials=""
                )
                continue
            if wait_s is not None:
                self._advance(min(until, self.now + min(max(wait_s, 0.05), SAMPLE_S)))
        return self

    def _pass(self) -> float | None:
        """Do as a worker does in one pass; return how long to wait if there was nothing to do."""
        if self.outage and self.outage.applies(self.now, ""):
            return min(self.outage.wait_s(self.now), LONGEST_SLEEP_IN_OUTAGE_S)
        if self.pending and self.outage and self.outage.is_probed_first:
            self._request(Cost("core"))
        plan = plan_drain(list(self.pending.values()), self.budget, self.now, self.policy)
        for step in plan.steps:
            self._carry_out(step)
            self.outage = None
            self._look()
        return None if plan.steps else plan.wait_s

    def _take(self, coming: deque[QueueItem]) -> None:
        while coming and coming[0].arrived_at <= self.now:
            item = coming.popleft()
            self.pending[item.checkpoint_id] = item

    def _advance(self, moment: float) -> None:
        self.now = moment
        self._look()

    def _look(self) -> None:
        if not self.depths or self.now - START - self.depths[-1][0] >= SAMPLE_S:
            self.depths.append((self.now - START, len(self.pending)))

    def _carry_out(self, step: Step) -> None:
        super()._carry_out(step)
        runs = len(step.run_ids) if isinstance(step, CommitStep) else 1
        self.sent_bytes += sum(item.size_bytes for item in step.items) + runs * (STATE_BYTES + INDEX_BYTES)

    def _request(self, cost: Cost) -> None:
        self.requests += 1
        super()._request(cost)


def arrivals(an_hour: int, installations: int, seed: int) -> list[QueueItem]:
    """Return what arrives for the first installation, in order."""
    chance = random.Random(seed)
    runs = [f"run-{number}" for number in range(max(10, an_hour // A_RUN_AN_HOUR))]
    shards = [f"acme-{number}/checkpoints" for number in range(installations)]
    ours = [run_id for run_id in runs if rank(run_id, shards)[0] == shards[0]]
    burst_share = BURST_S / BURST_EVERY_S
    calm = an_hour * len(ours) / len(runs) / 3600 / (1 + burst_share * (BURST_FACTOR - 1))
    items: list[QueueItem] = []
    numbers = dict.fromkeys(ours, 0)
    at = 0.0
    while True:
        rate = calm * (BURST_FACTOR if at % BURST_EVERY_S < BURST_S else 1.0)
        at += chance.expovariate(rate)
        if at >= HOURS * 3600:
            return items
        run_id = chance.choice(ours)
        numbers[run_id] += 1
        items.append(make_item(numbers[run_id], run_id=run_id, at=START + at, size_bytes=STATE_BYTES))


@dataclass(frozen=True)
class Outcome:
    """What one case came to; requests and bytes are of all installations, for each checkpoint."""

    an_hour: int
    installations: int
    mode: Mode
    verified_an_hour: float
    calm_s: tuple[float, float]
    all_s: tuple[float, float]
    deepest: int
    left: int
    requests: float
    sent_bytes: float
    refused: int
    failures: Sequence[float]
    depths: Sequence[tuple[float, int]]

    @property
    def row(self) -> str:
        p50, p99 = (format_seconds(each) for each in self.calm_s)
        q50, q99 = (format_seconds(each) for each in self.all_s)
        return (
            f"| {self.an_hour:,} | {self.installations} | `{self.mode}` | {self.verified_an_hour:,.0f} "
            f"| {p50}, {p99} | {q50}, {q99} | {self.deepest:,} "
            f"| {self.requests:.2f} | {self.sent_bytes / 1000:.1f} KB |"
        )


COLUMNS = (
    "arriving an hour",
    "installations",
    "mode",
    "verified an hour",
    "p50, p99 before the outage",
    "p50, p99 of all",
    "deepest queue",
    "requests each",
    "bytes each",
)
HEADER = f"| {' | '.join(COLUMNS)} |\n|---:|---:|---|{'---:|' * (len(COLUMNS) - 3)}"


def play(an_hour: int, installations: int, mode: Mode, seed: int) -> Outcome:
    """Simulate one case."""
    items = arrivals(an_hour, installations, seed)
    timeline = Timeline(items, DrainPolicy(mode=mode), chance=random.Random(seed)).run(START + HOURS * 3600)
    waits = {item.checkpoint_id: timeline.verified.get(item.checkpoint_id) for item in items}
    began = {item.checkpoint_id: item.arrived_at for item in items}
    done = [(began[each], moment - began[each]) for each, moment in waits.items() if moment]
    calm = [wait for at, wait in done if at < START + OUTAGE_S[0] - 600]
    return Outcome(
        an_hour,
        installations,
        mode,
        verified_an_hour=len(done) * installations / HOURS,
        calm_s=_percentiles(calm),
        all_s=_percentiles([wait for _, wait in done]),
        deepest=max(depth for _, depth in timeline.depths) * installations,
        left=len(timeline.pending) * installations,
        requests=timeline.requests / max(1, len(done)),
        sent_bytes=timeline.sent_bytes / max(1, len(done)),
        refused=len(timeline.github.refused),
        failures=timeline.failures,
        depths=[(at, depth * installations) for at, depth in timeline.depths],
    )


def _percentiles(waits: Sequence[float]) -> tuple[float, float]:
    cuts = quantiles(waits, n=100) if len(waits) > 1 else [0.0] * 99
    return cuts[49], cuts[98]


def format_seconds(seconds: float) -> str:
    """Return a length of time as one reads it.

    >>> [format_seconds(each) for each in (4.2, 75.0, 5400.0)]
    ['4 s', '1.2 min', '1.5 h']
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


_WIDTH, _HEIGHT, _GAP = 720, 90, 44
_STYLE = """\
text { font: 13px -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #24292f }
.title { font-size: 16px; font-weight: 600 }
.away { fill: #8c959f; opacity: 0.25 }
.depth { fill: none; stroke: #1a7f37; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .depth { stroke: #3fb950 } }"""


def draw(outcomes: Sequence[Outcome]) -> str:
    """Return the depth of each queue over time, one below the other, as SVG."""
    height = 30 + (_HEIGHT + _GAP) * len(outcomes)
    title = "Checkpoints that wait, over three hours; GitHub is away in the grey half hour"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="0" y="18">{escape(title)}</text>',
    ]
    for number, outcome in enumerate(outcomes):
        lines += _draw_one(outcome, 30 + (_HEIGHT + _GAP) * number)
    return "\n".join([*lines, "</svg>", ""])


def _draw_one(outcome: Outcome, top: int) -> list[str]:
    across, most = _WIDTH / (HOURS * 3600), max(1, outcome.deepest)
    points = [(at * across, top + 20 + _HEIGHT * (1 - depth / most)) for at, depth in outcome.depths]
    kept = points[:1] + [after for before, after in pairwise(points) if after[1] != before[1]]
    path = " ".join(f"{x:.0f},{y:.0f}" for x, y in kept)
    begin, end = (each * across for each in OUTAGE_S)
    label = (
        f"{outcome.an_hour:,} an hour, {outcome.mode} mode, {outcome.installations} installation"
        f"{'s' if outcome.installations > 1 else ''}: {outcome.deepest:,} at most"
    )
    return [
        f'<text x="0" y="{top + 12}">{escape(label)}</text>',
        f'<rect class="away" x="{begin:.0f}" y="{top + 20}" width="{end - begin:.0f}" height="{_HEIGHT}"/>',
        f'<polyline class="depth" points="{path}"/>',
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--most", type=int, default=1_000_000, help="leave out cases with more an hour")
    parser.add_argument("--seed", type=int, default=1, help="where the random numbers begin (default: 1)")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the queues over time")
    arguments = parser.parse_args()
    outcomes = []
    print(HEADER, flush=True)
    for an_hour, installations, mode in CASES:
        if an_hour <= arguments.most:
            outcomes.append(play(an_hour, installations, mode, arguments.seed))
            print(outcomes[-1].row, flush=True)
    if arguments.picture:
        arguments.picture.write_text(draw(outcomes), encoding="utf-8")
    refused = sum(outcome.refused for outcome in outcomes)
    print(f"\nGitHub refused {refused} requests.")
    return 1 if refused else 0


if __name__ == "__main__":
    raise SystemExit(main())
