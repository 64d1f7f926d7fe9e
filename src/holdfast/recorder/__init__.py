"""The recorder: checkpoints without writing any save calls."""

from holdfast.errors import InvalidCheckpoint
from holdfast.recorder.agents import AgentsRun
from holdfast.recorder.layers import LayersRun
from holdfast.recorder.options import Options, RunOptions, Storage
from holdfast.recorder.phases import PhasesRun
from holdfast.recorder.run import Recorder
from holdfast.recorder.steps import StepsRun
from holdfast.recorder.tasks import TasksRun

__all__ = [
    "AgentsRun",
    "LayersRun",
    "Options",
    "PhasesRun",
    "Recorder",
    "RunOptions",
    "StepsRun",
    "Storage",
    "TasksRun",
    "open_run",
]

_STYLES: dict[str, type[Recorder]] = {
    "phases": PhasesRun,
    "layers": LayersRun,
    "agents": AgentsRun,
    "tasks": TasksRun,
    "steps": StepsRun,
}


def open_run(run_id: str, style: str, storage: Storage, options: Options) -> Recorder:
    """Return the recorder of a run of this style. Raises InvalidCheckpoint if there is no such style."""
    if style not in _STYLES:
        raise InvalidCheckpoint("style", f"{style!r} is not one of {', '.join(_STYLES)}")
    return _STYLES[style](run_id, storage, options)
