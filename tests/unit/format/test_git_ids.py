"""Ids that git itself would give."""

import subprocess
from pathlib import Path

from holdfast.format.git_ids import blob_sha, tree_sha


def git(folder: Path, *arguments: str, given: bytes = b"") -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=True).stdout.decode().strip()


def test_file_has_the_id_that_git_gives(tmp_path: Path) -> None:
    content = b'{"a":1}\n'

    assert blob_sha(content) == git(tmp_path, "hash-object", "--stdin", given=content)


def test_folder_has_the_id_that_git_gives(tmp_path: Path) -> None:
    # Git sorts a folder as if its name ended in a slash: "parts/" comes after "parts.json".
    files = {"index.json": b"{}", "parts.json": b"1", "parts/é.json": b"2", "parts/deep/x": b"", "z": b"3"}
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")

    assert tree_sha({name: blob_sha(content) for name, content in files.items()}) == git(
        tmp_path, "write-tree"
    )
