"""What both modes of writing work with, and how they plan the files of one run."""

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holdfast.clock import Clock, Deadline
from holdfast.drain.fencing import Admit, admit_all
from holdfast.drain.stamper import Stamper
from holdfast.drain.stamping import StampedItem, with_stored_latest
from holdfast.drain.write_plan import WritePlan, plan_write
from holdfast.format.moments import format_moment
from holdfast.format.paths import Layout
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.github.calls import Gateway
from holdfast.queue import Queue
from holdfast.repository.runs import Runs


@dataclass
class Writer:
    """Plans what a run's folder is to hold; its subclasses write that."""

    gateway: Gateway
    spool: Queue
    runs: Runs
    layout: Layout
    branch: str
    deadline: Deadline
    github_clock: Clock
    """Tells GitHub's time, by which retention finds the runs last written to."""
    stamper: Stamper
    breathe: Callable[[], None] = lambda: None
    admit: Admit = admit_all
    machine: str = field(default_factory=platform.node)

    def plan(
        self, snapshot: RunSnapshot, stamped: Sequence[StampedItem], *, is_batch: bool = False
    ) -> WritePlan:
        """Return which files to write on top of `snapshot`, so that it holds these checkpoints as well."""
        write_plan = plan_write(
            snapshot,
            [each.envelope for each in stamped],
            is_batch=is_batch,
            layout=self.layout,
            now=format_moment(self.github_clock.now()),
            machine=self.machine,
        )
        return with_stored_latest(write_plan, snapshot, self.runs.read_blob, self.layout)
