"""The order in which a reader tries the places where a checkpoint may lie."""

from collections.abc import Sequence

from holdfast.repository.candidates import Candidate, find_candidates

BATCHES = {"batch_1_9.json": (1, 3, 9), "batch_2_4.json": (2, 4)}


def order(named: Sequence[Candidate], *files: str) -> list[tuple[int, str]]:
    found = find_candidates(named, files, BATCHES.__getitem__)
    return [(candidate.sequence, candidate.name) for candidate in found]


def test_newest_comes_first_and_batches_lie_in_each_others_gaps() -> None:
    assert [number for number, _ in order([], *BATCHES, "cp_005_manual.json")] == [9, 5, 4, 3, 2, 1]


def test_what_the_index_names_comes_before_its_rival() -> None:
    named = [Candidate(3, "cp_003_manual.json")]

    assert order(named, "cp_003_iteration.json", "cp_003_manual.json", "batch_1_9.json") == [
        (9, "batch_1_9.json"),
        (3, "cp_003_manual.json"),
        (3, "batch_1_9.json"),
        (3, "cp_003_iteration.json"),
        (1, "batch_1_9.json"),
    ]


def test_index_that_names_the_same_twice_is_no_trouble() -> None:
    twice = [Candidate(3, "cp_003_manual.json")] * 2

    assert order(twice, "cp_003_manual.json") == [(3, "cp_003_manual.json")] * 2


def test_batch_is_opened_only_when_its_turn_comes() -> None:
    opened: list[str] = []

    def numbers_in(name: str) -> Sequence[int]:
        opened.append(name)
        return BATCHES[name]

    found = find_candidates([], [*BATCHES, "cp_010_manual.json"], numbers_in)

    assert next(found).sequence == 10
    assert opened == []
    assert next(found).sequence == 9
    assert opened == ["batch_1_9.json"]
