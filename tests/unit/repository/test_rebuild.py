"""An index made anew: who has a number, what is left over, and the latest that comes back."""

from collections.abc import Sequence
from uuid import NAMESPACE_URL, uuid5

from holdfast.format.index import Index, IndexEntry
from holdfast.format.paths import Layout
from holdfast.format.stored_file import entry_of
from holdfast.repository.rebuild import LatestCheckpoint, OpenedFiles, mark_pruned, rebuild_index, revive
from tests.fakes.saved import stamped

NO_LATEST = LatestCheckpoint()


def entry(number: int, name: str = "") -> IndexEntry:
    identity = str(uuid5(NAMESPACE_URL, f"{number} {name}"))
    return entry_of(stamped({}, sequence=number, checkpoint_id=identity), f"checkpoints/r/{name}")


def files(*entries: IndexEntry, damaged: Sequence[str] = ()) -> OpenedFiles:
    return OpenedFiles({each.file_path.rpartition("/")[2]: [each] for each in entries}, damaged)


def copy_of(each: IndexEntry) -> LatestCheckpoint:
    return LatestCheckpoint(each.checkpoint_id, each.sequence)


def test_first_by_name_has_the_number_unless_the_other_was_the_latest() -> None:
    rival, owner = entry(3, "cp_003_iteration.json"), entry(3, "cp_003_manual.json")

    by_name = rebuild_index("r", files(owner, rival), NO_LATEST, is_trimmed=True)
    by_latest = rebuild_index("r", files(owner, rival), copy_of(owner), is_trimmed=True)

    assert by_name.entries == (rival,)
    assert by_latest.entries == (owner,)


def test_trimmed_run_has_nothing_up_to_its_latest() -> None:
    left_over, newer = entry(2, "cp_002_manual.json"), entry(4, "cp_004_manual.json")

    found = rebuild_index("r", files(left_over, newer), LatestCheckpoint("x", 3), is_trimmed=True)

    assert (found.entries, found.pruned_through) == ((newer,), 3)


def test_batch_goes_as_a_whole() -> None:
    batch = [entry(2, "batch_002_004.json"), entry(4, "batch_002_004.json")]

    found = rebuild_index(
        "r", OpenedFiles({"batch_002_004.json": batch}), LatestCheckpoint("x", 3), is_trimmed=True
    )

    assert (found.entries, found.pruned_through) == ((), 3)


def test_damaged_file_speaks_for_the_latest() -> None:
    older = entry(2, "cp_002_manual.json")

    opened = files(older, damaged=["cp_003_manual.json"])

    found = rebuild_index("r", opened, LatestCheckpoint("x", 3), is_trimmed=True)

    assert (found.entries, found.pruned_through) == ((older,), 1)


def test_damaged_index_is_no_sign_of_a_trimmed_run() -> None:
    older = entry(2, "cp_002_manual.json")

    found = rebuild_index("r", files(older), LatestCheckpoint("x", 3), is_trimmed=False)

    assert (found.entries, found.pruned_through) == ((older,), 1)


def test_numbers_before_the_first_may_have_been_used() -> None:
    index = Index("r", (entry(5),))

    assert mark_pruned(index, LatestCheckpoint("x", 9)).pruned_through == 4
    assert mark_pruned(index, LatestCheckpoint("x", 3)).pruned_through == 3
    assert mark_pruned(Index("r"), LatestCheckpoint("x", 3)) == Index("r")


def test_latest_without_a_file_gets_one() -> None:
    latest = stamped({"n": 3}, sequence=3)
    copied = LatestCheckpoint(latest.checkpoint_id, 3, latest)

    found = revive(Index("r", pruned_through=3), copied, Layout())

    assert [each.file_path for each in found.entries] == ["checkpoints/r/cp_003_manual.json"]
    assert found.pruned_through == 3


def test_latest_that_is_known_or_whose_number_is_taken_gets_none() -> None:
    latest = stamped({"n": 3}, sequence=3)
    copied = LatestCheckpoint(latest.checkpoint_id, 3, latest)
    known, taken = Index("r", (entry_of(latest, "x"),)), Index("r", (entry(3),))

    for index in (known, taken):
        assert revive(index, copied, Layout()) is index
    assert revive(taken, LatestCheckpoint("x", 4), Layout()) is taken
