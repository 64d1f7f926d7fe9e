"""Statistics of one run, or of all: pure computing over what was gathered. What is not known is None."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from holdfast.format.index import Index, IndexEntry
from holdfast.format.moments import epoch, format_moment
from holdfast.format.paths import is_single
from holdfast.format.receipt import Progress
from holdfast.queue.contract import Journey

SLICES = 24
"""Into how many parts the time from the first save to the last is cut."""

# With fewer, the first and the last of them are not worth comparing.
_LEAST_FOR_GROWTH = 4
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class CheckpointCounts:
    """How many checkpoints there are; `counted` is how many of them the rest tells of."""

    total: int
    counted: int
    by_trigger: Mapping[str, int]
    by_status: Mapping[str, int]
    by_progress: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CheckpointSizes:
    """Sizes of whole checkpoints as they were `saved` here, or of their files as they are `stored`.

    `growth` is how many times the first ones the last ones are.
    """

    counted: int
    basis: str | None
    median_bytes: int | None
    largest_bytes: int | None
    growth: float | None


@dataclass(frozen=True, slots=True)
class WayDurations:
    """How long the way from the save to the verified commit took, for those that went it from here."""

    counted: int
    median_s: float | None
    p95_s: float | None
    longest_s: float | None


@dataclass(frozen=True, slots=True)
class SaveRate:
    """When was saved: from the first to the last, an hour on average, and in equal slices of that time."""

    first: str | None
    last: str | None
    per_hour: float | None
    slice_s: float | None
    slices: Sequence[int]


@dataclass(frozen=True, slots=True)
class ResumeCount:
    """Resume plans that were asked for on this machine, and since when they are counted."""

    counted: int
    since: str | None


@dataclass(frozen=True, slots=True)
class Savings:
    """What batches and parts save: writes of files, and bytes that would lie there otherwise."""

    batches: int
    batched_checkpoints: int
    writes_saved: int
    parts: int | None
    part_bytes: int | None
    bytes_saved: int | None


@dataclass(frozen=True, slots=True)
class StoredSize:
    """What is stored: the files of one run; or the whole repository with its commits, as GitHub says."""

    files: int | None
    bytes: int | None
    commits: int | None


@dataclass(frozen=True, slots=True)
class Statistics:
    """All of it. `unknown` says of each figure that is missing why it is."""

    run_id: str | None
    runs: int
    checkpoints: CheckpointCounts
    sizes: CheckpointSizes
    verified_after: WayDurations
    rate: SaveRate
    resumes: ResumeCount
    savings: Savings
    stored: StoredSize
    cost: int | float | None
    unknown: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Gathered:
    """What the figures are made from.

    `file_bytes` has the size of each stored file of a run by its path, `part_bytes` that of each part;
    both are None where they were not looked at. `journeys` are those of this machine's queue.
    """

    run_id: str | None
    indexes: Sequence[Index]
    journeys: Sequence[Journey]
    resumes: ResumeCount
    file_bytes: Mapping[str, int] | None = None
    part_bytes: Mapping[str, int] | None = None
    repository_bytes: int | None = None
    commits: int | None = None
    cost: int | float | None = None
    unknown: Sequence[str] = field(default_factory=tuple)


def compute(found: Gathered) -> Statistics:
    """Return the statistics of what was gathered."""
    entries = [entry for index in found.indexes for entry in index.all_entries]
    stored_ids = {entry.checkpoint_id for entry in entries}
    waiting = [
        each
        for each in found.journeys
        if each.progress is not Progress.VERIFIED and each.checkpoint_id not in stored_ids
    ]
    total = sum(index.checkpoint_count for index in found.indexes) + len(waiting)
    savings = _savings(entries, found)
    return Statistics(
        run_id=found.run_id,
        runs=len({*(index.run_id for index in found.indexes), *(each.run_id for each in waiting)}),
        checkpoints=_counts(entries, waiting, total),
        sizes=_sizes(entries, found),
        verified_after=_durations(found.journeys),
        rate=_rate([epoch(entry.timestamp) for entry in entries] + [each.arrived_at for each in waiting]),
        resumes=found.resumes,
        savings=savings,
        stored=_stored(found),
        cost=found.cost,
        unknown=[*found.unknown, *_tell_unknown(found, savings, len(entries) + len(waiting), total)],
    )


def _counts(entries: Sequence[IndexEntry], waiting: Sequence[Journey], total: int) -> CheckpointCounts:
    triggers = [entry.trigger for entry in entries] + [each.trigger for each in waiting]
    progress = Counter(each.progress.value for each in waiting)
    verified = total - len(waiting)
    return CheckpointCounts(
        total=total,
        counted=len(entries) + len(waiting),
        by_trigger=_most_first(triggers),
        by_status=_most_first(entry.status for entry in entries),
        by_progress={Progress.VERIFIED.value: verified, **progress} if verified else dict(progress),
    )


def _most_first(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda pair: (-pair[1], pair[0])))


def _sizes(entries: Sequence[IndexEntry], found: Gathered) -> CheckpointSizes:
    """Return the sizes as they were saved here; of a run that was saved elsewhere, those of its files."""
    saved = [each.size_bytes for each in sorted(found.journeys, key=lambda each: each.arrived_at)]
    if saved:
        return _describe_sizes(saved, "saved")
    files = found.file_bytes or {}
    stored = [
        size for entry in entries if is_single(_name(entry.file_path)) and (size := _size_of(entry, files))
    ]
    return _describe_sizes(stored, "stored" if stored else None)


def _describe_sizes(sizes: Sequence[int], basis: str | None) -> CheckpointSizes:
    if not sizes:
        return CheckpointSizes(0, None, None, None, None)
    growth = None
    if len(sizes) >= _LEAST_FOR_GROWTH:
        quarter = max(1, len(sizes) // 4)
        growth = round(median(sizes[-quarter:]) / max(1, median(sizes[:quarter])), 3)
    return CheckpointSizes(len(sizes), basis, round(median(sizes)), max(sizes), growth)


def _durations(journeys: Sequence[Journey]) -> WayDurations:
    """Return how long the ways took that have come to their end; a clock that was set back counts as 0."""
    ways = sorted(
        max(0.0, each.changed_at - each.arrived_at) for each in journeys if each.progress is Progress.VERIFIED
    )
    if not ways:
        return WayDurations(0, None, None, None)
    p95 = ways[min(len(ways) - 1, int(len(ways) * 0.95))]
    return WayDurations(len(ways), round(median(ways), 3), round(p95, 3), round(ways[-1], 3))


def _rate(moments: Sequence[float]) -> SaveRate:
    known = sorted(moment for moment in moments if moment > 0)
    if not known:
        return SaveRate(None, None, None, None, ())
    first, span_s = known[0], known[-1] - known[0]
    if span_s <= 0:
        return SaveRate(format_moment(first), format_moment(first), None, None, (len(known),))
    counts = Counter(min(SLICES - 1, int((moment - first) / span_s * SLICES)) for moment in known)
    # As many gaps as saves less one lie in the time between the first and the last.
    per_hour = (len(known) - 1) / span_s * _HOUR_S
    return SaveRate(
        first=format_moment(first),
        last=format_moment(known[-1]),
        per_hour=round(per_hour, 2),
        slice_s=round(span_s / SLICES, 3),
        slices=tuple(counts[number] for number in range(SLICES)),
    )


def _savings(entries: Sequence[IndexEntry], found: Gathered) -> Savings:
    batched = [entry.file_path for entry in entries if not is_single(_name(entry.file_path))]
    batches = len(set(batched))
    parts = found.part_bytes
    return Savings(
        batches=batches,
        batched_checkpoints=len(batched),
        writes_saved=len(batched) - batches,
        parts=None if parts is None else len(parts),
        part_bytes=None if parts is None else sum(parts.values()),
        bytes_saved=_bytes_saved(entries, found),
    )


def _bytes_saved(entries: Sequence[IndexEntry], found: Gathered) -> int | None:
    """Return how much less lies there than was saved; only if every stored checkpoint was saved here."""
    is_every_one_listed = len(entries) == sum(index.checkpoint_count for index in found.indexes)
    if found.file_bytes is None or found.part_bytes is None or not is_every_one_listed:
        return None
    saved = {each.checkpoint_id: each.size_bytes for each in found.journeys}
    files = {entry.file_path for entry in entries}
    if not all(entry.checkpoint_id in saved for entry in entries) or not all(
        path.removeprefix("/") in found.file_bytes for path in files
    ):
        return None
    stored = sum(found.file_bytes[path.removeprefix("/")] for path in files)
    return sum(saved[entry.checkpoint_id] for entry in entries) - stored - sum(found.part_bytes.values())


def _stored(found: Gathered) -> StoredSize:
    if found.run_id is None:
        files = None if found.file_bytes is None else len(found.file_bytes) + len(found.part_bytes or {})
        return StoredSize(files, found.repository_bytes, found.commits)
    if found.file_bytes is None:
        return StoredSize(None, None, None)
    parts = found.part_bytes or {}
    size_bytes = sum(found.file_bytes.values()) + sum(parts.values())
    return StoredSize(len(found.file_bytes) + len(parts), size_bytes, None)


def _tell_unknown(found: Gathered, savings: Savings, counted: int, total: int) -> Iterable[str]:
    """Yield a sentence for each figure that is missing for want of what it is made from."""
    if counted < total:
        yield (
            f"triggers, statuses and times are those of {counted:,} of {total:,} checkpoints: "
            "the index of a long run lists the newest; ask for the run by its name"
        )
    if not found.journeys:
        yield "verified_after: no checkpoint was saved here, or its receipt is gone"
    if found.run_id is not None:
        yield "stored.commits: commits belong to the repository; ask for all runs"
    if savings.bytes_saved is None:
        yield "savings.bytes_saved: not every stored checkpoint was saved here, or its receipt is gone"


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _size_of(entry: IndexEntry, files: Mapping[str, int]) -> int | None:
    return files.get(entry.file_path.removeprefix("/"))
