"""Every error has an exit code, and one line that says what to do."""

import pytest

from holdfast.errors import (
    CheckpointChanged,
    GatewayError,
    HoldfastError,
    IntegrityFailure,
    InvalidCheckpoint,
    InvalidSettings,
    Refused,
    SpoolBusy,
    SpoolFull,
    Throttled,
    Unavailable,
    UnknownRun,
)
from holdfast.presentation.exits import CommandFailed, WrongUse, describe, exit_code_of


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WrongUse("x"), 2),
        (InvalidCheckpoint("state", "x"), 2),
        (CheckpointChanged("id"), 2),
        (InvalidSettings(["x"]), 2),
        (UnknownRun("x"), 1),
        (IntegrityFailure("path", "x"), 1),
        (SpoolFull("x"), 1),
        (SpoolBusy("x"), 1),
        (GatewayError("path", "x"), 1),
        (CommandFailed("x"), 1),
    ],
)
def test_each_error_has_its_exit_code(error: Exception, code: int) -> None:
    assert exit_code_of(error) == code


def test_a_refusal_is_told_with_the_advice() -> None:
    refused = Refused("contents", "the token was refused", "auth", "Set a new HOLDFAST_TOKEN.")

    assert describe(refused) == "contents: the token was refused. Set a new HOLDFAST_TOKEN."


def test_a_limit_is_told_with_the_time_to_wait() -> None:
    throttled = Throttled("", "the hour is used up", kind="primary", retry_after_s=17.2)

    assert describe(throttled) == "the hour is used up; try again in 17 s"


def test_an_outage_is_told_with_what_to_do() -> None:
    told = describe(Unavailable("checkpoints", "GitHub answered 500"))

    assert told == "checkpoints: GitHub answered 500; try again later, or see holdfast doctor"


def test_an_error_without_words_is_told_by_its_name() -> None:
    assert describe(HoldfastError()) == "HoldfastError"
