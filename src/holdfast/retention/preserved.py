"""Keeps the list of runs that are never cleaned up."""

from dataclasses import dataclass

from holdfast.clock import Clock
from holdfast.errors import Conflict, Missing
from holdfast.format.paths import PRESERVED_RUNS, Layout
from holdfast.format.preserved_list import format_preserved, parse_preserved
from holdfast.github.calls import Gateway, ReadFile, WriteFile
from holdfast.logs import log
from holdfast.repository.branch import ensure_branch

ATTEMPTS = 5
PAUSE_S = 0.5


@dataclass(frozen=True)
class PreservedRuns:
    """The list of one branch."""

    gateway: Gateway
    layout: Layout
    branch: str
    clock: Clock

    @property
    def path(self) -> str:
        """Return where the list lies."""
        return f"{self.layout.base_path}/{PRESERVED_RUNS}"

    def read(self) -> frozenset[str]:
        """Return the runs in the list. Raises IntegrityFailure when it is damaged."""
        return self._read()[0]

    def add(self, run_id: str) -> bool:
        """Put a run into the list; return whether that changed anything."""
        return self._change(run_id, is_wanted=True)

    def remove(self, run_id: str) -> bool:
        """Take a run out of the list; return whether that changed anything."""
        return self._change(run_id, is_wanted=False)

    def _change(self, run_id: str, *, is_wanted: bool) -> bool:
        for attempt in range(1, ATTEMPTS + 1):
            listed, sha = self._read()
            if (run_id in listed) == is_wanted:
                return False
            try:
                self._write(listed ^ {run_id}, sha, f"{'Preserve' if is_wanted else 'Let go of'} {run_id}")
            except Conflict:
                if attempt == ATTEMPTS:
                    raise
                self.clock.sleep(PAUSE_S * attempt)
            else:
                break
        log.info("preserved_runs_changed", run_id=run_id, is_preserved=is_wanted)
        return True

    def _write(self, run_ids: frozenset[str], sha: str | None, message: str) -> None:
        call = WriteFile(self.path, format_preserved(run_ids), message, self.branch, sha)
        try:
            self.gateway.perform(call)
        except Missing:
            ensure_branch(self.gateway, self.branch)
            self.gateway.perform(call)

    def _read(self) -> tuple[frozenset[str], str | None]:
        try:
            file = self.gateway.perform(ReadFile(self.path, self.branch))
        except Missing:
            return frozenset(), None
        return parse_preserved(file.content, self.path), file.blob_sha
