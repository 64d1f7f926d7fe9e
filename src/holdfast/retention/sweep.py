"""The sweep: plans what may go, and carries that out in one commit on top of the head it was planned on.

When the branch has moved meanwhile, the plan is made again; it is never forced.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.cache.local_copy import RepositoryCache
from holdfast.clock import Clock, Deadline
from holdfast.disk import make_private_folder
from holdfast.errors import (
    Conflict,
    GatewayError,
    HoldfastError,
    Refused,
    SpoolBusy,
    Stopped,
    SweepBusy,
    Throttled,
    Unavailable,
)
from holdfast.format.git_ids import blob_sha, tree_sha
from holdfast.format.moments import format_moment
from holdfast.format.paths import RETENTION_LOG, Layout
from holdfast.format.run_snapshot import RemoteFile
from holdfast.github.wrappers.retrying import SWEEP_ATTEMPTS, plan_and_repeat
from holdfast.github.wrappers.right_of_way import RightOfWay
from holdfast.locks import locked
from holdfast.logs import log
from holdfast.queue import Queue
from holdfast.retention.commit import Committer, FileChanges
from holdfast.retention.disposal import RunPlan
from holdfast.retention.mending import SETTLED_AFTER_DAYS, find_unfinished
from holdfast.retention.plan import RetentionPlan, describe_sweep, plan_pruning, plan_retention
from holdfast.retention.records import SweepRecord
from holdfast.retention.rules import RetentionRules
from holdfast.retention.scan import Scan, Scanner

# One commit for all of it, as a rule. GitHub names no limit, but gives up on what takes long.
MAX_FILES = 2000
MAX_NAMED_RUNS = 200

MakePlan = Callable[..., RetentionPlan]


@dataclass
class SweepReport:
    """What becomes of every run, and what is done already.

    `strangers` are paths that we did not write, and leave alone. Without `commits`, nothing was changed.
    `rest_because` says why the next sweep has to go on, if this one could not finish.
    """

    plan: RetentionPlan
    strangers: tuple[str, ...] = ()
    done: list[RunPlan] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)
    rest_because: str = ""


@dataclass
class Sweeper:
    """Cleans up one branch; one at a time on this machine."""

    scanner: Scanner
    committer: Committer
    spool: Queue
    cache: RepositoryCache
    layout: Layout
    rules: RetentionRules
    clock: Clock
    """Tells GitHub's time."""
    deadline: Deadline
    lock_folder: Path
    max_files: int = MAX_FILES
    way: RightOfWay = field(default_factory=RightOfWay)
    """Is taken once a plan was overtaken: beside a writer that never rests every plan would be."""

    def plan(self) -> SweepReport:
        """Return what a sweep would do."""
        survey, plan = self._plan(None, plan_retention)
        return SweepReport(plan, self._strangers(survey))

    def sweep(self) -> SweepReport:
        """Do what the rules ask, now.

        When the rest of the budget is for checkpoints, or we are told to stop, what was committed by then
        stays, and the next sweep goes on from there; if that is nothing, Throttled or Stopped is raised.
        Raises SweepBusy when another process is at it.
        """
        with self._alone():
            return self._carry_out(None, plan_retention)

    def prune(self, run_ids: Collection[str]) -> SweepReport:
        """Take from these runs what the rules within a run do not let them keep. Raises like `sweep`."""
        with self._alone():
            return self._carry_out(run_ids, plan_pruning)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        make_private_folder(self.lock_folder)
        busy = "another process is cleaning up; let it finish"
        lock = locked(self.lock_folder / "sweep.lock", timeout_s=0, busy=lambda: busy)
        with ExitStack() as held:
            try:
                held.enter_context(lock)
            except SpoolBusy as error:
                raise SweepBusy(str(error)) from None
            yield

    def _carry_out(self, only: Collection[str] | None, make: MakePlan) -> SweepReport:
        report = SweepReport(RetentionPlan(()))
        try:
            self._plan_and_commit(report, only, make)
        except (Throttled, Stopped) as error:
            if not report.commits:
                raise
            report.rest_because = str(error)
        return report

    def _plan_and_commit(self, report: SweepReport, only: Collection[str] | None, make: MakePlan) -> None:
        """Plan and commit; whenever the branch moves or a commit is too much, again."""
        max_files, is_overtaken, taken = self.max_files, False, ExitStack()

        def plan() -> Scan:
            if is_overtaken:
                taken.enter_context(self.way.take())
            survey, report.plan = self._plan(only, make)
            report.strangers = self._strangers(survey)
            return survey

        def commit(survey: Scan) -> None:
            with taken:
                self._commit_all(survey, report, max_files)

        def note(number: int, error: GatewayError) -> None:
            nonlocal max_files, is_overtaken
            is_overtaken = isinstance(error, Conflict)
            if not is_overtaken:
                max_files = max(1, max_files // 2)  # it may have been too much at once
            log.info("sweep_planned_again", attempt=number, cause=str(error))

        with taken:
            plan_and_repeat(
                plan,
                commit,
                attempts=SWEEP_ATTEMPTS,
                deadline=self.deadline,
                note=note,
                when=_is_worth_another,
            )

    def _plan(self, only: Collection[str] | None, make: MakePlan) -> tuple[Scan, RetentionPlan]:
        """Scan, and plan; what the plan must know of single files is read until it is complete."""
        survey = self.scanner.survey(only)
        for days in self.rules.ages:
            self.scanner.look_back(survey, days, self.clock.now())
        if only is None:  # whoever is told which runs to prune has just written to them
            self._look_for_unfinished(survey)
        while True:
            plan = make(
                list(survey.runs.values()),
                self.rules,
                protected=self._protected(survey),
                log=survey.log,
                layout=self.layout,
                now=self.clock.now(),
            )
            if not plan.unread:
                return survey, plan
            self.scanner.open(survey.runs, plan.unread)

    def _look_for_unfinished(self, survey: Scan) -> None:
        """Learn how old it is what writers have not come to an end with."""
        runs = [run_id for run_id, run in survey.runs.items() if find_unfinished(run, self.layout)]
        self.scanner.look_back(survey, SETTLED_AFTER_DAYS, self.clock.now(), runs)

    def _strangers(self, survey: Scan) -> tuple[str, ...]:
        """Return every path that we did not write, and leave alone."""
        within = (
            self.layout.path(run_id, name) for run_id, run in survey.runs.items() for name in run.foreign
        )
        return (*survey.strangers, *within)

    def _protected(self, survey: Scan) -> dict[str, str]:
        spooled = dict.fromkeys(self._spooled(), "it has checkpoints in the spool")
        return spooled | dict.fromkeys(survey.preserved, "preserved")

    def _spooled(self) -> set[str]:
        waiting = {item.run_id for item in self.spool.pending()}
        waiting |= self.spool.newer_runs()
        return waiting | {each.item.run_id for each in self.spool.set_aside_entries()}

    def _commit_all(self, survey: Scan, report: SweepReport, max_files: int) -> None:
        """Commit the plan group by group, each on top of the one before.

        Raises Conflict if anyone came between.
        """
        head_sha, journal = survey.head_sha, survey.log
        blobs = {f"{self.layout.base_path}/{name}": blob.sha for name, blob in survey.files.items()}
        done: set[str] = set()
        for group in report.plan.groups(max_files):
            if newly_spooled := self._spooled() & {run.run_id for run in group}:
                raise Conflict(min(newly_spooled), "checkpoints of it came in meanwhile", kind="head_moved")
            done |= {run.run_id for run in group}
            sweep = describe_sweep(group, format_moment(self.clock.now()))
            journal = journal.after(sweep, report.plan.records_after(done))
            change = self._change(survey, group, sweep, journal.to_bytes(), blobs)
            head_sha = self.committer.commit(head_sha, change)
            blobs[self._log_path] = blob_sha(change.write[self._log_path])
            self.cache.keep_blob(blobs[self._log_path], change.write[self._log_path])
            self._note(report, group, head_sha)
            self._remember(survey, group)

    @property
    def _log_path(self) -> str:
        return f"{self.layout.base_path}/{RETENTION_LOG}"

    def _change(
        self,
        survey: Scan,
        group: Sequence[RunPlan],
        sweep: SweepRecord,
        journal: bytes,
        blobs: Mapping[str, str],
    ) -> FileChanges:
        write: dict[str, bytes] = {}
        known = dict(blobs)
        for run in group:
            write |= {self.layout.path(run.run_id, name): content for name, content in run.write.items()}
            files = survey.runs[run.run_id].files
            known |= {self.layout.path(run.run_id, name): blob.sha for name, blob in files.items()}
        delete = tuple(self.layout.path(run.run_id, name) for run in group for name in run.delete)
        runs = "1 run" if len(group) == 1 else f"{len(group)} runs"
        headline = f"Retention: {sweep.deleted_files} files of {runs} deleted"
        body = "\n".join(f"{run.action} {run.run_id}" for run in group[:MAX_NAMED_RUNS])
        return FileChanges(headline, body, {**write, self._log_path: journal}, delete, known)

    def _remember(self, survey: Scan, group: Sequence[RunPlan]) -> None:
        """Keep what each folder holds now, so that the next sweep need not ask."""
        for run in group:
            self.cache.forget_snapshot(run.run_id)
            listed = survey.runs[run.run_id].files
            files = {name: file for name, file in listed.items() if name not in run.delete}
            for name, content in run.write.items():
                files[name] = RemoteFile(blob_sha(content), len(content))
                self.cache.keep_blob(files[name].sha, content)
            self.cache.keep_tree(tree_sha({name: file.sha for name, file in files.items()}), files)

    def _note(self, report: SweepReport, group: Sequence[RunPlan], commit_sha: str) -> None:
        report.done += group
        report.commits.append(commit_sha)
        log.info(
            "sweep_committed",
            commit_sha=commit_sha,
            runs=len(group),
            deleted_files=sum(len(run.delete) for run in group),
            deleted_bytes=sum(run.deleted_bytes for run in group),
        )


def try_sweep(sweeper: Sweeper) -> SweepReport | None:
    """Sweep after the end of a run. What stands in the way is logged: the next sweep does it."""
    try:
        report = sweeper.sweep()
    except HoldfastError as error:
        log.warning("cleanup_postponed", cause=str(error))
        return None
    log.info("cleaned_up", runs=len(report.done), commits=len(report.commits))
    if report.rest_because:
        log.warning("cleanup_postponed", cause=report.rest_because)
    return report


def _is_worth_another(error: GatewayError) -> bool:
    """Whether a new plan, or a smaller commit, may succeed where this one failed."""
    is_too_much = isinstance(error, Refused) and error.kind == "invalid"
    return is_too_much or isinstance(error, Conflict | Unavailable)
