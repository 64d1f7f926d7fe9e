"""What becomes of one run: kept, pruned, trimmed to its latest, archived as a summary, or left alone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from holdfast.format.git_ids import blob_sha
from holdfast.format.index import Index, IndexEntry
from holdfast.format.moments import epoch
from holdfast.format.paths import INDEX, LATEST, SUMMARY, Layout
from holdfast.format.run_snapshot import RemoteFile
from holdfast.retention.records import RunRecord
from holdfast.retention.rules import DAY_S, RetentionRules
from holdfast.retention.scanned_run import ScannedRun, find_leftovers, find_unrest, is_ours


class Action(StrEnum):
    """What becomes of a run."""

    KEEP = "keep"
    PRUNE = "prune"
    TRIM = "trim"
    ARCHIVE = "archive"
    LEAVE = "leave"


@dataclass(frozen=True)
class RunPlan:
    """What becomes of one run, and why.

    `unread` are files that must be opened before this can be decided. `record` is what the log must keep of
    the run once this is done, `record_before` what it must keep until then.
    """

    run_id: str
    action: Action
    reason: str
    last_written: str = ""
    delete: Mapping[str, RemoteFile] = field(default_factory=dict)
    write: Mapping[str, bytes] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    record: RunRecord | None = None
    record_before: RunRecord | None = None

    @property
    def is_change(self) -> bool:
        """Whether anything of this run is deleted or written."""
        return bool(self.delete or self.write)

    @property
    def deleted_bytes(self) -> int:
        """Return how much goes."""
        return sum(file.size_bytes for file in self.delete.values())


@dataclass(frozen=True, slots=True)
class RetentionCase:
    """One run, where it stands among the others (0 is the most recent), and what is known from before."""

    folder: ScannedRun
    place: int
    last_written: str
    record: RunRecord | None
    rules: RetentionRules
    layout: Layout
    now: float

    @property
    def age_days(self) -> float:
        """Return for how long nothing was written to it; 0 if that is not known."""
        written_at = epoch(self.last_written)
        return (self.now - written_at) / DAY_S if written_at else 0.0

    @property
    def started_at(self) -> str:
        """Return the earliest moment that is known of it."""
        folder = self.folder
        moments = [folder.last_checkpoint_at]
        moments += [folder.summary.started_at] if folder.summary else []
        moments += [self.record.started_at] if self.record else []
        moments += [entry.timestamp for entry in folder.snapshot.index.entries[:1]]
        return min((moment for moment in moments if epoch(moment)), key=epoch, default=moments[0])


def decide(run: RetentionCase, protection: str) -> RunPlan:
    """Return what becomes of a run by the rules; `protection` says why it must not be touched, if so."""
    plan = _decide_untouchable(run, protection)
    if plan:
        return plan
    action, reason = _choose(run)
    if action is Action.ARCHIVE:
        return _archive(run, reason)
    return _trim(run, reason) if action is Action.TRIM else _prune(run, reason)


def decide_pruning(run: RetentionCase, protection: str) -> RunPlan:
    """Return what the rules within a run take from it, as if it were the most recent of all."""
    return _decide_untouchable(run, protection) or _prune(run, "just written to")


def _decide_untouchable(run: RetentionCase, protection: str) -> RunPlan | None:
    folder = run.folder
    if protection:
        return _plan(run, Action.KEEP, protection)
    if unrest := find_unrest(folder, run.layout):
        return _plan(run, Action.LEAVE, unrest)
    if folder.is_archived:
        return _plan(run, Action.KEEP, "only its summary is left")
    return _ask(run, LATEST) if folder.latest is None and _is_latest_needed(run) else None


def _is_latest_needed(run: RetentionCase) -> bool:
    index, rules = run.folder.index, run.rules
    if index is None or not index.entries[-1].blob_sha:
        return True  # nothing else shows that latest.json is the newest checkpoint, and whole
    return rules.deletes_completed and not run.folder.is_resumable


def _choose(run: RetentionCase) -> tuple[Action, str]:
    """Return whether the run is kept (and pruned), trimmed or archived, and why."""
    folder, rules, age = run.folder, run.rules, run.age_days
    if folder.is_resumable:
        if rules.abandoned_days is not None and age > rules.abandoned_days:
            return Action.ARCHIVE, f"abandoned: nothing was written for {age:.0f} days"
    elif rules.deletes_completed and folder.latest and not folder.latest.is_kept:
        return Action.ARCHIVE, "completed, and completed runs are deleted"
    elif rules.days is not None and age > rules.days:
        return Action.ARCHIVE, f"completed {age:.0f} days ago"
    if run.place < rules.full_runs:
        return Action.KEEP, f"among the {rules.full_runs} most recent runs"
    if run.place < rules.latest_runs:
        return Action.TRIM, f"among the {rules.latest_runs} most recent runs"
    if folder.is_resumable:
        return Action.TRIM, f"older than the {rules.latest_runs} most recent runs, but it can be resumed"
    return Action.ARCHIVE, f"older than the {rules.latest_runs} most recent runs"


def _archive(run: RetentionCase, reason: str) -> RunPlan:
    folder = run.folder
    if folder.latest is None:
        return _ask(run, LATEST)
    content = folder.latest.summarise(folder.run_id, run.started_at).to_bytes()
    delete = _ours_but(folder, {SUMMARY})
    return _plan(run, Action.ARCHIVE, reason, delete=delete, write={SUMMARY: content}, keeps_record=False)


def _trim(run: RetentionCase, reason: str) -> RunPlan:
    folder = run.folder
    if folder.parts and LATEST not in folder.parts_of:
        return _ask(run, LATEST)
    delete = _ours_but(folder, {LATEST, *folder.parts_of.get(LATEST, ())})
    return _plan(run, Action.TRIM if delete else Action.KEEP, reason, delete=delete)


def _prune(run: RetentionCase, reason: str) -> RunPlan:
    folder, index = run.folder, run.folder.index
    if index is None:
        return _plan(run, Action.KEEP, reason)
    if folder.latest is None and _is_style_needed(run, index):
        return _ask(run, LATEST)
    style = folder.latest.style if folder.latest else ""
    removed = find_prunable(index, style, run.rules, run.layout, now=run.now)
    leftovers = find_leftovers(folder, index, run.layout)
    if not removed:
        return _plan(run, Action.PRUNE if leftovers else Action.KEEP, reason, delete=leftovers)
    names = {run.layout.name_of(folder.run_id, entry.file_path) for entry in index.entries}
    delete = leftovers | {name: folder.files[name] for name in names & removed.keys()}
    if folder.parts:
        kept = sorted(name for name in names if name not in delete)
        if unread := [name for name in kept if name not in folder.parts_of]:
            return _ask(run, *unread)
        used = {part for name in kept for part in folder.parts_of[name]}
        delete |= {name: folder.files[name] for name in folder.parts if name not in used}
    rest = index.without({entry.checkpoint_id for entries in removed.values() for entry in entries})
    count = sum(len(entries) for entries in removed.values())
    reason = f"{reason}; {count} of its {len(index.entries)} checkpoints are beyond the limits"
    return _plan(run, Action.PRUNE, reason, delete=delete, write={INDEX: rest.to_bytes()})


def _is_style_needed(run: RetentionCase, index: Index) -> bool:
    """Whether the limit depends on a style that only the latest tells."""
    rules = run.rules
    return rules.checkpoints is None and len(index.entries) > (rules.least_limit or len(index.entries))


def find_prunable(
    index: Index, style: str, rules: RetentionRules, layout: Layout, *, now: float
) -> dict[str, list[IndexEntry]]:
    """Return the checkpoints that the rules within a run take from it, by file.

    A batch goes as a whole or not at all, and the newest checkpoint always stays.
    """
    kept = _kept(index, style, rules, now)
    files: dict[str, list[IndexEntry]] = {}
    for entry in index.entries:
        files.setdefault(layout.name_of(index.run_id, entry.file_path), []).append(entry)
    return {
        name: entries
        for name, entries in files.items()
        if not any(entry.checkpoint_id in kept for entry in entries)
    }


def _kept(index: Index, style: str, rules: RetentionRules, now: float) -> set[str]:
    limit = rules.limit_for(style)
    entries = index.entries[-limit:] if limit else index.entries
    if rules.per_phase is not None:
        entries = tuple(_newest_of_each_phase(entries, rules.per_phase))
    if rules.days is not None:
        oldest = now - rules.days * DAY_S
        entries = tuple(entry for entry in entries if epoch(entry.timestamp) >= oldest)
    return {entry.checkpoint_id for entry in (*entries, *index.entries[-1:])}


def _newest_of_each_phase(entries: Iterable[IndexEntry], limit: int) -> list[IndexEntry]:
    """Return at most `limit` of each phase. An old index does not tell the phase; its entries all stay."""
    seen: dict[str, int] = {}
    kept = []
    for entry in reversed(list(entries)):
        seen[entry.phase] = seen.get(entry.phase, 0) + 1
        if not entry.phase or seen[entry.phase] <= limit:
            kept.append(entry)
    return kept


def _ours_but(folder: ScannedRun, kept: Iterable[str]) -> dict[str, RemoteFile]:
    stays = set(kept)
    return {name: file for name, file in folder.files.items() if is_ours(name) and name not in stays}


def _ask(run: RetentionCase, *names: str) -> RunPlan:
    """Return that nothing can be said before these files are opened."""
    return RunPlan(run.folder.run_id, Action.KEEP, "not decided yet", run.last_written, unread=names)


def _plan(
    run: RetentionCase,
    action: Action,
    reason: str,
    *,
    delete: Mapping[str, RemoteFile] | None = None,
    write: Mapping[str, bytes] | None = None,
    keeps_record: bool = True,
) -> RunPlan:
    known = None if run.folder.is_archived else run.record
    record = RunRecord(run.started_at, run.last_written) if delete and keeps_record else known
    return RunPlan(
        run_id=run.folder.run_id,
        action=action,
        reason=reason,
        last_written=run.last_written,
        delete=delete or {},
        write={
            name: content
            for name, content in (write or {}).items()
            if name not in run.folder.files or run.folder.files[name].sha != blob_sha(content)
        },
        record=record if keeps_record else None,
        record_before=known,
    )
