"""The job summary is Markdown that says what it is given and nothing else."""

import pytest

from holdfast.action.outcome import StepOutcome, StoredFile, Table
from holdfast.action.summary import SHOWN_ROWS, budget_sentence, escape, format_summary

BUDGET = {"last_remaining": 988, "limit": 1000, "last_reset": 60, "resets_at": 240.0}
HOSTILE = "a|b</td>\n| x | [y](javascript:1) `z` <script> ![i](http://e) *b* _u_ # @me \\ & &lt;"


def test_every_mark_of_markdown_and_html_is_shown_and_not_obeyed() -> None:
    escaped = escape(HOSTILE)

    assert not set("|<>[]()`*_#@\\!\n") & set(escaped.replace("&#", ""))
    assert "&#38;lt&#59;" in escaped


def test_a_table_links_the_files_that_are_stored() -> None:
    table = Table(
        ("run", "file"), (("build-1", StoredFile("c/build-1/cp_001.json")), ("build-2", "cp_002.json"))
    )

    text = format_summary(StepOutcome("saved", table=table), "", lambda path: f"https://x/{path}")

    assert text.splitlines() == [
        "### Holdfast: saved",
        "",
        "| run | file |",
        "| --- | --- |",
        "| build-1 | [c/build-1/cp&#95;001.json](https://x/c/build-1/cp_001.json) |",
        "| build-2 | cp&#95;002.json |",
        "",
    ]


def test_hostile_text_stays_within_its_cell() -> None:
    table = Table(("run", "why"), ((HOSTILE, HOSTILE),))

    lines = format_summary(StepOutcome(HOSTILE, table=table, facts=(HOSTILE,)), "", str).splitlines()

    assert len(lines) == 8
    assert lines[6].count("|") == 3


def test_problems_facts_and_the_budget_are_told_in_this_order() -> None:
    outcome = StepOutcome("late", facts=("a fact",), problems=("a problem",))

    text = format_summary(outcome, "A budget.", str)

    assert text == "### Holdfast: late\n\n> [!WARNING]\n> a problem\n\na fact\n\nA budget.\n\n"


def test_the_budget_says_when_its_limit_resets() -> None:
    assert budget_sentence(BUDGET, now=60.0) == (
        "Budget: 988 of 1,000 requests left; the limit resets in 3 min, at 1970-01-01 00:04:00 UTC."
    )


@pytest.mark.parametrize("now", [240.0, 3600.0])
def test_a_reset_that_is_over_is_not_told(now: float) -> None:
    assert budget_sentence(BUDGET, now) == "Budget: 988 of 1,000 requests left."


def test_a_long_table_is_cut_and_says_so() -> None:
    table = Table(("run",), tuple((f"run-{number}",) for number in range(SHOWN_ROWS + 5)))

    text = format_summary(StepOutcome("many", table=table), "", str)

    assert "| run-199 |" in text
    assert "| run-200 |" not in text
    assert "and 5 more." in text


def test_a_budget_that_github_has_said_nothing_of_is_not_told() -> None:
    nothing = {"last_remaining": None, "limit": 1000, "last_reset": None, "resets_at": None}

    assert budget_sentence(nothing, now=0.0) == ""
    assert budget_sentence({**BUDGET, "limit": None}, now=240.0) == "Budget: 988 requests left."
