"""What the figures say, by values that can be checked in the head; and what they do not pretend to know."""

from dataclasses import replace

from holdfast.format.index import Index, IndexEntry
from holdfast.format.index_segments import Segment
from holdfast.format.moments import format_moment
from holdfast.format.receipt import Progress
from holdfast.queue.contract import Journey
from holdfast.stats.figures import Gathered, ResumeCount, compute

HOUR_S = 3600.0
BEGIN = 1_000_000.0


def entry(number: int, *, name: str | None = None, trigger: str = "manual", at: float = BEGIN) -> IndexEntry:
    path = f"checkpoints/r/{name or f'cp_{number:03d}_{trigger}.json'}"
    return IndexEntry(number, f"id-{number}", trigger, format_moment(at), path, "in_progress", "sha")


def journey(number: int, size: int, *, took_s: float | None = 2.0, at: float = BEGIN) -> Journey:
    progress = Progress.SPOOLED if took_s is None else Progress.VERIFIED
    return Journey(f"id-{number}", "r", number, "manual", size, at, progress, at + (took_s or 0.0))


def gathered(entries: list[IndexEntry], journeys: list[Journey], **more: object) -> Gathered:
    found = Gathered("r", [Index("r", tuple(entries))], journeys, ResumeCount(0, None))
    return replace(found, **more)  # type: ignore[arg-type]


def test_what_is_stored_and_what_waits_is_counted_once() -> None:
    entries = [entry(1, trigger="phase_complete"), entry(2), entry(3)]
    # The third is stored already, and still waits for its receipt; the fourth only waits.
    found = compute(gathered(entries, [journey(3, 10, took_s=None), journey(4, 10, took_s=None)]))

    assert found.checkpoints.total == found.checkpoints.counted == 4
    assert found.checkpoints.by_trigger == {"manual": 3, "phase_complete": 1}
    assert found.checkpoints.by_progress == {"verified": 3, "spooled": 1}


def test_sizes_and_growth_are_those_of_the_saves() -> None:
    sizes = compute(gathered([], [journey(n, 100 * n, at=BEGIN + n) for n in range(8, 0, -1)])).sizes

    assert (sizes.median_bytes, sizes.largest_bytes, sizes.basis) == (450, 800, "saved")
    assert sizes.growth == 5.0  # 750 at the end, 150 at the beginning


def test_few_saves_have_no_growth() -> None:
    assert compute(gathered([], [journey(1, 100), journey(2, 200)])).sizes.growth is None


def test_a_run_that_was_saved_elsewhere_has_the_sizes_of_its_files() -> None:
    files = {"checkpoints/r/cp_001_manual.json": 300, "checkpoints/r/index.json": 9}
    found = compute(gathered([entry(1)], [], file_bytes=files, part_bytes={}))

    assert (found.sizes.basis, found.sizes.median_bytes, found.sizes.counted) == ("stored", 300, 1)
    assert found.verified_after.median_s is None
    assert any(sentence.startswith("verified_after") for sentence in found.unknown)
    assert found.savings.bytes_saved is None
    assert any(sentence.startswith("savings.bytes_saved") for sentence in found.unknown)


def test_the_way_is_from_the_save_to_the_verified_commit() -> None:
    ways = [journey(n, 1, took_s=float(n)) for n in range(1, 21)]
    # A clock that was set back makes no negative times.
    way = compute(
        gathered([], [*ways, journey(30, 1, took_s=None), journey(31, 1, took_s=-5.0)])
    ).verified_after

    assert (way.counted, way.median_s, way.p95_s, way.longest_s) == (21, 10.0, 19.0, 20.0)


def test_the_rate_counts_gaps_and_not_posts() -> None:
    entries = [entry(n, at=BEGIN + (n - 1) * HOUR_S) for n in range(1, 13)]

    rate = compute(gathered(entries, [])).rate

    assert rate.per_hour == 1.0
    assert sum(rate.slices) == 12
    assert (len(rate.slices), rate.slices[0], rate.slices[-1]) == (24, 1, 1)


def test_one_moment_is_no_rate() -> None:
    rate = compute(gathered([entry(1), entry(2)], [])).rate

    assert (rate.per_hour, rate.slices) == (None, (2,))


def test_a_time_that_is_none_is_left_out() -> None:
    entries = [replace(entry(1), timestamp="soon"), entry(2)]

    assert compute(gathered(entries, [])).rate.slices == (1,)


def test_batches_save_writes() -> None:
    entries = [entry(n, name="batch_1_4.json") for n in range(1, 5)] + [entry(5)]

    savings = compute(gathered(entries, [])).savings

    assert (savings.batches, savings.batched_checkpoints, savings.writes_saved) == (1, 4, 3)


def test_parts_save_what_was_saved_and_does_not_lie_there() -> None:
    files = {f"checkpoints/r/cp_{n:03d}_manual.json": 100 for n in (1, 2)}
    saves = [journey(1, 1000), journey(2, 1000)]
    found = compute(gathered([entry(1), entry(2)], saves, file_bytes=files, part_bytes={"parts/a": 900}))

    assert (found.savings.parts, found.savings.part_bytes, found.savings.bytes_saved) == (1, 900, 900)
    assert (found.stored.files, found.stored.bytes) == (3, 1100)


def test_paths_with_a_leading_slash_are_the_same_files() -> None:
    theirs = replace(entry(1), file_path="/checkpoints/r/cp_001_manual.json")
    files = {"checkpoints/r/cp_001_manual.json": 100}
    found = compute(gathered([theirs], [journey(1, 150)], file_bytes=files, part_bytes={}))

    assert found.savings.bytes_saved == 50


def test_all_runs_have_the_size_and_the_commits_of_the_repository() -> None:
    files = {"checkpoints/r/cp_001_manual.json": 100, "checkpoints/r/index.json": 20}
    found = compute(
        replace(
            gathered(
                [entry(1)], [journey(1, 150)], file_bytes=files, part_bytes={"checkpoints/r/parts/a": 5}
            ),
            run_id=None,
            repository_bytes=2048,
            commits=7,
        )
    )

    assert (found.runs, found.stored.files, found.stored.bytes, found.stored.commits) == (1, 3, 2048, 7)
    assert found.savings.bytes_saved == 45


def test_what_a_long_run_saved_is_not_told_by_its_newest_checkpoints() -> None:
    files = {"checkpoints/r/cp_101_manual.json": 100}
    newest = Index(
        "r", (entry(101),), segments=(Segment("checkpoints/r/index_001_100.json", 1, 100, 100, "sha"),)
    )
    found = compute(
        replace(
            gathered([], [journey(101, 150)], file_bytes=files, part_bytes={}), run_id=None, indexes=[newest]
        )
    )

    assert found.savings.bytes_saved is None
