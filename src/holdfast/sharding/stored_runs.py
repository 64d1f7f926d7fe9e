"""Which runs a repository holds, by name; what was seen last is enough while GitHub is away."""

import threading
from collections.abc import Callable
from math import inf

from holdfast.clock import Clock
from holdfast.errors import GatewayError, Missing
from holdfast.github.listing import list_folder
from holdfast.repository.branch import check_repository
from holdfast.repository.sources import GitHubSource

# A repository that did not answer is left alone for a while: others wait for the same answer.
TRY_AGAIN_S = 15.0


class StoredRuns:
    """The runs of one repository. An unchanged branch costs nothing of GitHub's hourly limit."""

    def __init__(self, open_source: Callable[[], GitHubSource], clock: Clock) -> None:
        self._open_source = open_source
        self._clock = clock
        self._lock = threading.Lock()
        self._names: frozenset[str] | None = None
        self._head = ""
        self._looked_at = -inf
        self._failure: GatewayError | None = None

    def names(self, *, max_age_s: float) -> frozenset[str]:
        """Return the names of all runs, as of `max_age_s` ago at most, or as they were last seen.

        Raises GatewayError if they were never seen.
        """
        with self._lock:
            allowed_s = TRY_AGAIN_S if self._failure else max_age_s
            if not 0 <= self._clock.now() - self._looked_at < allowed_s:
                self._look()
            if self._failure and self._names is None:
                raise self._failure
            return self._names or frozenset()

    def _look(self) -> None:
        try:
            self._names = self._read()
            self._failure = None
        except GatewayError as error:
            self._failure = error
        self._looked_at = self._clock.now()

    def _read(self) -> frozenset[str]:
        source = self._open_source()
        try:
            if source.head == self._head and self._names is not None:
                return self._names
            entries = list_folder(source.gateway, source.layout.base_path, source.head)
        except Missing:
            # No such branch or folder: no runs. But who may not see the repository is told the same.
            check_repository(source.gateway)
            return frozenset()
        self._head = source.head
        return frozenset(entry.path for entry in entries if entry.kind == "folder")
