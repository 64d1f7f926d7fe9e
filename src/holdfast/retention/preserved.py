"""Keeps the list of runs that are never cleaned up."""

from dataclasses import dataclass

from holdfast.clock import Deadline
from holdfast.errors import Conflict, GatewayError, Missing
from holdfast.format.paths import PRESERVED_RUNS, Layout
from holdfast.format.preserved_list import change_preserved, parse_preserved
from holdfast.github.calls import Gateway, ReadFile
from holdfast.github.wrappers.retrying import CHANGE_ATTEMPTS, repeat
from holdfast.github.write_calls import WriteFile
from holdfast.logs import log
from holdfast.repository.branch import perform_on_branch


@dataclass(frozen=True)
class PreservedRuns:
    """The list of one branch."""

    gateway: Gateway
    layout: Layout
    branch: str
    deadline: Deadline

    @property
    def path(self) -> str:
        """Return where the list lies."""
        return f"{self.layout.base_path}/{PRESERVED_RUNS}"

    def read(self) -> frozenset[str]:
        """Return the runs in the list. Raises IntegrityFailure when it is damaged."""
        return parse_preserved(self._read()[0], self.path)

    def add(self, run_id: str) -> bool:
        """Put a run into the list; return whether that changed anything."""
        return self._change(run_id, is_wanted=True)

    def remove(self, run_id: str) -> bool:
        """Take a run out of the list; return whether that changed anything."""
        return self._change(run_id, is_wanted=False)

    def _change(self, run_id: str, *, is_wanted: bool) -> bool:
        message = f"{'Preserve' if is_wanted else 'Let go of'} {run_id}"

        def attempt() -> bool:
            before, sha = self._read()
            if (run_id in parse_preserved(before, self.path)) == is_wanted:
                return False
            content = change_preserved(before, self.path, run_id, is_wanted=is_wanted)
            perform_on_branch(
                self.gateway, self.branch, WriteFile(self.path, content, message, self.branch, sha)
            )
            return True

        def note(number: int, error: GatewayError) -> None:
            log.info("preserving_repeated", attempt=number, cause=str(error))

        is_changed = repeat(
            attempt,
            attempts=CHANGE_ATTEMPTS,
            deadline=self.deadline,
            note=note,
            when=lambda error: isinstance(error, Conflict),
        )
        if is_changed:
            log.info("preserved_runs_changed", run_id=run_id, is_preserved=is_wanted)
        return is_changed

    def _read(self) -> tuple[bytes, str | None]:
        try:
            file = self.gateway.perform(ReadFile(self.path, self.branch))
        except Missing:
            return b"[]", None
        return file.content, file.blob_sha
