"""Commits to a branch that may hold code are marked, and nothing else is touched."""

from typing import Any

import pytest

from holdfast.github.calls import Call, ReadHead
from holdfast.github.wrappers.skip_ci import SkipCiGateway
from holdfast.github.write_calls import CommitFiles, DeleteFile, WriteCommit, WriteFile


class Recorder:
    """A gateway that keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def perform(self, call: Call[Any]) -> Any:
        self.asked.append(call)
        return "answer"


def perform(call: Call[Any]) -> Any:
    recorder = Recorder()
    assert SkipCiGateway(recorder).perform(call) == "answer"
    (asked,) = recorder.asked
    return asked


@pytest.mark.parametrize(
    "call",
    [
        WriteFile("a.json", b"{}", "Checkpoint 1", "main"),
        DeleteFile("a.json", "Checkpoint 1", "main", "0" * 40),
        WriteCommit("0" * 40, "Checkpoint 1"),
    ],
    ids=lambda call: type(call).__name__,
)
def test_a_commit_message_keeps_its_subject_and_gets_the_mark(call: Call[Any]) -> None:
    assert perform(call).message == "Checkpoint 1\n\n[skip ci]"


@pytest.mark.parametrize(
    ("body", "marked"),
    [("", "[skip ci]"), ("Checkpoint 1\nCheckpoint 2", "Checkpoint 1\nCheckpoint 2\n\n[skip ci]")],
)
def test_a_commit_of_many_files_gets_the_mark_in_its_body(body: str, marked: str) -> None:
    asked = perform(CommitFiles("main", "0" * 40, "2 checkpoints", body, {}))

    assert (asked.headline, asked.body) == ("2 checkpoints", marked)


def test_a_mark_that_is_there_is_not_added_again() -> None:
    message = "Checkpoint 1\n\n[skip ci]"

    assert perform(WriteCommit("0" * 40, message)).message == message


def test_what_makes_no_commit_passes_as_it_is() -> None:
    call = ReadHead("main")

    assert perform(call) is call
