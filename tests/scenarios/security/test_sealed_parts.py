"""Members of a sealed state that do not change are stored once, and tell nothing to who has no key."""

import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.errors import KeyMissing
from holdfast.security import jose
from holdfast.settings import Settings
from tests.fakes.traces import find_traces

CANARY = "the canary that must not sing 4711"
KEY, NEWER, PAIR = jose.make_shared_key(), jose.make_shared_key(), jose.make_recipient_key()
# What packing makes no smaller than a part must be.
NOISE = [random.Random(number).randbytes(60_000).hex() for number in (1, 2)]
BOTH_MODES = pytest.mark.parametrize("mode", ["contents", "commit"])


def state(number: int) -> dict[str, Any]:
    return {"plan": CANARY + NOISE[0], "outputs": {"one": [f"{number} {CANARY}"], "two": NOISE[1]}}


@contextmanager
def opened(folder: Path, *keys: dict[str, str], mode: str, **variables: str) -> Iterator[Holdfast]:
    environment = {"HOLDFAST_DATA_DIR": str(folder), "HOLDFAST_WRITE_MODE": mode, **variables}
    environment |= {"HOLDFAST_INCREMENTAL": "on", "HOLDFAST_LOW_BUDGET": "0"}
    if keys:
        environment["HOLDFAST_ENCRYPTION_KEY"] = "\n".join(map(json.dumps, keys))
    with closing(Holdfast(Settings.from_environment(environment))) as holdfast:
        yield holdfast


def git(folder: Path, *words: str) -> bytes:
    command = ["git", "--git-dir", str(folder / "github" / "holdfast" / "checkpoints.git"), *words]
    return subprocess.run(command, check=True, capture_output=True).stdout


def parts_of(folder: Path, run_id: str) -> set[str]:
    path = f"checkpoints/{run_id}/parts/"
    listed = git(folder, "ls-tree", "-r", "--name-only", "checkpoints", path).decode().split()
    return {name.rpartition("/")[2] for name in listed}


def fill(folder: Path, run_id: str, *numbers: int, mode: str) -> None:
    for number in numbers:
        with opened(folder, KEY, mode=mode) as holdfast:
            holdfast.save(run_id, state(number))
        with opened(folder, mode=mode) as holdfast:  # who drains needs no key
            assert holdfast.drain().verified == 1


def check(
    folder: Path, run_id: str, *numbers: int, mode: str, keys: tuple[dict[str, str], ...] = (KEY,)
) -> None:
    shutil.rmtree(folder / "targets")
    with opened(folder, *keys, mode=mode) as holdfast:
        found = {at: holdfast.resume(run_id, at=at).state for at in numbers}
        assert found == {at: state(at) for at in numbers}
        assert holdfast.validate(run_id).findings == []
        assert holdfast.diff(run_id, numbers[-2], numbers[-1]).changes
    assert find_traces(folder, CANARY) == []


@BOTH_MODES
def test_unchanged_members_are_stored_once_and_every_state_comes_back(tmp_path: Path, mode: str) -> None:
    fill(tmp_path, "r", 1, 2, 3, 4, mode=mode)
    fill(tmp_path, "s", 1, 2, mode=mode)

    assert len(parts_of(tmp_path, "r")) == 2
    assert parts_of(tmp_path, "r").isdisjoint(parts_of(tmp_path, "s"))
    newest = git(tmp_path, "show", "checkpoints:checkpoints/r/latest.json")
    assert len(newest) < 8000
    with opened(tmp_path, mode=mode) as holdfast:
        assert holdfast.validate("r").findings == []
        with pytest.raises(KeyMissing):
            holdfast.resume("r")
    check(tmp_path, "r", 1, 2, 3, 4, mode=mode)


@BOTH_MODES
def test_retention_without_a_key_leaves_no_orphan_and_breaks_nothing(tmp_path: Path, mode: str) -> None:
    fill(tmp_path, "r", 1, 2, 3, mode=mode)
    with opened(tmp_path, KEY, mode=mode) as holdfast:
        for _ in range(3):
            holdfast.save("r", {"n": 1})
            holdfast.drain()
    with opened(tmp_path, mode=mode, HOLDFAST_KEEP_CHECKPOINTS="2") as holdfast:
        holdfast.cleanup()
    assert parts_of(tmp_path, "r") == set()
    with opened(tmp_path, KEY, mode=mode) as holdfast:
        assert holdfast.resume("r").state == {"n": 1}


@BOTH_MODES
def test_rotation_keeps_members_that_did_not_change_once(tmp_path: Path, mode: str) -> None:
    fill(tmp_path, "r", 1, 2, 3, 4, mode=mode)
    before = parts_of(tmp_path, "r")
    with opened(tmp_path, NEWER, KEY, mode=mode) as holdfast:
        assert holdfast.rotate_keys("r").sealed == 4
        holdfast.cleanup()
    after = parts_of(tmp_path, "r")
    assert len(after) == 2
    assert before.isdisjoint(after)
    check(tmp_path, "r", 1, 2, 3, 4, mode=mode, keys=(NEWER,))


def test_recipient_seals_states_as_a_whole(tmp_path: Path) -> None:
    public = jose.public_half(PAIR)
    for number in (1, 2, 3):
        with opened(tmp_path, public, mode="commit") as holdfast:
            holdfast.save("r", state(number))
            holdfast.drain()
    assert parts_of(tmp_path, "r") == set()
    check(tmp_path, "r", 1, 2, 3, mode="commit", keys=(PAIR,))
