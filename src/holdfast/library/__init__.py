"""The library: what a Python program saves its checkpoints with.

`Holdfast` is the whole of it. Its methods lie by what they are for: each parses, delegates and returns.
"""

from typing import TYPE_CHECKING, Literal, Unpack, overload

from holdfast.library.claiming import Claiming
from holdfast.library.deciding import Deciding
from holdfast.library.draining import Draining
from holdfast.library.keeping import Keeping

if TYPE_CHECKING:
    from holdfast.recorder import (
        AgentsRun,
        LayersRun,
        PhasesRun,
        Recorder,
        RunOptions,
        StepsRun,
        TasksRun,
    )


class Holdfast(Claiming, Deciding, Draining, Keeping):
    """Durable checkpoints for one repository. Use it as a context manager, or close it.

    Saving returns as soon as the checkpoint is safe on the local disk, whatever GitHub does; `drain`, or a
    sidecar on the same data folder, takes it to the repository.
    """

    @overload
    def run(
        self, run_id: str, *, style: Literal["phases"] = "phases", **options: Unpack["RunOptions"]
    ) -> "PhasesRun": ...
    @overload
    def run(
        self, run_id: str, *, style: Literal["layers"], **options: Unpack["RunOptions"]
    ) -> "LayersRun": ...
    @overload
    def run(
        self, run_id: str, *, style: Literal["agents"], **options: Unpack["RunOptions"]
    ) -> "AgentsRun": ...
    @overload
    def run(self, run_id: str, *, style: Literal["tasks"], **options: Unpack["RunOptions"]) -> "TasksRun": ...
    @overload
    def run(self, run_id: str, *, style: Literal["steps"], **options: Unpack["RunOptions"]) -> "StepsRun": ...
    def run(self, run_id: str, *, style: str = "phases", **options: Unpack["RunOptions"]) -> "Recorder":
        """Return a run that saves its checkpoints by itself. See RunOptions for what may be chosen.

        Raises InvalidCheckpoint if the run or the style cannot be called that.
        """
        from holdfast.recorder import Options, Storage, open_run

        storage = Storage(
            draft=self.draft,
            put=self._put,
            resume=self.resume,
            drain=self.drain,
            clock=self._assembly.clock,
            claim=lambda claimed, owner: self.claim(claimed, owner=owner),
        )
        return open_run(run_id, style, storage, Options(**options))
