"""A folder in the specification's own format is read, listed, checked, continued and cleaned up as it is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pygit2
import pytest

from holdfast import Holdfast
from holdfast.settings import Settings

RUN = "3f2b8c1e-5d4a-4b6f-9c0d-1e2f3a4b5c6d"


def checkpoint(number: int, trigger: str, phase: str) -> dict[str, Any]:
    """A checkpoint with the members of the specification's own code, in their order."""
    return {
        "checkpoint_id": f"00000000-0000-4000-8000-{number:012d}",
        "run_id": RUN,
        "timestamp": f"2025-12-05T10:0{number}:00.000Z",
        "trigger": trigger,
        "phase": phase,
        "sequence_number": number,
        "state_snapshot": {
            "phase_outputs": {"phase_0": {"idea": 1.50}, "phase_0_5": None},
            "current_phase_state": {
                "phase": phase,
                "started_at": "…",
                "progress": {},
                "partial_output": None,
            },
            "gate_history": [{"gate_id": "phase_0", "decision": "pass", "score": 0.9, "iteration": 1}],
            "circuit_breaker_state": {},
            "cost_accumulated": 12.50,
            "health_history": [],
            "errors_encountered": [],
            "active_lessons": [],
        },
        "context_fields": {"api_metrics": {}, "fallback_flags": {}, "iteration_counts": {}, "warnings": []},
    }


CHECKPOINTS = [
    checkpoint(1, "phase_complete", "phase_0_intake"),
    checkpoint(2, "gate_decision", "phase_0_intake"),
    checkpoint(3, "manual", "phase_1_plan"),
]


def name_of(document: dict[str, Any]) -> str:
    return f"cp_{document['sequence_number']:03d}_{document['trigger']}.json"


def stored_files() -> dict[str, bytes]:
    files = {name_of(each): json.dumps(each).encode() for each in CHECKPOINTS}
    index = {
        "run_id": RUN,
        "checkpoint_count": len(CHECKPOINTS),
        "checkpoints": [
            {
                "sequence": each["sequence_number"],
                "checkpoint_id": each["checkpoint_id"],
                "trigger": each["trigger"],
                "timestamp": each["timestamp"],
                "file_path": f"/checkpoints/{RUN}/{name_of(each)}",
            }
            for each in CHECKPOINTS
        ],
        "last_updated": "2025-12-05T10:03:00.000Z",
    }
    files["latest.json"] = files[name_of(CHECKPOINTS[-1])]
    files["index.json"] = json.dumps(index, indent=2).encode()
    return files


class Repository:
    """The embedded GitHub's own git repository, as another program sees it."""

    def __init__(self, data_dir: Path) -> None:
        (path,) = (data_dir / "github").rglob("*.git")
        self._git = pygit2.Repository(str(path))

    def add(self, files: dict[str, bytes]) -> None:
        head = self._git.branches["checkpoints"]
        top: Any = head.peel(pygit2.Commit).tree
        folder = self._git.TreeBuilder()
        for name, content in files.items():
            folder.insert(name, self._git.create_blob(content), pygit2.enums.FileMode.BLOB)
        base = self._git.TreeBuilder(top["checkpoints"])
        base.insert(RUN, folder.write(), pygit2.enums.FileMode.TREE)
        root = self._git.TreeBuilder(top)
        root.insert("checkpoints", base.write(), pygit2.enums.FileMode.TREE)
        someone = pygit2.Signature("Someone", "someone@example.com", 1, 0)
        message, parents = "Checkpoints of another program", [head.target]
        self._git.create_commit("refs/heads/checkpoints", someone, someone, message, root.write(), parents)

    def files(self) -> dict[str, bytes]:
        git: Any = self._git
        top = git.branches["checkpoints"].peel(pygit2.Commit).tree
        return {entry.name or "": git[entry.id].data for entry in top["checkpoints"][RUN]}


@pytest.fixture(params=["contents", "commit"])
def hf(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Holdfast]:
    given = {"data_dir": tmp_path, "min_free_bytes": 0, "write_mode": request.param}
    with Holdfast(Settings.from_environment({}, given)) as holdfast:
        holdfast.preserve("someone-else")  # so that there is a branch
        yield holdfast


@pytest.mark.parametrize("lacking", [(), ("index.json",), ("latest.json",)])
def test_what_another_program_wrote_is_continued_and_not_touched(
    hf: Holdfast, tmp_path: Path, lacking: tuple[str, ...]
) -> None:
    before = {name: content for name, content in stored_files().items() if name not in lacking}
    Repository(tmp_path).add(before)

    assert [run.run_id for run in hf.runs()] == [RUN]
    assert [entry.sequence for entry in hf.checkpoints(RUN).entries] == [1, 2, 3]
    plan = hf.resume(RUN)
    assert (plan.sequence_number, plan.resume_at, plan.completed) == (3, "phase_1_plan", ["phase_0"])
    assert b'"cost_accumulated":12.5' in plan.to_bytes()
    assert hf.checkpoint(RUN, CHECKPOINTS[0]["checkpoint_id"]).sequence == 1
    if not lacking:
        assert hf.validate(RUN).is_valid

    for number in (4, 5):
        assert hf.save(RUN, {"n": number}, phase="phase_1_plan").sequence_number in (1, number)
        assert hf.drain().left == 0

    after = Repository(tmp_path).files()
    own = [name for name in before if name.startswith("cp_")]
    assert {name: after[name] for name in own} == {name: before[name] for name in own}
    assert [entry.sequence for entry in hf.checkpoints(RUN).entries] == [1, 2, 3, 4, 5]
    assert hf.resume(RUN).state == {"n": 5}
    assert hf.validate(RUN).findings == []
    hf.cleanup()
    assert Repository(tmp_path).files().keys() == after.keys()


def test_of_a_run_with_nothing_but_its_latest_no_number_is_given_twice(hf: Holdfast, tmp_path: Path) -> None:
    Repository(tmp_path).add({"latest.json": stored_files()["latest.json"]})

    hf.save(RUN, {"n": 4})
    hf.drain()

    assert [entry.sequence for entry in hf.checkpoints(RUN).entries] == [3, 4]
    assert hf.checkpoint(RUN, 3).checkpoint_id == CHECKPOINTS[2]["checkpoint_id"]


def test_an_old_run_in_the_specifications_format_is_trimmed_to_its_latest(tmp_path: Path) -> None:
    given = {"data_dir": tmp_path, "min_free_bytes": 0, "keep_full_runs": 0}
    with Holdfast(Settings.from_environment({}, given)) as hf:
        hf.preserve("someone-else")
        Repository(tmp_path).add(stored_files())

        report = hf.cleanup()

        assert [(run.run_id, run.action.value) for run in report.done] == [(RUN, "trim")]
        assert Repository(tmp_path).files() == {"latest.json": stored_files()["latest.json"]}
        assert hf.resume(RUN).sequence_number == 3


def test_a_batch_that_another_program_wrote_is_continued_and_not_touched(
    hf: Holdfast, tmp_path: Path
) -> None:
    before = stored_files()
    batched = CHECKPOINTS[1:]
    for each in batched:
        del before[name_of(each)]
    index = json.loads(before["index.json"])
    for entry in index["checkpoints"][1:]:
        entry["file_path"] = f"/checkpoints/{RUN}/batch_2_3.json"
    before["index.json"] = json.dumps(index).encode()
    metadata = {"first_sequence": 2, "last_sequence": 3, "checkpoint_count": 2}
    before["batch_2_3.json"] = json.dumps({"checkpoints": batched, "batch_metadata": metadata}).encode()
    Repository(tmp_path).add(before)

    assert [hf.checkpoint(RUN, number).sequence for number in (1, 2, 3)] == [1, 2, 3]
    assert hf.save(RUN, {"n": 4}, phase="phase_1_plan").sequence_number in (1, 4)
    assert hf.drain().left == 0

    after = Repository(tmp_path).files()
    own = [name for name in before if name.startswith(("cp_", "batch_"))]
    assert {name: after[name] for name in own} == {name: before[name] for name in own}
    assert [entry.sequence for entry in hf.checkpoints(RUN).entries] == [1, 2, 3, 4]
    assert hf.checkpoint(RUN, 3).checkpoint_id == batched[-1]["checkpoint_id"]
    assert hf.validate(RUN).findings == []
