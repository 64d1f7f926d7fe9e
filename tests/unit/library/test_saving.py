"""What a save takes in, what it refuses, and what it tells."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pydantic import BaseModel
from structlog.testing import capture_logs

from holdfast.errors import (
    CheckpointChanged,
    CheckpointTooLarge,
    DecisionRefused,
    InvalidCheckpoint,
    SpoolFull,
    Unavailable,
)
from holdfast.format.receipt import Receipt
from holdfast.github.calls import Call
from holdfast.library import Holdfast
from tests.fakes.assembly import make_assembly
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway

ID = "550e8400-e29b-41d4-a716-446655440000"
SHORT: dict[str, Any] = {"run_id": "r", "trigger": "manual", "state": {"n": 1}}


@pytest.fixture
def repository() -> MemoryGateway:
    return MemoryGateway()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def open_holdfast(folder: Path, repository: MemoryGateway, clock: VirtualClock, **settings: Any) -> Holdfast:
    assembly = make_assembly(folder, repository, clock, **settings)
    return Holdfast(assembly.settings, assembly=assembly)


@pytest.fixture
def holdfast(tmp_path: Path, repository: MemoryGateway, clock: VirtualClock) -> Iterator[Holdfast]:
    with open_holdfast(tmp_path, repository, clock) as holdfast:
        yield holdfast


def test_bytes_are_kept_as_they_are(holdfast: Holdfast) -> None:
    holdfast.submit(b'{"run_id": "r", "trigger": "manual", "state": {"b": 1.10, "a": 1e2}}')

    assert b'{"b": 1.10, "a": 1e2}' in holdfast.checkpoint("r").content


def test_a_model_is_taken_by_what_it_holds(holdfast: Holdfast) -> None:
    class Model(BaseModel):
        run_id: str = "r"
        trigger: str = "manual"
        state: dict[str, int] = {"n": 7}

    holdfast.submit(Model())

    assert b'{"n":7}' in holdfast.checkpoint("r").content


def test_what_is_no_checkpoint_is_refused_with_its_type(holdfast: Holdfast) -> None:
    with pytest.raises(InvalidCheckpoint, match="it is of type list"):
        holdfast.submit([1, 2])  # type: ignore[arg-type]


@pytest.mark.parametrize("is_text", [False, True])
def test_a_checkpoint_above_the_limit_is_refused_and_a_large_one_is_told(
    holdfast: Holdfast, is_text: bool
) -> None:
    def submit(size_bytes: int) -> Receipt:
        checkpoint: Any = {**SHORT, "state": {"text": "x" * size_bytes}}
        text = b'{"run_id":"r","trigger":"manual","state":{"text":"%s"}}' % (b"x" * size_bytes)
        return holdfast.submit(text if is_text else checkpoint)

    with (
        patch("holdfast.library.saving.MOST_BYTES", 5000),
        patch("holdfast.library.saving.WARNED_BYTES", 2000),
    ):
        with pytest.raises(CheckpointTooLarge):
            submit(6000)
        with capture_logs() as logs:
            submit(3000)
            submit(100)

    assert [event["event"] for event in logs if event["log_level"] == "warning"] == ["checkpoint_large"]


def test_the_same_id_is_stored_once_and_with_other_content_refused(holdfast: Holdfast) -> None:
    first = holdfast.save("r", {"n": 1}, checkpoint_id=ID)

    assert holdfast.save("r", {"n": 1}, checkpoint_id=ID) == first
    with pytest.raises(CheckpointChanged):
        holdfast.save("r", {"n": 2}, checkpoint_id=ID)


def test_a_draft_saves_nothing_and_many_are_saved_together(holdfast: Holdfast) -> None:
    drafts = [holdfast.draft(SHORT), holdfast.draft(SHORT, checkpoint_id=ID)]
    assert holdfast.status()["spool"]["depth"] == 0

    receipts = holdfast.submit_all([*drafts, holdfast.draft({**SHORT, "checkpoint_id": ID, "state": {}})])

    assert [getattr(each, "sequence_number", type(each)) for each in receipts] == [1, 2, CheckpointChanged]


def test_a_full_spool_is_raised_to_who_saves_one(
    tmp_path: Path, repository: MemoryGateway, clock: VirtualClock
) -> None:
    with open_holdfast(tmp_path, repository, clock, max_spool_items=1) as holdfast:
        holdfast.save("r", {})
        with pytest.raises(SpoolFull):
            holdfast.save("r", {})


def test_who_listens_hears_of_each_new_checkpoint_alone(holdfast: Holdfast) -> None:
    heard: list[Receipt] = []
    holdfast.on_spooled = heard.append

    receipt = holdfast.save("r", {"n": 1}, checkpoint_id=ID)
    with pytest.raises(CheckpointChanged):
        holdfast.save("r", {"n": 2}, checkpoint_id=ID)

    assert heard == [receipt]


def test_while_saves_are_disabled_they_are_checked_and_that_is_said_once(
    tmp_path: Path, repository: MemoryGateway, clock: VirtualClock
) -> None:
    with open_holdfast(tmp_path, repository, clock, enabled=False) as holdfast, capture_logs() as logs:
        receipts = [holdfast.save("r", {}), holdfast.save("r", {}), holdfast.complete("r")]
        with pytest.raises(InvalidCheckpoint):
            holdfast.save("r", {}, trigger="whim")
        assert holdfast.status()["spool"]["depth"] == 0

    assert {receipt.status for receipt in receipts} == {"disabled"}
    assert [event["event"] for event in logs] == ["saves_disabled"]


def test_a_credential_is_taken_out_and_its_place_told(holdfast: Holdfast) -> None:
    secret = "ghp_" + "a1B2" * 9

    with capture_logs() as logs:
        receipt = holdfast.save("r", {"token": secret})

    assert [place.path for place in receipt.redacted or ()] == ["/state_snapshot/token"]
    assert secret.encode() not in holdfast.checkpoint("r").content
    assert secret not in str(logs)
    assert logs[-1]["places"] == ["/state_snapshot/token (github-token)"]


def test_an_outage_delays_what_is_saved_until_it_is_over(
    holdfast: Holdfast, repository: MemoryGateway, clock: VirtualClock
) -> None:
    repository.fail_next(Call, Unavailable("x", "no answer"), times=20)
    assert holdfast.save("r", {}).persistence == "normal"
    holdfast.drain()
    clock.sleep(5)

    with capture_logs() as logs:
        assert holdfast.save("r", {}).persistence == "delayed"
    assert [event["event"] for event in logs if event["log_level"] == "warning"] == ["persistence_delayed"]

    repository.forget_failures()
    clock.sleep(600)
    assert holdfast.drain().left == 0
    clock.sleep(5)
    assert holdfast.save("r", {}).persistence == "normal"


def test_a_run_ends_once(holdfast: Holdfast) -> None:
    holdfast.save("r", {"n": 1})

    first, again = holdfast.complete("r"), holdfast.complete("r")

    assert (first.sequence_number, again) == (2, first)
    assert holdfast.checkpoint("r").header.status == "completed"


@pytest.mark.parametrize("status", ["in_progress", "interrupted", "done"])
def test_a_run_ends_only_as_completed_or_failed(holdfast: Holdfast, status: str) -> None:
    holdfast.save("r", {})

    with pytest.raises(InvalidCheckpoint, match="use completed or failed"):
        holdfast.complete("r", status)


def test_a_run_that_waits_for_a_person_ends_as_failed_alone(holdfast: Holdfast) -> None:
    holdfast.save("r", {}, trigger="escalation", phase="phase_1")

    with pytest.raises(DecisionRefused) as caught:
        holdfast.complete("r")
    assert caught.value.code == "waits_for_review"
    assert holdfast.complete("r", "failed").sequence_number == 2
