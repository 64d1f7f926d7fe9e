"""What is stored is sealed with the newest key; index, latest, batches, parts and segments agree."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import Conflict, InvalidSettings, Throttled, Unavailable, UnknownRun
from holdfast.github.write_calls import CommitFiles
from holdfast.library import Holdfast
from holdfast.security import jose
from holdfast.settings import Settings

OLD, NEW, SIGNING = jose.make_shared_key(), jose.make_shared_key(), jose.make_signing_key()
BOTH_MODES = pytest.mark.parametrize("mode", ["contents", "commit"])


@contextmanager
def opened(folder: Path, *keys: dict[str, str], **variables: str) -> Iterator[Holdfast]:
    environment = {"HOLDFAST_DATA_DIR": str(folder), **variables}
    if keys:
        environment["HOLDFAST_ENCRYPTION_KEY"] = "\n".join(map(json.dumps, keys))
    with closing(Holdfast(Settings.from_environment(environment))) as holdfast:
        yield holdfast


def fill(holdfast: Holdfast, *numbers: int, run_id: str = "r", **state: Any) -> None:
    for number in numbers:
        holdfast.save(run_id, {"n": number, **state})
    assert holdfast.drain().verified == len(numbers)


def check(folder: Path, *numbers: int, **variables: str) -> None:
    """Assert that the new key alone opens every checkpoint, and that all files agree."""
    with opened(folder, NEW, **variables) as holdfast:
        assert holdfast.validate("r").findings == []
        assert [holdfast.resume("r", at=number).state["n"] for number in numbers] == list(numbers)
        assert holdfast.resume("r").state["n"] == numbers[-1]
        assert holdfast.rotate_keys("r").sealed == 0


@pytest.mark.slow
@BOTH_MODES
def test_clear_and_old_states_are_sealed_with_the_newest_key(tmp_path: Path, mode: str) -> None:
    with opened(tmp_path, HOLDFAST_WRITE_MODE=mode) as holdfast:
        fill(holdfast, 1)
    with opened(tmp_path, OLD, HOLDFAST_WRITE_MODE=mode) as holdfast:
        fill(holdfast, 2, 3)
    with opened(tmp_path, NEW, OLD, HOLDFAST_WRITE_MODE=mode) as holdfast:
        report = holdfast.rotate_keys("r")
        assert (report.sealed, report.left) == (3, [])
        assert holdfast.rotate_keys("r").sealed == 0
        fill(holdfast, 4)
    check(tmp_path, 1, 2, 3, 4)


@pytest.mark.slow
def test_batches_parts_and_segments_are_sealed_anew(tmp_path: Path) -> None:
    variables = {"HOLDFAST_MAX_CHECKPOINT_BYTES": "65536", "HOLDFAST_WRITE_MODE": "commit"}
    with opened(tmp_path, OLD, **variables) as holdfast:
        for number in range(1, 131):
            holdfast.save("r", {"n": number})
        holdfast.save("r", {"n": 131, "large": [number * 7919 for number in range(60_000)]})
        holdfast.drain()
    with opened(tmp_path, NEW, OLD, **variables) as holdfast:
        assert holdfast.rotate_keys("r").sealed == 131
    check(tmp_path, 1, 70, 130, 131, **variables)


@pytest.mark.slow
def test_batch_is_sealed_anew(tmp_path: Path) -> None:
    variables = {"HOLDFAST_LOW_BUDGET": "100000"}
    with opened(tmp_path, OLD, **variables) as holdfast:
        fill(holdfast, 1)
        fill(holdfast, 2, 3)
        assert holdfast.checkpoints("r").entries[-1].file_path == "checkpoints/r/batch_2_3.json"
    with opened(tmp_path, NEW, OLD) as holdfast:
        assert holdfast.rotate_keys("r").sealed == 3
    check(tmp_path, 1, 2, 3)


@pytest.mark.slow
def test_missing_key_leaves_a_checkpoint_as_it_is_and_says_why(tmp_path: Path) -> None:
    with opened(tmp_path, OLD) as holdfast:
        fill(holdfast, 1)
    with opened(tmp_path, NEW) as holdfast:
        fill(holdfast, 2)
        report = holdfast.rotate_keys("r")
    assert report.sealed == 0
    assert len(report.left) == 1
    assert OLD["kid"] in report.left[0]


@pytest.mark.slow
def test_signature_is_made_anew_and_what_is_not_signed_is_not_signed_for_others(tmp_path: Path) -> None:
    signing = {"HOLDFAST_SIGNING_KEY": json.dumps(SIGNING)}
    with opened(tmp_path, OLD, **signing) as holdfast:
        fill(holdfast, 1)
    with opened(tmp_path, NEW, OLD) as holdfast:
        assert "no key that signs" in holdfast.rotate_keys("r").left[0]
        fill(holdfast, 2)
    with opened(tmp_path, NEW, OLD, **signing) as holdfast:
        report = holdfast.rotate_keys("r")
        assert report.sealed == 1
        assert "not signed" in report.left[0]
        assert sorted(holdfast.signatures("r").values()) == ["missing", "valid"]
        assert holdfast.resume("r").state == {"n": 1}


@pytest.mark.slow
def test_cut_short_it_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.retention.rotation._COMMIT_BYTES", 1)
    with opened(tmp_path, OLD, HOLDFAST_WRITE_MODE="commit") as holdfast:
        for number in (1, 2, 3):
            fill(holdfast, number)
    with opened(tmp_path, NEW, OLD) as holdfast:
        gateway = holdfast._assembly.shards[0].rotator.committer.gateway
        perform, calls = type(gateway).perform, []

        def cut(self: Any, call: Any) -> Any:
            if isinstance(call, CommitFiles):
                calls.append(call)
                if len(calls) == 2:
                    raise Unavailable("", "cut")
            return perform(self, call)

        monkeypatch.setattr(type(gateway), "perform", cut)
        with pytest.raises(Unavailable):
            holdfast.rotate_keys("r")
        assert holdfast.validate("r").findings == []
        assert [holdfast.resume("r", at=number).state["n"] for number in (1, 2, 3)] == [1, 2, 3]
        assert holdfast.rotate_keys("r").sealed == 2
    check(tmp_path, 1, 2, 3)


@pytest.mark.slow
def test_last_of_the_budget_is_left_to_checkpoints(tmp_path: Path) -> None:
    with opened(tmp_path) as holdfast:
        fill(holdfast, 1, 2)
    with opened(tmp_path, NEW, HOLDFAST_LOW_BUDGET="1000000") as holdfast:
        holdfast.save("s", {})
        holdfast.drain()  # its answers tell how little is left
        with pytest.raises(Throttled, match="are for checkpoints"):
            holdfast.rotate_keys("r")
        holdfast.save("s", {})
        assert holdfast.drain().left == 0
    with opened(tmp_path, NEW) as holdfast:
        assert holdfast.rotate_keys("r").sealed == 2
    check(tmp_path, 1, 2)


@pytest.mark.slow
def test_other_writer_in_between_is_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(tmp_path, OLD) as holdfast:
        fill(holdfast, 1)
    with opened(tmp_path, NEW, OLD) as holdfast:
        committer = type(holdfast._assembly.shards[0].rotator.committer)
        commit, tries = committer.commit, []

        def conflict_once(self: Any, head_sha: str, change: Any) -> str:
            tries.append(head_sha)
            if len(tries) == 1:
                raise Conflict("checkpoints", "moved", kind="head_moved")
            return commit(self, head_sha, change)

        monkeypatch.setattr(committer, "commit", conflict_once)
        assert holdfast.rotate_keys("r").sealed == 1
    check(tmp_path, 1)


def test_run_that_is_not_stored_or_no_key_is_told(tmp_path: Path) -> None:
    with opened(tmp_path, NEW) as holdfast:
        fill(holdfast, 1)
        with pytest.raises(UnknownRun):
            holdfast.rotate_keys("other")
    with opened(tmp_path) as holdfast, pytest.raises(InvalidSettings, match="no key to seal with"):
        holdfast.rotate_keys("r")
