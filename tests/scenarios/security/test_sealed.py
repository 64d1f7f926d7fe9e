"""Sealed states: nowhere outside of the calling process in the clear, in every way that a checkpoint goes."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.errors import CheckpointChanged, IntegrityFailure, KeyMissing
from holdfast.security import jose
from holdfast.settings import Settings
from tests.fakes.credentials import MAKERS, Forger
from tests.fakes.traces import find_traces

CANARY = "the canary that must not sing 4711"
ID = "0b5e3c3e-5a5e-4b8e-9d8a-0d2f6d1f8f10"
KEY, OTHER, PAIR = jose.make_shared_key(), jose.make_shared_key(), jose.make_recipient_key()
BOTH_MODES = pytest.mark.parametrize("mode", ["contents", "commit"])


@contextmanager
def opened(
    folder: Path, *keys: dict[str, str], mode: str = "contents", **variables: str
) -> Iterator[Holdfast]:
    environment = {"HOLDFAST_DATA_DIR": str(folder), "HOLDFAST_WRITE_MODE": mode, **variables}
    if keys:
        environment["HOLDFAST_ENCRYPTION_KEY"] = "\n".join(map(json.dumps, keys))
    with closing(Holdfast(Settings.from_environment(environment))) as holdfast:
        yield holdfast


def forget_here(folder: Path) -> None:
    """Let the next process know nothing but what GitHub holds."""
    import shutil

    shutil.rmtree(folder / "targets")


@BOTH_MODES
def test_canary_is_nowhere_outside_of_the_process(
    tmp_path: Path, mode: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path, KEY, mode=mode, HOLDFAST_LOG_LEVEL="debug") as holdfast:
        holdfast.save("r", {"secret": CANARY}, context={"note": CANARY}, checkpoint_id=ID)
        holdfast.submit({"run_id": "r", "trigger": "manual", "state": [], "mine": CANARY})
        large = {"rows": [f"{number} {CANARY}" for number in range(480_000)]}  # 20 MB
        holdfast.save("large", large)
        assert find_traces(tmp_path, CANARY) == []
        holdfast.export_spool(tmp_path / "export")
        assert holdfast.drain().verified == 3
        assert holdfast.resume("large").state == large
        assert holdfast.resume("r", at=1).state == {"secret": CANARY}
    assert find_traces(tmp_path, CANARY) == []
    assert CANARY not in "".join(capfd.readouterr())


@BOTH_MODES
def test_everything_that_reads_opens_it(tmp_path: Path, mode: str) -> None:
    with opened(tmp_path, KEY, mode=mode) as holdfast:
        with holdfast.run("r", style="steps") as run, run.step("one") as step:
            step.capture(version="1.2")
        holdfast.save("r", {"n": 1})
        holdfast.drain()
        forget = holdfast.checkpoints("r").entries[-1].sequence
        holdfast.save("r", {"n": 2})
        assert holdfast.resume("r").state == {"n": 2}
        assert json.loads(holdfast.checkpoint("r").content)["state_snapshot"] == {"n": 2}
        assert "$sealed" not in str(holdfast.diff("r", forget, forget + 1))
        assert len(holdfast._assembly.shards[0].reader.history("r").envelopes) == forget + 1
        assert holdfast.validate("r").findings == []
        holdfast.complete("r", keep=True)
        assert holdfast.resume("r").state == {"n": 2}


@BOTH_MODES
@pytest.mark.parametrize("keys", [(), (OTHER,), (jose.public_half(PAIR),)])
def test_without_the_key_states_stay_closed_and_all_else_works(
    tmp_path: Path, mode: str, keys: tuple[dict[str, str], ...]
) -> None:
    with opened(tmp_path, KEY, mode=mode) as holdfast:
        holdfast.save("r", {"n": 1})
        holdfast.drain()
        holdfast.save("r", {"n": 2})
    with opened(tmp_path, *keys, mode=mode) as holdfast:
        for read in (holdfast.resume, holdfast.checkpoint, holdfast.replay, holdfast.complete):
            with pytest.raises(KeyMissing, match=f"sealed with key {KEY['kid']}, which is not here"):
                read("r")
        assert [entry.sequence for entry in holdfast.checkpoints("r").entries] == [1, 2]
        assert holdfast.runs()[0].checkpoint_count == 2
        assert holdfast.validate("r").findings == []
        assert holdfast.drain().verified == 1
        holdfast.save("r", {"n": 3})
        assert holdfast.drain().verified == 1
        assert len(holdfast.checkpoints("r").entries) == 3
        holdfast.cleanup()
        holdfast.preserve("r")
        assert holdfast.stats("r").checkpoints.total == 3
        assert holdfast.squash_history().commits_after == 1
        assert holdfast.validate("r").findings == []
    with opened(tmp_path, KEY, mode=mode) as holdfast:
        assert holdfast.resume("r", at=2).state == {"n": 2}


def test_rotated_in_keys_read_what_was_there(tmp_path: Path) -> None:
    with opened(tmp_path) as holdfast:
        holdfast.save("r", {"n": 1})
        holdfast.drain()
    with opened(tmp_path, OTHER) as holdfast:
        holdfast.save("r", {"n": 2})
        holdfast.drain()
    forget_here(tmp_path)
    with opened(tmp_path, KEY, OTHER) as holdfast:
        holdfast.save("r", {"n": 3})
        holdfast.drain()
        assert [holdfast.resume("r", at=number).state["n"] for number in (1, 2, 3)] == [1, 2, 3]


def test_recipient_writes_and_only_the_holder_of_the_pair_reads(tmp_path: Path) -> None:
    with opened(tmp_path, jose.public_half(PAIR)) as holdfast:
        first = holdfast.save("r", {"n": CANARY}, checkpoint_id=ID)
        assert holdfast.save("r", {"n": CANARY}, checkpoint_id=ID) == first
        with pytest.raises(CheckpointChanged):
            holdfast.save("r", {"n": "other"}, checkpoint_id=ID)
        with pytest.raises(KeyMissing, match="a writer that cannot read"):
            holdfast.resume("r")
        holdfast.drain()
    assert find_traces(tmp_path, CANARY) == []
    with opened(tmp_path, PAIR) as holdfast:
        assert holdfast.resume("r").state == {"n": CANARY}


def test_same_checkpoint_again_is_answered_as_the_first_time(tmp_path: Path) -> None:
    with opened(tmp_path, KEY) as holdfast:
        first = holdfast.save("r", {"n": 1}, checkpoint_id=ID)
        assert holdfast.save("r", {"n": 1}, checkpoint_id=ID) == first
        with pytest.raises(CheckpointChanged):
            holdfast.save("r", {"n": 2}, checkpoint_id=ID)
        holdfast.drain()
        assert holdfast.save("r", {"n": 1}, checkpoint_id=ID).status == "verified"


@pytest.mark.parametrize("keys", [(), (KEY,)])
def test_export_and_import_carry_it_sealed(tmp_path: Path, keys: tuple[dict[str, str], ...]) -> None:
    with opened(tmp_path / "a", KEY) as holdfast:
        holdfast.save("r", {"n": CANARY}, checkpoint_id=ID)
        holdfast.save("r", {"n": 2})
        holdfast.export_spool(tmp_path / "export")
        assert len(holdfast.import_spool(tmp_path / "export").known) == 2
    with opened(tmp_path / "b", *keys) as holdfast:
        assert len(holdfast.import_spool(tmp_path / "export").taken) == 2
        assert len(holdfast.import_spool(tmp_path / "export").known) == 2
        holdfast.drain()
    assert find_traces(tmp_path, CANARY) == []
    with opened(tmp_path / "b", KEY) as holdfast:
        assert holdfast.resume("r", at=1).state == {"n": CANARY}


def test_tampered_state_in_the_spool_is_passed_over(tmp_path: Path) -> None:
    with opened(tmp_path, KEY) as holdfast:
        holdfast.save("r", {"n": 1})
        spool = holdfast._assembly.spool
        holdfast.save("r", {"n": 2})
        newest = max(spool.pending(), key=lambda item: item.sequence)
        body: dict[str, Any] = json.loads(spool.read(newest))
        body["state_snapshot"] = {"$sealed": body["state_snapshot"]["$sealed"][:-4] + "AAAA"}
        spool.renumber(newest, newest.sequence, json.dumps(body, separators=(",", ":")).encode())
        plan = holdfast.resume("r")
        assert plan.state == {"n": 1}
        assert any("not what was sealed" in warning for warning in plan.warnings)
        holdfast.drain()
        assert holdfast.resume("r").state == {"n": 1}
        with pytest.raises(IntegrityFailure, match="not what was sealed"):
            holdfast.resume("r", at=2)
        assert len(holdfast.validate("r").findings) > 0


@BOTH_MODES
def test_local_copies_in_the_clear_go_when_a_key_is_set(tmp_path: Path, mode: str) -> None:
    with opened(tmp_path, mode=mode) as holdfast:
        holdfast.save("r", {"secret": CANARY})
        holdfast.drain()
        holdfast.save("r", {"secret": CANARY, "n": 2})
        holdfast.drain()
    assert find_traces(tmp_path / "targets", CANARY)
    with opened(tmp_path, KEY, mode=mode) as holdfast:
        assert holdfast.resume("r", at=1).state == {"secret": CANARY}
        holdfast.rotate_keys("r")
        assert holdfast.resume("r", at=1).state == {"secret": CANARY}
    assert find_traces(tmp_path / "targets", CANARY) == []
    with opened(tmp_path, mode=mode) as holdfast:
        assert holdfast.checkpoints("r").entries
    with opened(tmp_path, OTHER, KEY, mode=mode) as holdfast:
        holdfast.rotate_keys("r")
        assert holdfast.resume("r").state == {"secret": CANARY, "n": 2}
    assert find_traces(tmp_path / "targets" / "cache", CANARY) == []


def test_local_copy_is_for_its_owner_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as holdfast:
        holdfast.save("r", {})
        holdfast.drain()
        files = [path for path in tmp_path.glob("targets/*/cache/*") if path.is_file()]
        assert files
        assert [oct(path.stat().st_mode & 0o777) for path in files] == ["0o600"] * len(files)


@BOTH_MODES
def test_what_stays_readable_holds_no_credential_and_no_word_of_the_caller(tmp_path: Path, mode: str) -> None:
    token = MAKERS["github-token"][0](Forger())
    with opened(tmp_path, KEY, mode=mode, HOLDFAST_REDACT="known") as holdfast:
        holdfast.submit(
            {
                "run_id": "r",
                "trigger": "manual",
                "phase": f"phase {token}",
                "workflow": f"https://x:{token}@host/w.yml",
                "state": {CANARY: {"key": token}},
                "forked_from": {"whom": CANARY},
                "retention": CANARY,
                token: token,
            }
        )
        holdfast.drain()
        (warning,) = [each for each in holdfast.resume("r").warnings if CANARY in each]
        assert f"/state_snapshot/{CANARY}/key" in warning
    assert find_traces(tmp_path, CANARY, token) == []
