"""What the runner is told, and what it must not mistake for a command."""

import io
from itertools import count
from pathlib import Path

import pytest

from holdfast.action.runner import MOST_SUMMARY_BYTES, Runner
from tests.unit.action.outputs import parse_outputs


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
