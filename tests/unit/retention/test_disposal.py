"""What the rules take from one run: whole files, and parts of batches."""

from collections.abc import Sequence

import pytest

from holdfast.format.index import Index
from holdfast.format.moments import format_moment
from holdfast.format.stored_file import entry_of, split_file
from holdfast.retention.disposal import cut_batch, find_prunable, find_torn
from holdfast.retention.rules import RetentionRules
from tests.fakes.stored_runs import LAYOUT, NOON, make_envelope

Files = Sequence[tuple[str, Sequence[int]]]

SINGLES: Files = [(f"cp_00{number}_manual.json", [number]) for number in range(1, 7)]
BATCHES: Files = [("batch_1_4.json", [1, 2, 3, 4]), ("batch_5_6.json", [5, 6])]


def index_of(files: Files, phases: Sequence[str] = ("",) * 6) -> Index:
    """Return the index of a run whose checkpoints lie in these files."""
    entries = [
        entry_of(make_envelope("r", number, phase=phases[number - 1] or "p"), LAYOUT.path("r", name))
        for name, numbers in files
        for number in numbers
    ]
    return Index("r").with_entries(entries, workflow=None, now=format_moment(NOON))


def prunable(index: Index, rules: RetentionRules, style: str = "phases") -> dict[str, list[int]]:
    found = find_prunable(index, style, rules, LAYOUT)
    return {name: [entry.sequence for entry in entries] for name, entries in found.items()}


@pytest.mark.parametrize(
    ("rules", "style", "gone"),
    [
        (RetentionRules(), "phases", []),
        (RetentionRules(), "layers", [1]),
        (RetentionRules(checkpoints=0), "layers", []),
        (RetentionRules(checkpoints=2), "phases", [1, 2, 3, 4]),
        (RetentionRules(checkpoints=2), "layers", [1, 2, 3, 4]),
        (RetentionRules(per_phase=1), "phases", [1, 2, 4, 5]),
        (RetentionRules(checkpoints=4, per_phase=1), "phases", [1, 2, 4, 5]),
    ],
)
def test_the_limits_of_the_rules_take_the_oldest(rules: RetentionRules, style: str, gone: list[int]) -> None:
    index = index_of(SINGLES, phases=("a", "a", "a", "b", "b", "b"))

    assert [numbers[0] for numbers in prunable(index, rules, style).values()] == gone


def test_the_newest_stays_even_if_it_is_old() -> None:
    found = find_prunable(index_of(SINGLES), "", RetentionRules(days=1), LAYOUT, is_old=lambda _: True)

    assert [name for name, _ in SINGLES[:-1]] == list(found)


def test_a_batch_goes_as_a_whole_or_is_torn() -> None:
    index, limit_2, limit_3 = index_of(BATCHES), RetentionRules(checkpoints=2), RetentionRules(checkpoints=3)

    assert prunable(index, limit_2) == {"batch_1_4.json": [1, 2, 3, 4]}
    assert find_torn(index, "", limit_2, LAYOUT) == {}
    assert prunable(index, limit_3) == {}
    torn = find_torn(index, "", limit_3, LAYOUT)
    assert [entry.sequence for entry in torn["batch_1_4.json"]] == [1, 2, 3]


def test_a_batch_is_torn_only_if_that_is_worth_it() -> None:
    index, rules = index_of(BATCHES), RetentionRules(checkpoints=3)

    assert find_torn(index, "", rules, LAYOUT, least=4) == {}
    assert find_torn(index, "", rules, LAYOUT, least=3).keys() == {"batch_1_4.json"}


@pytest.mark.parametrize(
    ("kept", "name"), [([2, 4], "batch_2_4.json"), ([3, 4], "batch_3_4.json"), ([4], "cp_004_manual.json")]
)
def test_what_is_left_of_a_batch_is_named_after_it_and_keeps_its_bytes(kept: list[int], name: str) -> None:
    index = index_of(BATCHES)
    texts = {str(each.checkpoint_id): each.content for each in (make_envelope("r", n) for n in range(1, 5))}
    by_number = {entry.sequence: entry.checkpoint_id for entry in index.all_entries}
    rest = index.without({by_number[number] for number in range(1, 5) if number not in kept})

    cut = cut_batch(rest, "batch_1_4.json", texts, LAYOUT)

    assert cut.name == name
    assert split_file(cut.content, name) == [texts[by_number[number]] for number in kept]
    assert [(entry.sequence, entry.file_path) for entry in cut.entries] == [
        (number, LAYOUT.path("r", name)) for number in kept
    ]
