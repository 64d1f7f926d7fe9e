from holdfast.format.index import IndexEntry
from holdfast.langgraph.names import Place
from holdfast.langgraph.thread_index import Filed, index_thread


def entry(sequence: int, phase: str) -> IndexEntry:
    return IndexEntry(sequence, f"r{sequence}", "iteration", "", "", "in_progress", "", phase=phase)


def test_later_record_of_a_checkpoint_is_in_force_with_all_writes() -> None:
    phases = ["1a checkpoint", "1a writes", "1a checkpoint", "1a writes", "phase_1_plan"]
    entries = [entry(number, phase) for number, phase in enumerate(phases, 1)]

    index = index_thread(reversed(entries), lambda _: [])

    assert index.newest_first() == [Filed(Place("", "1a"), "r3", ("r2", "r4"))]


def test_newest_is_the_one_with_the_highest_id_of_its_namespace() -> None:
    phases = ["1b checkpoint", "1a checkpoint", "1c checkpoint child:1"]
    index = index_thread([entry(number, phase) for number, phase in enumerate(phases, 1)], lambda _: [])

    assert [filed.record_id for filed in index.newest_first("")] == ["r1", "r2"]
    newest = index.find("child:1", None)
    assert newest is not None
    assert newest.record_id == "r3"
    assert index.find("", "1c") is None
    assert index.find("other", None) is None


def test_deletion_takes_out_what_came_before_it() -> None:
    phases = ["1a checkpoint", "1a writes", "1b checkpoint", "- deleted", "1b checkpoint"]
    index = index_thread(
        [entry(number, phase) for number, phase in enumerate(phases, 1)],
        {"r4": [Place("", "1a"), Place("", "1b")]}.__getitem__,
    )

    assert index.newest_first() == [Filed(Place("", "1b"), "r5", ())]
