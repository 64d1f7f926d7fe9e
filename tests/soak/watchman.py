"""Looks at the branch after every request, and holds retention to what it must never do."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pygit2

from tests.soak.machines import BRANCH

COMPLETED = "completed"
OURS = ("cp_", "batch_", "index.json", "index_", "latest.json", "summary.json", "parts")


@dataclass(frozen=True)
class Standing:
    """Where a run stands: the newest checkpoint, which it would be resumed from, and what the index names."""

    number: int = 0
    status: str = ""
    indexed: frozenset[str] = frozenset()
    foreign: frozenset[str] = frozenset()
    is_archived: bool = False


@dataclass
class Watchman:
    """Sees every state that the branch ever has, and compares it with the one before."""

    repository: Path
    states: int = 0
    sweeps: int = 0
    failures: list[str] = field(default_factory=list)
    _head: str = ""
    _runs: dict[str, Standing] = field(default_factory=dict)
    _preserved: frozenset[str] = frozenset()
    _sound: dict[pygit2.Oid, Standing] = field(default_factory=dict)

    def look(self) -> None:
        """Check the branch if it has moved. Raises AssertionError."""
        git = pygit2.Repository(str(self.repository))
        if BRANCH not in git.branches.local:
            assert not self._head, "the branch is gone"
            return
        commit = git.branches.local[BRANCH].peel(pygit2.Commit)
        if str(commit.id) == self._head:
            return
        self._head = str(commit.id)
        self.states += 1
        self.sweeps += commit.message.startswith("Retention")
        self._compare(commit.tree, commit.message.strip().splitlines()[0])

    def _compare(self, tree: pygit2.Tree, message: str) -> None:
        base = next((entry for entry in tree if entry.name == "checkpoints"), None)
        entries = {str(entry.name): entry for entry in base} if isinstance(base, pygit2.Tree) else {}
        runs = {
            run_id: self._stand(run_id, folder, message)
            for run_id, folder in entries.items()
            if isinstance(folder, pygit2.Tree)
        }
        for run_id, before in self._runs.items():
            now = runs.get(run_id, Standing())
            where = f"{run_id} after {message!r}"
            assert before.foreign <= now.foreign, f"a file that Holdfast did not write is gone: {where}"
            if before.number and not now.number:
                assert now.is_archived, f"the newest checkpoint is gone: {where}"
                assert before.status == COMPLETED, f"what could be resumed is gone: {where}"
            assert now.number >= before.number or now.is_archived, f"the newest went back: {where}"
            if run_id in self._preserved:
                assert before.indexed <= now.indexed, f"a preserved run has lost something: {where}"
        self._runs = runs
        blob = entries.get("preserved_runs.json")
        self._preserved = frozenset(_parse(blob)) if isinstance(blob, pygit2.Blob) else frozenset()

    def _stand(self, run_id: str, folder: pygit2.Tree, message: str) -> Standing:
        if folder.id not in self._sound:
            self._sound[folder.id] = _examine(run_id, folder, f"{run_id} after {message!r}")
        return self._sound[folder.id]


def _examine(run_id: str, folder: pygit2.Tree, where: str) -> Standing:
    """Return where a run stands. Asserts that what its files refer to is there."""
    files = {str(entry.name): entry for entry in folder if isinstance(entry, pygit2.Blob)}
    known: list[Any] = [_parse(files["latest.json"])] if "latest.json" in files else []
    indexed = set()
    for entry in _parse(files["index.json"])["checkpoints"] if "index.json" in files else ():
        name = entry["file_path"].removeprefix(f"checkpoints/{run_id}/")
        assert name in files, f"the index names {name}, which is not there: {where}"
        found = {each["checkpoint_id"]: each for each in _checkpoints(files[name])}
        assert entry["checkpoint_id"] in found, f"{name} is not what the index says: {where}"
        known.append(found[entry["checkpoint_id"]])
        indexed.add(name)
    # A file that is not in the index yet is still being written, perhaps for the second time.
    for name in {*indexed, *({"latest.json"} & files.keys())}:
        for path in _parts(files[name]):
            part = path.removeprefix(f"checkpoints/{run_id}/")
            assert part in folder, f"a part of {name} is gone: {where}"
    newest = max(known, key=lambda checkpoint: checkpoint["sequence_number"], default=None)
    return Standing(
        number=newest["sequence_number"] if newest else 0,
        status=newest["status"] if newest else "",
        indexed=frozenset(indexed),
        foreign=frozenset(name for name in files if not name.startswith(OURS)),
        is_archived="summary.json" in files,
    )


def _checkpoints(blob: pygit2.Blob) -> list[Any]:
    file = _parse(blob)
    found: list[Any] = file.get("checkpoints", [file])
    return found


def _parts(blob: pygit2.Blob) -> Iterator[str]:
    for checkpoint in _checkpoints(blob):
        for place in checkpoint.get("parts", []):
            value = checkpoint
            for name in place:
                value = value[name]
            yield value["$part"]


def _parse(blob: pygit2.Blob) -> Any:
    return json.loads(blob.data)
