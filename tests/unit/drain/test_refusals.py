"""A refusal is about one checkpoint, about one of several, or about none."""

import pytest

from holdfast.drain.chunks import BatchStep, CommitStep, SinglesStep, Step
from holdfast.drain.refusals import Divide, Halt, Isolate, Quarantine, judge_refusal
from holdfast.errors import RefusalKind, Refused
from holdfast.format.paths import Layout
from tests.fakes.drain_simulation import make_item

FIRST, SECOND, THIRD = (make_item(number, run_id="r") for number in (1, 2, 3))
OF_FIRST = "checkpoints/r/cp_001_manual.json"
OF_INDEX = "checkpoints/r/index.json"
OF_PART = f"checkpoints/r/parts/{'0' * 64}.json"


def judge(
    step: Step, path: str, kind: RefusalKind = "secret_detected"
) -> Quarantine | Divide | Isolate | Halt:
    return judge_refusal(step, Refused(path, "no", kind, "Do this."), Layout())


@pytest.mark.parametrize("kind", ["auth", "permission", "not_found_or_no_access", "protected_branch"])
def test_refusal_that_is_about_no_content_halts_everything(kind: RefusalKind) -> None:
    assert judge(SinglesStep("r", (FIRST,)), OF_FIRST, kind) == Halt()


@pytest.mark.parametrize("kind", ["secret_detected", "rules", "invalid"])
def test_checkpoint_whose_file_is_refused_is_quarantined_alone(kind: RefusalKind) -> None:
    assert judge(SinglesStep("r", (FIRST, SECOND)), OF_FIRST, kind) == Quarantine((FIRST,))


def test_file_of_a_commit_names_its_culprit() -> None:
    other = make_item(1, run_id="other")

    assert judge(CommitStep((FIRST, other)), OF_FIRST) == Quarantine((FIRST,))


def test_refused_batch_is_halved_and_a_half_of_one_becomes_a_single_file() -> None:
    halves = Divide((BatchStep("r", (FIRST, SECOND)), SinglesStep("r", (THIRD,))))

    assert judge(BatchStep("r", (FIRST, SECOND, THIRD)), OF_INDEX) == halves


def test_refused_part_is_looked_for_by_halves() -> None:
    halves = Divide((SinglesStep("r", (FIRST,)), SinglesStep("r", (SECOND,))))

    assert judge(SinglesStep("r", (FIRST, SECOND)), OF_PART) == halves


def test_part_of_a_checkpoint_by_itself_is_its_fault() -> None:
    assert judge(SinglesStep("r", (FIRST,)), OF_PART) == Quarantine((FIRST,))


def test_refusal_of_another_file_beside_single_checkpoints_concerns_its_run_alone() -> None:
    assert judge(SinglesStep("r", (FIRST,)), OF_INDEX) == Isolate("r")


@pytest.mark.parametrize("path", [OF_FIRST, OF_INDEX])
def test_run_whose_folder_is_obstructed_waits_alone(path: str) -> None:
    other = make_item(1, run_id="other")

    assert judge(SinglesStep("r", (FIRST,)), path, "obstructed") == Isolate("r")
    assert judge(CommitStep((FIRST, other)), path, "obstructed") == Isolate("r")


def test_obstructed_run_of_a_commit_is_found_by_halves() -> None:
    other = make_item(1, run_id="other")
    halves = Divide((SinglesStep("r", (FIRST,)), SinglesStep("other", (other,))))

    assert judge(CommitStep((FIRST, other)), "checkpoints", "obstructed") == halves
    assert judge(CommitStep((FIRST, SECOND)), "checkpoints", "obstructed") == Isolate("r")


def test_refusal_of_what_belongs_to_no_run_halts_everything() -> None:
    assert judge(SinglesStep("r", (FIRST,)), "checkpoints", "invalid") == Halt()
