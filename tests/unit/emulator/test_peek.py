"""What shows of a repository without a server is what the server says, or nothing."""

import subprocess
import zlib
from pathlib import Path

import pytest

from holdfast.emulator.peek import peek_folder, peek_head
from holdfast.emulator.repository import GitRepository

NAME = "acme/state"


def git(folder: Path, *words: str, stdin: str = "") -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    command = ["git", *identity, "-C", str(folder), *words]
    return subprocess.run(command, input=stdin, capture_output=True, check=True, text=True).stdout.strip()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    GitRepository.create(tmp_path / f"{NAME}.git").close()
    return tmp_path


def commit(root: Path, *paths: str) -> str:
    """Commit files with these paths on the branch `state`, each with its path as its content."""
    folder = root / f"{NAME}.git"
    for path in paths:
        blob = git(folder, "hash-object", "-w", "--stdin", stdin=path)
        git(folder, "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}")
    sha = git(folder, "commit-tree", "-m", "m", git(folder, "write-tree"))
    git(folder, "update-ref", "refs/heads/state", sha)
    return sha


def test_the_head_and_the_files_of_a_folder_show(root: Path) -> None:
    # A name that looks like an entry of its own must not mislead anyone.
    paths = (
        "base/run-1/a.json",
        "base/run-1/b c.json",
        "base/run-1/parts/e",
        "base/x40000 run-2",
        "base/run-3/d",
    )
    sha = commit(root, *paths)

    assert peek_head(root, NAME, "state") == sha
    found = peek_folder(root, NAME, sha, "base/run-1")
    assert found is not None
    assert set(found) == {"a.json", "b c.json"}
    assert git(root / f"{NAME}.git", "cat-file", "blob", found["a.json"]) == "base/run-1/a.json"


@pytest.mark.slow
@pytest.mark.parametrize("path", ["base/run-2", "base/run-1/a.json", "base/run", "other", "base/run-1/x/y"])
def test_a_folder_that_is_not_there_is_empty(root: Path, path: str) -> None:
    sha = commit(root, "base/run-1/a.json", "base/x40000 run-2")

    assert peek_folder(root, NAME, sha, path) == {}


def test_what_is_packed_or_missing_does_not_show(root: Path) -> None:
    assert peek_head(root, NAME, "state") is None
    assert peek_head(root / "nowhere", NAME, "state") is None
    sha = commit(root, "base/run-1/a.json")
    git(root / f"{NAME}.git", "gc", "--quiet")

    assert peek_head(root, NAME, "state") is None
    assert peek_folder(root, NAME, sha, "base/run-1") is None
    assert peek_folder(root, NAME, sha, "base/other") is None


@pytest.mark.parametrize(
    "content", [b"", zlib.compress(b"x"), zlib.compress(b"blob 1\0x"), zlib.compress(b"tree 9\x0040000 a\0x")]
)
def test_a_damaged_object_or_ref_does_not_show(root: Path, content: bytes) -> None:
    sha = commit(root, "base/run-1/a.json")
    folder = root / f"{NAME}.git"
    tree = git(folder, "rev-parse", f"{sha}:base")
    (folder / "objects" / tree[:2] / tree[2:]).chmod(0o644)
    (folder / "objects" / tree[:2] / tree[2:]).write_bytes(content)
    (folder / "refs" / "heads" / "odd").write_text("ref: refs/heads/state\n")

    assert peek_folder(root, NAME, sha, "base/run-1") is None
    assert peek_head(root, NAME, "odd") is None
