"""The specification's eight nodes with PyGithub: six requests for each checkpoint, one after the other."""

import base64
import json
from typing import Any

from github import Auth, Github, UnknownObjectException
from github.ContentFile import ContentFile

from benchmarks.peers.checkpoint import (
    BRANCH,
    build_checkpoint,
    check_stored,
    checkpoint_path,
    encode,
    extend_index,
)


class PyGithubLoop:
    """Saves one checkpoint at a time: file, verification, latest, index.

    PyGithub's own pauses (a second between writes) and retries are off, which favours it.
    """

    def __init__(self, url: str, repository: str, token: str) -> None:
        self._hub = Github(
            auth=Auth.Token(token),
            base_url=url,
            lazy=True,
            retry=None,
            seconds_between_requests=None,
            seconds_between_writes=None,
        )
        self._repository = self._hub.get_repo(repository, lazy=True)

    def save(self, run_id: str, sequence: int, state: dict[str, Any]) -> None:
        """Store one checkpoint and read it back."""
        checkpoint = build_checkpoint(run_id, sequence, state)
        content = encode(checkpoint)
        message = f"Checkpoint {checkpoint['checkpoint_id']}"
        path = checkpoint_path(run_id, sequence)
        self._repository.create_file(path, message, content, branch=BRANCH)
        check_stored(content, self._content(self._read(path)), checkpoint["checkpoint_id"])
        self._replace(f"checkpoints/{run_id}/latest.json", message, content)
        self._update_index(f"checkpoints/{run_id}/index.json", message, checkpoint)

    def load(self, run_id: str) -> dict[str, Any]:
        """Return the latest checkpoint, as the specification's resume does."""
        found = self._content(self._read(f"checkpoints/{run_id}/latest.json"))
        checkpoint: dict[str, Any] = json.loads(found)
        return checkpoint

    def close(self) -> None:
        """Close the connections."""
        self._hub.close()

    def _update_index(self, path: str, message: str, checkpoint: dict[str, Any]) -> None:
        known = self._find(path)
        index = json.loads(self._content(known)) if known else None
        content = encode(extend_index(index, checkpoint))
        self._write(path, message, content, known)

    def _replace(self, path: str, message: str, content: bytes) -> None:
        self._write(path, message, content, self._find(path))

    def _write(self, path: str, message: str, content: bytes, known: ContentFile | None) -> None:
        if known:
            self._repository.update_file(path, message, content, known.sha, branch=BRANCH)
        else:
            self._repository.create_file(path, message, content, branch=BRANCH)

    def _find(self, path: str) -> ContentFile | None:
        try:
            return self._read(path)
        except UnknownObjectException:
            return None

    def _read(self, path: str) -> ContentFile:
        found = self._repository.get_contents(path, ref=BRANCH)
        assert isinstance(found, ContentFile)
        return found

    def _content(self, file: ContentFile) -> bytes:
        if file.encoding == "base64":
            return bytes(file.decoded_content)
        # Files over 1 MB come without their content.
        return base64.b64decode(self._repository.get_git_blob(file.sha).content)
