"""A field of the user's own survives the whole way, whatever it is called."""

import json
import subprocess
from pathlib import Path

import pytest

from .conftest import Holdfast

NESTED = [{"checkpoint_id": "not-one", "sequence_number": 9}]


def git(repository: Path, *arguments: str, stdin: str = "") -> str:
    command = ["git", "--git-dir", str(repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, input=stdin).stdout.strip()


def lose_index(repository: Path, run_id: str) -> None:
    """Delete the index of a run from the branch, as a stranger with git would."""
    path = f"checkpoints/{run_id}/index.json"
    listing = git(repository, "ls-tree", "-r", "checkpoints").splitlines()
    git(repository, "read-tree", "--empty")
    git(
        repository,
        "update-index",
        "--index-info",
        stdin="\n".join(e for e in listing if path not in e) + "\n",
    )
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    tree = git(repository, "write-tree")
    commit = git(repository, *identity, "commit-tree", tree, "-p", "checkpoints", "-m", "lost")
    git(repository, "update-ref", "refs/heads/checkpoints", commit)


@pytest.mark.slow
@pytest.mark.parametrize("field", ["checkpoints", "segments"])
def test_checkpoint_with_a_field_of_the_users_own_is_shown_resumed_compared_and_found_again(
    holdfast: Holdfast, data_dir: Path, field: str
) -> None:
    for number in (1, 2):
        document = {"run_id": "r", "trigger": "manual", "phase": "phase_1", "state": {"n": number}}
        ended = holdfast("submit", "-", stdin=json.dumps({**document, field: NESTED}))
        assert ended.code == 0
    assert holdfast("drain").code == 0

    def look() -> None:
        shown = holdfast("show", "r", "1", "--json").document
        assert (shown[field], shown["state_snapshot"]) == (NESTED, {"n": 1})
        plan = holdfast("resume", "r", "--at", "1", "--json").document
        assert plan["state"]["n"] == 1
        assert "/state_snapshot/n" in holdfast("diff", "r", "1", "2", "--json").out
        assert len(holdfast("list", "r", "--json").document["checkpoints"]) == 2

    look()
    (repository,) = data_dir.glob("github/**/*.git")
    lose_index(repository, "r")
    look()
    assert holdfast("submit", "-", "--run-id", "r", stdin='{"n": 3}').code == 0
    assert holdfast("drain").code == 0
    assert len(holdfast("list", "r", "--json").document["checkpoints"]) == 3
    assert holdfast("validate", "r").code == 0
