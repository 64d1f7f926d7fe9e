"""What can be done about an error: a command for who types, a call for who asks the sidecar."""

from typing import get_args

import pytest

from holdfast.errors import DecisionRefused, HoldfastError, Remedy, RemedyKind, UnknownRun
from holdfast.presentation.exits import describe
from holdfast.presentation.remedies import call_of, command_of


@pytest.mark.parametrize("kind", get_args(RemedyKind))
def test_each_door_has_its_own_words(kind: RemedyKind) -> None:
    remedy = Remedy(kind, "build-42")
    error = DecisionRefused("no", "it is not", remedy)

    assert "holdfast" in command_of(remedy) or "--" in command_of(remedy)
    assert describe(error) == f"it is not; {command_of(remedy)}"
    assert "holdfast" not in call_of(error)
    assert "--" not in call_of(error)
    assert "{" not in command_of(remedy) + call_of(error)


def test_the_run_is_named_where_it_helps() -> None:
    error = UnknownRun("run 'r' has no checkpoint 7", Remedy("checkpoints", "r"))

    assert describe(error) == "run 'r' has no checkpoint 7; see holdfast list r"
    assert call_of(error) == "see GET /v1/runs/r/checkpoints"


def test_an_error_without_a_remedy_is_told_as_it_is() -> None:
    error = HoldfastError("it failed")

    assert describe(error) == "it failed"
    assert call_of(error) == ""
