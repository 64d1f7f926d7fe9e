"""The specification's eight nodes with githubkit: six requests for each checkpoint, one after the other."""

import base64
import json
from contextlib import ExitStack
from typing import Any

from githubkit import GitHub
from githubkit.exception import RequestFailed

from benchmarks.peers.checkpoint import (
    BRANCH,
    build_checkpoint,
    check_stored,
    checkpoint_path,
    encode,
    extend_index,
)


class GithubkitLoop:
    """Saves one checkpoint at a time: file, verification, latest, index. One connection, no retries."""

    def __init__(self, url: str, repository: str, token: str) -> None:
        self._owner, self._name = repository.split("/")
        self._hub = GitHub(token, base_url=url, auto_retry=False, http_cache=False)
        self._open = ExitStack()
        self._open.enter_context(self._hub)

    def save(self, run_id: str, sequence: int, state: dict[str, Any]) -> None:
        """Store one checkpoint and read it back."""
        checkpoint = build_checkpoint(run_id, sequence, state)
        content = encode(checkpoint)
        message = f"Checkpoint {checkpoint['checkpoint_id']}"
        path = checkpoint_path(run_id, sequence)
        self._write(path, message, content, None)
        check_stored(content, self._read(path)[0], checkpoint["checkpoint_id"])
        latest_path, index_path = f"checkpoints/{run_id}/latest.json", f"checkpoints/{run_id}/index.json"
        known = self._find(latest_path)
        self._write(latest_path, message, content, known[1] if known else None)
        known = self._find(index_path)
        index = extend_index(json.loads(known[0]) if known else None, checkpoint)
        self._write(index_path, message, encode(index), known[1] if known else None)

    def close(self) -> None:
        """Close the connections."""
        self._open.close()

    def _write(self, path: str, message: str, content: bytes, sha: str | None) -> None:
        body: Any = {"message": message, "content": base64.b64encode(content).decode(), "branch": BRANCH}
        if sha:
            body["sha"] = sha
        self._hub.rest.repos.create_or_update_file_contents(self._owner, self._name, path, data=body)

    def _find(self, path: str) -> tuple[bytes, str] | None:
        try:
            return self._read(path)
        except RequestFailed as error:
            if error.response.status_code == 404:
                return None
            raise

    def _read(self, path: str) -> tuple[bytes, str]:
        answer: Any = self._hub.rest.repos.get_content(self._owner, self._name, path, ref=BRANCH).json()
        text = answer["content"]
        if answer["encoding"] != "base64":
            # Files over 1 MB come without their content.
            text = self._hub.rest.git.get_blob(self._owner, self._name, answer["sha"]).json()["content"]
        return base64.b64decode(text), answer["sha"]
