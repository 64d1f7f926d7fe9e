"""The steps in which queue items may be written: how items are cut into them, and what each step costs."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import Literal

from holdfast.drain.needs import RUN_FILES, RUN_READS, least_need, need_of
from holdfast.format.receipt import QueueItem
from holdfast.format.triggers import Priority
from holdfast.ratelimit.limits import Need


@dataclass(frozen=True, slots=True)
class DrainPolicy:
    """How to write. Sizes keep files and requests moderate; shares are of what an hour allows."""

    mode: Literal["contents", "commit"] = "contents"
    max_files_per_step: int = 100
    max_batch_files: int = 500
    max_batch_bytes: int = 4_000_000
    max_commit_files: int = 200
    max_commit_bytes: int = 25_000_000
    max_file_bytes: int = 10_000_000
    singles_share: float = 0.2
    quiet_share: float = 0.1
    free_share: float = 0.3
    longest_pause_s: float = 300.0
    longest_strained_pause_s: float = 900.0
    longest_pass_s: float = 60.0

    @property
    def resource(self) -> Literal["core", "graphql"]:
        """Return the resource that the writes are counted under."""
        return "graphql" if self.mode == "commit" else "core"


class _OfRuns:
    """What every step can tell."""

    __slots__ = ()
    items: tuple[QueueItem, ...]

    @property
    def run_ids(self) -> frozenset[str]:
        """Return the runs that it is about."""
        return frozenset(item.run_id for item in self.items)


@dataclass(frozen=True, slots=True)
class SinglesStep(_OfRuns):
    """Write each item of one run to a file of its own, then the run's `index.json` and `latest.json`."""

    run_id: str
    items: tuple[QueueItem, ...]


@dataclass(frozen=True, slots=True)
class BatchStep(_OfRuns):
    """Write the items of one run to one batch file, then the run's `index.json` and `latest.json`."""

    run_id: str
    items: tuple[QueueItem, ...]


@dataclass(frozen=True, slots=True)
class CommitStep(_OfRuns):
    """Write the items of any number of runs, with every `index.json` and `latest.json`, in one commit."""

    items: tuple[QueueItem, ...]


Step = SinglesStep | BatchStep | CommitStep


@dataclass(frozen=True, slots=True)
class DraftStep:
    """A step that might be taken, what it needs, and since when it waits."""

    step: Step
    need: Need
    is_critical: bool
    waits_since: float

    def wait_s(self, pause_s: float, now: float) -> float:
        """Return how much of the pause is left; a critical one, or one from the future, does not wait."""
        age_s = now - self.waits_since
        return 0.0 if self.is_critical or age_s < 0 else pause_s - age_s


def order_items(items: Iterable[QueueItem]) -> list[QueueItem]:
    """Return the most urgent first, then the oldest; within a run the order of the sequence stays.

    So an urgent checkpoint pulls the earlier ones of its run along with it.
    """
    by_run: dict[str, list[QueueItem]] = {}
    for item in items:
        by_run.setdefault(item.run_id, []).append(item)
    keyed = [pair for of_run in by_run.values() for pair in _with_urgency(of_run)]
    return [item for _, item in sorted(keyed, key=itemgetter(0))]


def due_items(pending: Sequence[QueueItem], due: Iterable[QueueItem]) -> list[QueueItem]:
    """Return what may be written now of all that is pending: a run waits as a whole, so that its order stays.

    `due` are the items that no backoff holds back.
    """
    due_ids = {item.checkpoint_id for item in due}
    held = {item.run_id for item in pending if item.checkpoint_id not in due_ids}
    return [item for item in pending if item.run_id not in held]


def critical_ids(items: Iterable[QueueItem]) -> frozenset[str]:
    """Return the critical checkpoints among the items."""
    return frozenset(item.checkpoint_id for item in items if item.priority is Priority.CRITICAL)


def draft_singles(ordered: Sequence[QueueItem], policy: DrainPolicy, *, most_files: float) -> list[DraftStep]:
    """Return the steps that give each item a file of its own, `most_files` in a step at most."""
    most = max(1, int(min(policy.max_files_per_step, most_files)))
    return [
        _draft_of_run(chunk, group, len(chunk), policy, is_batch=False)
        for group in _groups(ordered)
        for chunk in _chunks(group, most, policy.max_commit_bytes)
    ]


def draft_batches(ordered: Sequence[QueueItem], policy: DrainPolicy) -> list[DraftStep]:
    """Return the steps that give the items of a run one file; a batch of one is a single file."""
    return [
        _draft_of_run(chunk, group, 1, policy, is_batch=len(chunk) > 1)
        for group in _groups(ordered)
        for chunk in _chunks(group, policy.max_batch_files, policy.max_batch_bytes)
    ]


def draft_commits(ordered: Sequence[QueueItem], policy: DrainPolicy) -> list[DraftStep]:
    """Return commits of everything, as few as the size of a request allows.

    A run stays together, so that its `index.json` and `latest.json` are in as few of them as can be.
    """
    waits_since = min(item.arrived_at for item in ordered)
    need = least_need(policy.mode)
    return [
        DraftStep(CommitStep(chunk), need, _has_critical(chunk), waits_since)
        for chunk in _commit_chunks(_by_run(ordered), policy)
    ]


_Urgency = tuple[int, float, str, int]


def _with_urgency(of_run: list[QueueItem]) -> Iterator[tuple[_Urgency, QueueItem]]:
    """Pair each item of a run with its sort key: as urgent as the most urgent one that comes after it."""
    # After a crash in the middle of renumbering two may have one number: then the older one goes first.
    in_order = sorted(of_run, key=attrgetter("sequence", "arrived_at"))
    ranks = accumulate([item.priority.rank for item in reversed(in_order)], min)
    arrivals = accumulate([item.arrived_at for item in in_order], max)
    for item, rank, arrived_at in zip(in_order, reversed(list(ranks)), arrivals, strict=True):
        yield (rank, arrived_at, item.run_id, item.sequence), item


def _groups(ordered: Sequence[QueueItem]) -> list[list[QueueItem]]:
    """Split by run, and each run after its last critical item, which then waits only for those before it."""
    urgent_until = {t.run_id: t.sequence for t in ordered if t.priority is Priority.CRITICAL}
    groups: dict[tuple[bool, str], list[QueueItem]] = {}
    for item in ordered:
        is_urgent = item.sequence <= urgent_until.get(item.run_id, -1)
        groups.setdefault((is_urgent, item.run_id), []).append(item)
    return list(groups.values())


def _by_run(ordered: Sequence[QueueItem]) -> list[QueueItem]:
    """Return the items of each run next to each other, but no less urgent one before a more urgent one."""
    ends = sorted({item.priority.rank: place for place, item in enumerate(ordered)}.items())
    groups: dict[tuple[int, str], list[QueueItem]] = {}
    for place, item in enumerate(ordered):
        rank = next(rank for rank, end in ends if place <= end)
        groups.setdefault((rank, item.run_id), []).append(item)
    return [item for group in groups.values() for item in group]


def _chunks(group: Sequence[QueueItem], most_items: int, most_bytes: int) -> Iterator[tuple[QueueItem, ...]]:
    """Cut a group into chunks within both limits; an item that is larger than the limit goes alone."""
    chunk: list[QueueItem] = []
    size_bytes = 0
    for item in group:
        if chunk and (len(chunk) == most_items or size_bytes + item.size_bytes > most_bytes):
            yield tuple(chunk)
            chunk, size_bytes = [], 0
        chunk.append(item)
        size_bytes += item.size_bytes
    if chunk:
        yield tuple(chunk)


def _commit_chunks(ordered: Sequence[QueueItem], policy: DrainPolicy) -> Iterator[tuple[QueueItem, ...]]:
    """Cut into chunks that fit into one request, with `index.json` and `latest.json` of every run."""
    chunk: list[QueueItem] = []
    runs: set[str] = set()
    files = size_bytes = 0
    for item in ordered:
        is_new_run = item.run_id not in runs
        more_files = 1 + _parts(item, policy) + is_new_run * RUN_FILES
        more_bytes = item.size_bytes * (2 if is_new_run else 1)
        is_full = (
            files + more_files > policy.max_commit_files or size_bytes + more_bytes > policy.max_commit_bytes
        )
        if chunk and is_full:
            yield tuple(chunk)
            chunk, runs, files, size_bytes = [], set(), 0, 0
            more_files = 1 + _parts(item, policy) + RUN_FILES
            more_bytes = item.size_bytes * 2
        chunk.append(item)
        runs.add(item.run_id)
        files, size_bytes = files + more_files, size_bytes + more_bytes
    if chunk:
        yield tuple(chunk)


def _draft_of_run(
    chunk: tuple[QueueItem, ...], group: list[QueueItem], files: int, policy: DrainPolicy, *, is_batch: bool
) -> DraftStep:
    kind = BatchStep if is_batch else SinglesStep
    content = files + sum(_parts(item, policy) for item in chunk) + RUN_FILES
    return DraftStep(
        step=kind(chunk[0].run_id, chunk),
        need=need_of("core", content, RUN_READS),
        is_critical=_has_critical(group),
        waits_since=min(item.arrived_at for item in group),
    )


def _parts(item: QueueItem, policy: DrainPolicy) -> int:
    """Return into how many more files an oversized checkpoint is divided, about."""
    return max(0, item.size_bytes - 1) // policy.max_file_bytes


def _has_critical(items: Iterable[QueueItem]) -> bool:
    return any(item.priority is Priority.CRITICAL for item in items)
