"""An orjson.Fragment is its caller's word. Where that is not true, the drain sets the checkpoint aside."""

from pathlib import Path

import orjson
import pytest

from holdfast.format.receipt import Progress
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import check_run, open_workshop


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_body_that_is_no_json_is_set_aside_with_its_bytes_and_the_others_go_on(
    tmp_path: Path, mode: str
) -> None:
    repository = MemoryGateway()
    with open_workshop(tmp_path, repository, mode=mode) as workshop:
        before = workshop.save()
        untrue = workshop.save(state={"a": orjson.Fragment(b"}")})
        after = workshop.save()

        result = workshop.worker.drain(timeout_s=60)

        assert result.verified == 2
        assert set(check_run(repository).values()) == {before.checkpoint_id, after.checkpoint_id}
        (aside,) = workshop.spool.set_aside_entries()
        assert aside.item.checkpoint_id == untrue.checkpoint_id
        assert "its body is not JSON" in aside.reason
        receipt = workshop.spool.receipt(untrue.checkpoint_id)
        assert receipt is not None
        assert receipt.status is Progress.REFUSED
        assert b'"state_snapshot":{"a":}}' in workshop.spool.read(aside.item)


@pytest.mark.parametrize("is_drained", [False, True])
def test_run_is_read_and_resumed_from_what_is_good_before_and_after_it_is_set_aside(
    tmp_path: Path, is_drained: bool
) -> None:
    with open_workshop(tmp_path, MemoryGateway()) as workshop:
        good = workshop.save(run_id="r")
        workshop.save(run_id="r", state={"a": orjson.Fragment(b"}")})
        workshop.save(run_id="other")
        if is_drained:
            workshop.worker.drain(timeout_s=60)

        plan = workshop.reader.resume("r")

        assert plan.checkpoint_id == good.checkpoint_id
        assert any("not JSON" in warning for warning in plan.warnings)
        assert {run.run_id for run in workshop.reader.list_runs()} == {"r", "other"}
        assert good.checkpoint_id in workshop.reader.list_checkpoints("r").by_id
