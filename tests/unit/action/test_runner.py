"""What the runner is told, in commands and in the job summary, and what it must not mistake for a command."""

import io
from itertools import count
from pathlib import Path

import pytest

from holdfast.action.runner import (
    MOST_SUMMARY_BYTES,
    SHOWN_ROWS,
    Runner,
    StepOutcome,
    StoredFile,
    Table,
    budget_sentence,
    escape_markdown,
    format_summary,
)
from tests.unit.action.outputs import parse_outputs

BUDGET = {"last_remaining": 988, "limit": 1000, "last_reset": 60, "resets_at": 240.0}
HOSTILE = "a|b</td>\n| x | [y](javascript:1) `z` <script> ![i](http://e) *b* _u_ # @me \\ & &lt;"


class Step:
    """A runner's files, and what was printed to it."""

    def __init__(self, folder: Path) -> None:
        self.printed = io.StringIO()
        self.output = folder / "output"
        self.summary = folder / "summary"
        numbers = count(1)
        self.runner = Runner(
            {"GITHUB_OUTPUT": str(self.output), "GITHUB_STEP_SUMMARY": str(self.summary)},
            self.printed,
            new_secret=lambda: f"secret{next(numbers)}",
        )

    def outputs(self) -> dict[str, str]:
        """Read outputs as the runner does."""
        return parse_outputs(self.output.read_text(encoding="utf-8"))


@pytest.fixture
def step(tmp_path: Path) -> Step:
    return Step(tmp_path)


def test_a_secret_is_masked_line_by_line(step: Step) -> None:
    step.runner.mask("one\n\n  two%\r\n")

    assert step.printed.getvalue() == "::add-mask::one\n::add-mask::two%25\n"


def test_no_secret_masks_nothing(step: Step) -> None:
    step.runner.mask("")

    assert step.printed.getvalue() == ""


def test_what_is_printed_in_a_group_cannot_be_a_command(step: Step) -> None:
    with step.runner.group("save\n::warning::x"):
        step.printed.write("::set-output name=a::b\n")

    assert step.printed.getvalue().splitlines() == [
        "::group::save\\n::warning::x",
        "::stop-commands::secret1",
        "::set-output name=a::b",
        "::secret1::",
        "::endgroup::",
    ]


def test_a_group_ends_when_what_is_in_it_fails(step: Step) -> None:
    with pytest.raises(ValueError, match="inside"), step.runner.group("save"):
        raise ValueError("inside")

    assert step.printed.getvalue().endswith("::secret1::\n::endgroup::\n")


def test_a_warning_is_one_line_whatever_it_says(step: Step) -> None:
    step.runner.warn("100%\r\n::error::no")

    assert step.printed.getvalue() == "::warning title=Holdfast::100%25%0D%0A::error::no\n"


def test_an_error_is_one_line(step: Step) -> None:
    step.runner.fail("why")

    assert step.printed.getvalue() == "::error title=Holdfast::why\n"


@pytest.mark.parametrize("value", ["", "plain", "two\nlines", "a<<b\nholdfast_x\nc=d", "\n\n", "ünïcode ✓"])
def test_an_output_comes_back_as_it_was_given(step: Step, value: str) -> None:
    step.runner.set_outputs({"first": value, "second": "2"})

    assert step.outputs() == {"first": value, "second": "2"}


def test_each_output_has_a_delimiter_of_its_own_that_nobody_can_guess(step: Step) -> None:
    step.runner.set_outputs({"first": "holdfast_secret1x", "second": "holdfast_secret1\nthird=3"})

    assert step.outputs() == {"first": "holdfast_secret1x", "second": "holdfast_secret1\nthird=3"}


def test_summaries_of_one_step_follow_each_other(step: Step) -> None:
    step.runner.add_summary("one\n")
    step.runner.add_summary("two\n")

    assert step.summary.read_text() == "one\ntwo\n"


def test_a_summary_that_github_would_drop_is_cut_at_the_end_of_a_line(step: Step) -> None:
    step.runner.add_summary("ü" * 99 + "\n" * 2)
    step.runner.add_summary(("ü" * 499 + "\n") * 2000)

    text = step.summary.read_text(encoding="utf-8")
    assert len(text.encode()) <= MOST_SUMMARY_BYTES
    assert {len(line) for line in text.splitlines()[2:-2]} == {499}
    assert "left out" in text


def test_outside_of_a_step_no_file_is_written(tmp_path: Path) -> None:
    runner = Runner({}, io.StringIO())

    runner.set_outputs({"a": "b"})
    runner.add_summary("text")

    assert list(tmp_path.iterdir()) == []


def test_every_mark_of_markdown_and_html_is_shown_and_not_obeyed() -> None:
    escaped = escape_markdown(HOSTILE)

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
