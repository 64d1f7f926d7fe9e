"""What must be true in the end, seen with git: nothing lost, nothing doubled, everything in agreement."""

import copy
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pygit2

from holdfast.format.receipt import Progress
from holdfast.queue import Queue
from tests.fakes.repository import check_files, files_of_run, read_branch, whole_index
from tests.soak.machines import BRANCH


@dataclass(frozen=True)
class Acknowledged:
    """A checkpoint whose submitter got an answer, or perhaps only would have (`is_certain` is false).

    One that holds a secret `is_refused` by GitHub, and must be kept here.
    """

    machine: int
    run_id: str
    checkpoint_id: str
    state: Any
    is_automatic: bool = True
    is_certain: bool = True
    is_refused: bool = False

    @property
    def is_due(self) -> bool:
        """Whether it must be in the repository in the end."""
        return self.is_certain and not self.is_refused


def check_repository(repository: Path, acknowledged: Sequence[Acknowledged]) -> dict[str, Any]:
    """Assert that each acknowledged checkpoint is stored once and whole; return the index entries by id."""
    by_id = {each.checkpoint_id: each for each in acknowledged}
    entries: dict[str, Any] = {}
    if BRANCH not in pygit2.Repository(str(repository)).branches.local:
        assert not any(each.is_due for each in acknowledged), "there is not even a branch"
        return entries
    files = read_branch(repository, BRANCH)
    for run_id in {each.run_id for each in acknowledged}:
        parsed = files_of_run(files, run_id)
        if "index.json" not in parsed and not any(
            each.is_due for each in acknowledged if each.run_id == run_id
        ):
            continue
        assert parsed, f"nothing of {run_id} is stored"
        check_files(files, run_id)
        for checkpoint in _checkpoints(parsed):
            expected = by_id[checkpoint["checkpoint_id"]]
            assert (checkpoint["run_id"], _whole_state(checkpoint, parsed)) == (
                expected.run_id,
                expected.state,
            )
        entries |= {entry["checkpoint_id"]: entry for entry in whole_index(files, run_id)}
    for each in acknowledged:
        assert not each.is_due or each.checkpoint_id in entries, f"{each.checkpoint_id} is lost"
        assert not each.is_refused or each.checkpoint_id not in entries, f"{each.checkpoint_id} has leaked"
    return entries


def check_receipts(
    spools: Sequence[Queue], acknowledged: Sequence[Acknowledged], entries: dict[str, Any], repository: Path
) -> None:
    """Assert that every machine's receipts say what the index says, and that its spool is empty."""
    git = pygit2.Repository(str(repository))
    for spool in spools:
        status = spool.status(now=0)
        assert (status.depth, status.lost) == (0, 0), f"left in a spool: {status}"
    for each in acknowledged:
        receipt = spools[each.machine].receipt(each.checkpoint_id)
        assert receipt or not each.is_certain, f"{each.checkpoint_id} is unknown to machine {each.machine}"
        if receipt is None:
            continue
        assert spools[each.machine].is_kept_aside(each.checkpoint_id) == each.is_refused, f"{receipt}"
        if each.is_refused:
            continue
        entry = entries[each.checkpoint_id]
        said = (receipt.status, receipt.sequence_number, receipt.file_path)
        assert said == (Progress.VERIFIED, entry["sequence"], entry["file_path"]), f"receipt differs: {said}"
        assert receipt.commit_sha
        tree = git[receipt.commit_sha].peel(pygit2.Tree)
        assert receipt.file_path in tree, f"{receipt.file_path} is not in the commit of its receipt"


def check_order(acknowledged: Sequence[Acknowledged], entries: dict[str, Any]) -> None:
    """Assert that what a machine numbered itself has kept its order, as far as it was submitted just once."""
    times = Counter(each.checkpoint_id for each in acknowledged)
    numbers: dict[tuple[int, str], list[int]] = {}
    for each in acknowledged:
        if each.is_automatic and each.is_due and times[each.checkpoint_id] == 1:
            of_run = numbers.setdefault((each.machine, each.run_id), [])
            of_run.append(entries[each.checkpoint_id]["sequence"])
    for (machine, run_id), found in numbers.items():
        assert found == sorted(found), f"machine {machine} has lost the order of {run_id}: {found}"


def check_history(repository: Path) -> int:
    """Assert for every commit that no index names what is not there and no latest goes back; count them."""
    git = pygit2.Repository(str(repository))
    if BRANCH not in git.branches.local:
        return 0
    walker = git.walk(
        git.branches.local[BRANCH].target, pygit2.enums.SortMode.TOPOLOGICAL | pygit2.enums.SortMode.REVERSE
    )
    walker.simplify_first_parent()
    sound: set[pygit2.Oid] = set()
    newest: dict[str, int] = {}
    count = 0
    for commit in walker:
        count += 1
        for run_id, folder in _run_folders(commit.tree):
            if folder.id not in sound:
                _check_folder(git, run_id, folder, f"{str(commit.id)[:8]} ({commit.message.strip()!r})")
                sound.add(folder.id)
            number = _latest_number(folder)
            assert number >= newest.get(run_id, 0), f"the latest of {run_id} goes back in {commit.id}"
            newest[run_id] = number
    return count


def _run_folders(tree: pygit2.Tree) -> Iterator[tuple[str, pygit2.Tree]]:
    if "checkpoints" in tree:
        base = tree["checkpoints"]
        assert isinstance(base, pygit2.Tree)
        for folder in base:
            assert isinstance(folder, pygit2.Tree)
            yield str(folder.name), folder


def _check_folder(git: pygit2.Repository, run_id: str, folder: pygit2.Tree, commit: str) -> None:
    if "index.json" not in folder:
        return
    index = _parse(folder, "index.json")
    closed = [segment["file_path"].rpartition("/")[2] for segment in index.get("segments", [])]
    for entry in [each for name in ("index.json", *closed) for each in _parse(folder, name)["checkpoints"]]:
        name = entry["file_path"].removeprefix(f"checkpoints/{run_id}/")
        assert name in folder, f"in {commit} the index names {name}, which is not there"
        file = _parse(folder, name)
        found = {each["checkpoint_id"]: each["sequence_number"] for each in file.get("checkpoints", [file])}
        identity = entry["checkpoint_id"]
        assert found.get(identity) == entry["sequence"], f"in {commit} {name} is not what the index says"


def _latest_number(folder: pygit2.Tree) -> int:
    return int(_parse(folder, "latest.json")["sequence_number"]) if "latest.json" in folder else 0


def _parse(folder: pygit2.Tree, name: str) -> Any:
    blob = folder[name]
    assert isinstance(blob, pygit2.Blob)
    return json.loads(blob.data)


def _checkpoints(parsed: dict[str, Any]) -> Iterator[Any]:
    for name, file in parsed.items():
        if not name.startswith(("index", "parts/")):
            yield from file.get("checkpoints", [file])


def _whole_state(checkpoint: dict[str, Any], parsed: dict[str, Any]) -> Any:
    """Return the state with its parts in their places; none of them may be missing."""
    whole = copy.deepcopy(checkpoint)
    for *folders, last in whole.get("parts", []):
        place = whole
        for name in folders:
            place = place[name]
        path = place[last]["$part"]
        place[last] = parsed[path.removeprefix(f"checkpoints/{whole['run_id']}/")]
    return whole["state_snapshot"]
