"""A clone, and for each checkpoint a commit and a push."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.peers.checkpoint import BRANCH, build_checkpoint, checkpoint_path, encode, extend_index

_IDENTITY = {
    "GIT_AUTHOR_NAME": "bench",
    "GIT_AUTHOR_EMAIL": "bench@example.com",
    "GIT_COMMITTER_NAME": "bench",
    "GIT_COMMITTER_EMAIL": "bench@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_ALLOW_PROTOCOL": "file:ext",
}


class GitLoop:
    """Commits and pushes each checkpoint with the git command.

    `network_s` is what a round trip takes; a push makes two, counting neither connection nor TLS.
    """

    def __init__(self, bare_repository: Path, clone: Path) -> None:
        self._bare = bare_repository
        self._clone = clone
        self.network_s = 0.0
        self._git("init", "--quiet", "--initial-branch", BRANCH)
        if self._answers("ls-remote", "--exit-code", str(bare_repository), BRANCH):
            self._git("pull", "--quiet", str(bare_repository), BRANCH)

    def save(self, run_id: str, sequence: int, state: dict[str, Any]) -> None:
        """Store one checkpoint; what git pushed, it has verified by hash."""
        checkpoint = build_checkpoint(run_id, sequence, state)
        content = encode(checkpoint)
        folder = self._clone / "checkpoints" / run_id
        folder.mkdir(parents=True, exist_ok=True)
        index_file = folder / "index.json"
        index = json.loads(index_file.read_bytes()) if index_file.exists() else None
        (self._clone / checkpoint_path(run_id, sequence)).write_bytes(content)
        (folder / "latest.json").write_bytes(content)
        index_file.write_bytes(encode(extend_index(index, checkpoint)))
        self._git("add", "--", f"checkpoints/{run_id}")
        self._git("commit", "--quiet", "--message", f"Checkpoint {checkpoint['checkpoint_id']}")
        self._git("push", "--quiet", self._address(), f"HEAD:{BRANCH}")

    def close(self) -> None:
        """Nothing is open."""

    def _address(self) -> str:
        if not self.network_s:
            return str(self._bare)
        return f"ext::sh -c sleep% {2 * self.network_s};exec% %S% {self._bare}"

    def _git(self, *arguments: str) -> None:
        variables = {**os.environ, **_IDENTITY}
        subprocess.run(["git", *arguments], cwd=self._clone, env=variables, check=True, capture_output=True)

    def _answers(self, *arguments: str) -> bool:
        answer = subprocess.run(["git", *arguments], cwd=self._clone, check=False, capture_output=True)
        return answer.returncode == 0
