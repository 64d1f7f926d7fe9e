"""Looking into the repository as a stranger would: with git and the specification alone."""

import hashlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_branch(repository: Path, branch: str = "checkpoints", *within: str) -> dict[str, bytes]:
    """Return every file of a branch of a bare repository, or those `within` folders, read by git itself."""
    git = ["git", "--git-dir", str(repository)]
    command = [*git, "ls-tree", "-r", "-z", branch, "--", *within]
    listing = subprocess.run(command, check=True, capture_output=True).stdout
    entries = [line.split("\t", 1) for line in listing.decode().split("\0") if line]
    request = "".join(f"{entry.split()[2]}\n" for entry, _ in entries)
    answer = subprocess.run(
        [*git, "cat-file", "--batch"], input=request.encode(), check=True, capture_output=True
    ).stdout
    files = {}
    place = 0
    for _, path in entries:
        end = answer.index(b"\n", place)
        start, size = end + 1, int(answer[place:end].split()[2])
        files[path] = answer[start : start + size]
        place = start + size + 1
    return files


def files_of_run(files: Mapping[str, bytes], run_id: str) -> dict[str, Any]:
    """Return the files of a run, by name, parsed."""
    prefix = f"checkpoints/{run_id}/"
    return {
        path.removeprefix(prefix): json.loads(content)
        for path, content in files.items()
        if path.startswith(prefix)
    }


def check_files(files: Mapping[str, bytes], run_id: str) -> dict[int, str]:
    """Assert that index, files and latest of a run agree, and return the checkpoint ids by number.

    Every checkpoint is stored once, whole, under its own number, and indexed; the latest is the newest.
    """
    parsed = {
        name: file for name, file in files_of_run(files, run_id).items() if not name.startswith("parts/")
    }
    index, latest = parsed.pop("index.json"), parsed.pop("latest.json")
    entries = whole_index(files, run_id)
    # A segment that no index names is what an interrupted writer has left; a clean-up takes it.
    parsed = {name: file for name, file in parsed.items() if not name.startswith("index_")}
    found: dict[str, int] = {}
    for name, file in parsed.items():
        for checkpoint in file.get("checkpoints", [file]):
            _check_integrity(checkpoint)
            identity, number = checkpoint["checkpoint_id"], checkpoint["sequence_number"]
            assert identity not in found, f"{identity} is stored twice"
            assert name == f"cp_{number:03d}_{checkpoint['trigger']}.json" or name.startswith("batch_")
            found[identity] = number
    indexed = {entry["checkpoint_id"]: entry["sequence"] for entry in entries}
    assert indexed == found, "index and files differ"
    assert index["checkpoint_count"] == len(entries) == len(indexed)
    assert len(set(indexed.values())) == len(indexed), "a number is taken twice"
    paths = {entry["file_path"] for entry in entries}
    assert paths == {f"checkpoints/{run_id}/{name}" for name in parsed}
    assert latest["sequence_number"] == max(indexed.values()), "the latest is not the newest"
    _check_integrity(latest)
    return {number: identity for identity, number in indexed.items()}


def whole_index(files: Mapping[str, bytes], run_id: str) -> list[Any]:
    """Return the entries of the index of a run, those in segments first, after checking these."""
    index = json.loads(files[f"checkpoints/{run_id}/index.json"])
    entries = []
    for segment in index.get("segments", []):
        content = files[segment["file_path"]]
        assert hashlib.sha256(content).hexdigest() == segment["sha256"], "a segment has changed"
        closed = json.loads(content)["checkpoints"]
        numbers = [entry["sequence"] for entry in closed]
        assert (numbers[0], numbers[-1], len(numbers)) == (
            segment["first"],
            segment["last"],
            segment["count"],
        )
        entries += closed
    assert len(index["checkpoints"]) <= 100
    return [*entries, *index["checkpoints"]]


def _check_integrity(checkpoint: dict[str, Any]) -> None:
    rest = {name: value for name, value in checkpoint.items() if name != "integrity"}
    canonical = json.dumps(rest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert hashlib.sha256(canonical.encode()).hexdigest() == checkpoint["integrity"]["sha256"]
