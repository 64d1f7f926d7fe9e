"""What we last saw of the repository: blobs by their SHA, and how each run's folder stood.

Everything here can be had again from GitHub; losing it costs requests, nothing else.
"""

from pathlib import Path

import orjson

from holdfast.core.index import Index, parse_index
from holdfast.core.publication import RunView
from holdfast.errors import HoldfastError
from holdfast.store import Store, open_store

MAX_BYTES = 256 * 1024 * 1024


class Mirror:
    """A bounded local copy. A blob's name is its content's digest, so it is never out of date."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def open(cls, folder: Path) -> "Mirror":
        """Open the copy that `folder` holds, or begin one."""
        return cls(open_store(folder, is_durable=False, max_bytes=MAX_BYTES))

    def close(self) -> None:
        """Let go of the files."""
        self._store.close()

    def blob(self, sha: str) -> bytes | None:
        """Return a blob's content if it is here."""
        return self._store.get(f"blob/{sha}")

    def keep_blob(self, sha: str, content: bytes) -> None:
        """Remember a blob's content for a while."""
        self._store.set(f"blob/{sha}", content)

    def view(self, run_id: str) -> RunView | None:
        """Return how the run's folder stood when we last wrote or read it; it may have changed since."""
        try:
            return self._recall(run_id)
        except (ValueError, KeyError, TypeError, HoldfastError):
            return None  # a copy that cannot be read is no copy

    def keep_view(self, view: RunView) -> None:
        """Remember how the run's folder stands."""
        if view.index_sha is None:
            return
        self.keep_blob(view.index_sha, view.index.to_bytes())
        known = (view.index_sha, view.latest_sha, view.latest_sequence)
        self._store.set(f"view/{view.run_id}", orjson.dumps(known))

    def forget_view(self, run_id: str) -> None:
        """Forget how the run's folder stood."""
        self._store.delete(f"view/{run_id}")

    def _recall(self, run_id: str) -> RunView | None:
        stored = self._store.get(f"view/{run_id}")
        if stored is None:
            return None
        index_sha, latest_sha, latest_sequence = orjson.loads(stored)
        content = self.blob(index_sha)
        if content is None:
            return None
        index: Index = parse_index(content, f"{run_id}/index.json")
        return RunView(index, index_sha, latest_sha, latest_sequence)
