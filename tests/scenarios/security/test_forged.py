"""What someone puts into the repository who may write there, but has no signing key, is not gone on from."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast.format.checkpoint import stamp
from holdfast.format.git_ids import blob_sha
from holdfast.security import jose
from tests.scenarios.security.test_signed import opened

PAIR, OTHER, SEAL = jose.make_signing_key(), jose.make_signing_key(), jose.make_shared_key()
LARGE = "large " * 500
BOTH_MODES = pytest.mark.parametrize("mode", ["contents", "commit"])


class Intruder:
    """A clone of the repository by someone who may push."""

    def __init__(self, folder: Path) -> None:
        self._bare = folder / "github" / "holdfast" / "checkpoints.git"
        self._clone = folder.parent / "clone"
        self._git("clone", "-q", "-b", "checkpoints", str(self._bare), str(self._clone), folder=folder)
        self.root = self._clone / "checkpoints"

    def read(self, path: str) -> Any:
        return json.loads((self.root / path).read_bytes())

    def push(self) -> None:
        author = ("-c", "user.name=i", "-c", "user.email=i@example.com")
        self._git("add", "-A", folder=self._clone)
        self._git(*author, "commit", "-qm", "nothing to see", folder=self._clone)
        self._git("push", "-q", folder=self._clone)

    def list_as(self, name: str, sequence: int, **changes: Any) -> None:
        """Have the index list a file as the checkpoint with this number."""
        index = self.read("r/index.json")
        content = (self.root / "r" / name).read_bytes()
        entry = dict(index["checkpoints"][-1])
        entry |= {"sequence": sequence, "file_path": f"checkpoints/r/{name}", "blob_sha": blob_sha(content)}
        index["checkpoints"].append(
            {**entry, "checkpoint_id": json.loads(content)["checkpoint_id"], **changes}
        )
        (self.root / "r" / "index.json").write_text(json.dumps(index))

    @staticmethod
    def _git(*words: str, folder: Path) -> None:
        subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def restamp(document: dict[str, Any], **changes: Any) -> bytes:
    body = {name: value for name, value in {**document, **changes}.items() if name != "integrity"}
    return stamp(json.dumps(body, separators=(",", ":")).encode()).content


def replay(intruder: Intruder) -> None:
    """An old checkpoint under a new number."""
    old = (intruder.root / "r" / "cp_001_manual.json").read_bytes()
    (intruder.root / "r" / "cp_003_manual.json").write_bytes(old)
    (intruder.root / "r" / "latest.json").write_bytes(old)
    intruder.list_as("cp_003_manual.json", 3, checkpoint_id="0b5e3c3e-5a5e-4b8e-9d8a-0d2f6d1f8f10")


def renumber(intruder: Intruder) -> None:
    """An old checkpoint that says itself that it is a new one, with its old signature."""
    document = intruder.read("r/cp_001_manual.json")
    content = json.loads(restamp(document, sequence_number=3))
    content["integrity"]["signature"] = document["integrity"]["signature"]
    for name in ("cp_003_manual.json", "latest.json"):
        (intruder.root / "r" / name).write_text(json.dumps(content, separators=(",", ":")))
    intruder.list_as("cp_003_manual.json", 3)


def swap_latest(intruder: Intruder) -> None:
    """An old checkpoint as the newest."""
    (intruder.root / "r" / "latest.json").write_bytes(
        (intruder.root / "r" / "cp_001_manual.json").read_bytes()
    )


def from_another_run(intruder: Intruder) -> None:
    """A good checkpoint of another run."""
    content = (intruder.root / "s" / "cp_001_manual.json").read_bytes()
    for name in ("cp_003_manual.json", "latest.json"):
        (intruder.root / "r" / name).write_bytes(content)
    intruder.list_as("cp_003_manual.json", 3)


def own_state(intruder: Intruder) -> None:
    """A state of their own, unsigned, in the place of the newest."""
    document = intruder.read("r/cp_002_manual.json")
    content = restamp(document, state_snapshot={"n": 666}, sequence_number=3)
    for name in ("cp_003_manual.json", "latest.json"):
        (intruder.root / "r" / name).write_bytes(content)
    intruder.list_as("cp_003_manual.json", 3)


def only_in_the_clear(intruder: Intruder) -> None:
    """A batch that holds the good ones, and one that is not signed."""
    good = (intruder.root / "r" / "cp_002_manual.json").read_text()
    bad = restamp(json.loads(good), state_snapshot={"n": 666}, sequence_number=3).decode()
    (intruder.root / "r" / "batch_2_3.json").write_text(f'{{"checkpoints":[{good},{bad}]}}')
    (intruder.root / "r" / "latest.json").write_text(bad)
    index = intruder.read("r/index.json")
    for entry in index["checkpoints"][1:]:
        entry["file_path"] = "checkpoints/r/batch_2_3.json"
    (intruder.root / "r" / "index.json").write_text(json.dumps(index))


ATTACKS = [replay, renumber, swap_latest, from_another_run, own_state, only_in_the_clear]


@BOTH_MODES
@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("attack", ATTACKS)
def test_forged_repository_is_not_gone_on_from(
    tmp_path: Path, mode: str, attack: Callable[[Intruder], None], *, sealed: bool
) -> None:
    folder = tmp_path / "data"
    variables = {"HOLDFAST_WRITE_MODE": mode}
    if sealed:
        variables["HOLDFAST_ENCRYPTION_KEY"] = json.dumps(SEAL)
    with opened(folder, PAIR, **variables) as holdfast:
        for number in (1, 2):
            holdfast.save("r", {"n": number})
            holdfast.drain()
        holdfast.save("s", {"n": 1000})
        holdfast.drain()
    intruder = Intruder(folder)
    attack(intruder)
    intruder.push()

    with opened(folder, PAIR, **variables) as holdfast:
        plan = holdfast.resume("r")
        assert plan.state == {"n": 2}
        assert plan.sequence_number == 2
        with pytest.raises(HoldfastError):
            holdfast.resume("r", at=3)


def swap_files(intruder: Intruder) -> None:
    """Two checkpoints of the run, each under the name of the other."""
    paths = [intruder.root / "r" / f"cp_00{number}_manual.json" for number in (1, 3)]
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, reversed(contents), strict=True):
        path.write_bytes(content)
    (intruder.root / "r" / "latest.json").write_bytes(contents[0])


def replace_newest(intruder: Intruder, **changes: Any) -> None:
    """The newest checkpoint with other content, every digest made anew."""
    content = restamp(intruder.read("r/cp_003_manual.json"), **changes)
    for name in ("cp_003_manual.json", "latest.json"):
        (intruder.root / "r" / name).write_bytes(content)
    index = intruder.read("r/index.json")
    index["checkpoints"][2]["blob_sha"] = blob_sha(content)
    (intruder.root / "r" / "index.json").write_text(json.dumps(index))


def replay_state(intruder: Intruder) -> None:
    """An old state in the newest checkpoint."""
    replace_newest(intruder, state_snapshot=intruder.read("r/cp_001_manual.json")["state_snapshot"])


def state_of_another_run(intruder: Intruder) -> None:
    """A state of another run in the newest checkpoint."""
    replace_newest(intruder, state_snapshot=intruder.read("s/cp_001_manual.json")["state_snapshot"])


def rename_run(intruder: Intruder) -> None:
    """A checkpoint of another run that says itself that it is one of this."""
    replace_newest(intruder, **{**intruder.read("s/cp_001_manual.json"), "run_id": "r", "sequence_number": 3})


def cut_token(intruder: Intruder) -> None:
    """The end of what is sealed is missing."""
    state = intruder.read("r/cp_003_manual.json")["state_snapshot"]
    replace_newest(intruder, state_snapshot={"$sealed": state["$sealed"][:-8]})


def cut_file(intruder: Intruder) -> None:
    """The end of the file is missing."""
    for name in ("cp_003_manual.json", "latest.json"):
        path = intruder.root / "r" / name
        path.write_bytes(path.read_bytes()[:-200])


@BOTH_MODES
@pytest.mark.parametrize(
    "attack", [swap_files, replay_state, state_of_another_run, rename_run, cut_token, cut_file]
)
def test_sealed_state_that_was_moved_or_cut_is_noticed_without_signatures(
    tmp_path: Path, mode: str, attack: Callable[[Intruder], None]
) -> None:
    folder = tmp_path / "data"
    variables = {"HOLDFAST_WRITE_MODE": mode, "HOLDFAST_ENCRYPTION_KEY": json.dumps(SEAL)}
    with opened(folder, None, **variables) as holdfast:
        for run_id, number in (("r", 1), ("r", 2), ("r", 3), ("s", 1000)):
            holdfast.save(run_id, {"n": number})
            holdfast.drain()
    intruder = Intruder(folder)
    attack(intruder)
    intruder.push()

    with opened(folder, None, **variables) as holdfast:
        plan = holdfast.resume("r")
        assert (plan.sequence_number, plan.state) == (2, {"n": 2})
        assert plan.warnings
        with pytest.raises(HoldfastError):
            holdfast.resume("r", at=3)
        assert any("cp_003" in finding.path for finding in holdfast.validate("r").findings)


@BOTH_MODES
def test_parts_that_were_swapped_are_noticed(tmp_path: Path, mode: str) -> None:
    folder = tmp_path / "data"
    variables = {"HOLDFAST_WRITE_MODE": mode, "HOLDFAST_MAX_CHECKPOINT_BYTES": "65536"}
    with opened(folder, PAIR, **variables) as holdfast:
        holdfast.save("r", {"n": 1})
        holdfast.save("r", {"n": 2, "a": "a" * 80_000, "b": "b" * 80_000})
        holdfast.drain()
    intruder = Intruder(folder)
    first, second = sorted((intruder.root / "r" / "parts").iterdir())[:2]
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    intruder.push()
    with opened(tmp_path / "elsewhere", PAIR, **variables) as holdfast:
        assert holdfast.runs() == []
    import shutil

    shutil.rmtree(folder / "targets")
    with opened(folder, PAIR, **variables) as holdfast:
        plan = holdfast.resume("r")
        assert plan.state == {"n": 1}
        assert any("part" in warning for warning in plan.warnings)
