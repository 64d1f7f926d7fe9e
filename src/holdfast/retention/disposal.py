"""What becomes of one run: kept, pruned, trimmed to its latest, archived, mended or left alone."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from holdfast.claims.decide import is_living
from holdfast.format.git_ids import blob_sha
from holdfast.format.index import Index, IndexEntry
from holdfast.format.moments import epoch
from holdfast.format.paths import (
    CLAIM,
    INDEX,
    LATEST,
    SUMMARY,
    Layout,
    format_batch_name,
    format_checkpoint_name,
)
from holdfast.format.run_snapshot import RemoteFile
from holdfast.format.stored_file import join_batch
from holdfast.format.triggers import Trigger
from holdfast.retention.mending import Mending, decide_mending
from holdfast.retention.records import RunRecord
from holdfast.retention.rules import RetentionRules
from holdfast.retention.scanned_run import ScannedRun, find_leftovers, find_unrest, is_ours
from holdfast.styles.review import is_stopped, is_waiting

# After each write, a batch is written anew only once so many of its checkpoints are beyond the limits.
WORTH_CUTTING = 10


class Action(StrEnum):
    """What becomes of a run."""

    KEEP = "keep"
    PRUNE = "prune"
    TRIM = "trim"
    ARCHIVE = "archive"
    MEND = "mend"
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

    run: ScannedRun
    place: int
    last_written: str
    record: RunRecord | None
    rules: RetentionRules
    layout: Layout
    now: float = 0.0
    """By GitHub's time."""

    @property
    def started_at(self) -> str:
        """Return the earliest moment that is known of it."""
        run = self.run
        moments = [run.last_checkpoint_at]
        moments += [run.summary.started_at] if run.summary else []
        moments += [self.record.started_at] if self.record else []
        moments += [entry.timestamp for entry in run.snapshot.index.all_entries[:1]]
        return min((moment for moment in moments if epoch(moment)), key=epoch, default=moments[0])


def decide(case: RetentionCase, protection: str) -> RunPlan:
    """Return what becomes of a run by the rules; `protection` says why it must not be touched, if so."""
    plan = _decide_untouchable(case, protection)
    if plan:
        return plan
    action, reason = _choose(case)
    if action is Action.ARCHIVE:
        return _archive(case, reason)
    return _trim(case, reason) if action is Action.TRIM else _prune(case, reason)


def decide_pruning(case: RetentionCase, protection: str) -> RunPlan:
    """Return what the rules within a run take from it, as if it were the most recent of all."""
    return _decide_untouchable(case, protection) or _prune(case, "just written to", is_thorough=False)


def _decide_untouchable(case: RetentionCase, protection: str) -> RunPlan | None:
    run = case.run
    if protection:
        return _plan(case, Action.KEEP, protection)
    if mending := decide_mending(run, case.layout):
        return _mend(case, mending)
    if unrest := find_unrest(run, case.layout):
        return _plan(case, Action.LEAVE, unrest)
    if run.is_archived:
        ended = {} if is_living(run.claim, case.now) else _named(run, CLAIM)
        return _plan(case, Action.PRUNE if ended else Action.KEEP, "only its summary is left", delete=ended)
    return _ask(case, LATEST) if run.latest is None and _is_latest_needed(case) else None


def _mend(case: RetentionCase, mending: Mending) -> RunPlan:
    """Return what makes a run whole that a writer has left unfinished; the rules take it from there."""
    if mending.unread:
        return _ask(case, *mending.unread)
    action = Action.MEND if mending.write or mending.delete else Action.LEAVE
    return _plan(case, action, mending.reason, delete=mending.delete, write=mending.write)


def _is_latest_needed(case: RetentionCase) -> bool:
    index, rules = case.run.index, case.rules
    if index is None or not index.entries[-1].blob_sha:
        return True  # nothing else shows that latest.json is the newest checkpoint, and whole
    return rules.deletes_completed and not case.run.is_resumable


def _choose(case: RetentionCase) -> tuple[Action, str]:
    """Return what becomes of the run, and why: it is kept (and pruned), trimmed or archived."""
    run, rules = case.run, case.rules
    if run.claim and is_living(run.claim, case.now):
        return Action.KEEP, f"{run.claim.owner} drives it at the moment"
    if run.is_resumable:
        if rules.abandoned_days is not None and run.is_at_rest_since(rules.abandoned_days):
            return Action.ARCHIVE, f"abandoned: nothing was written for {rules.abandoned_days:g} days"
    elif rules.deletes_completed and run.latest and not run.latest.is_kept:
        return Action.ARCHIVE, "completed, and completed runs are deleted"
    elif rules.days is not None and run.is_at_rest_since(rules.days):
        return Action.ARCHIVE, f"completed more than {rules.days:g} days ago"
    if run.index is not None and is_waiting(run.index):
        return Action.KEEP, "it waits for a review, of which its latest checkpoint alone may not tell"
    if case.place < rules.full_runs:
        return Action.KEEP, f"among the {rules.full_runs} most recent runs"
    if case.place < rules.latest_runs:
        return Action.TRIM, f"among the {rules.latest_runs} most recent runs"
    if run.is_resumable and not is_stopped(run.snapshot.index):
        return Action.TRIM, f"older than the {rules.latest_runs} most recent runs, but it can be resumed"
    return Action.ARCHIVE, f"older than the {rules.latest_runs} most recent runs"


def _archive(case: RetentionCase, reason: str) -> RunPlan:
    run = case.run
    if run.latest is None:
        return _ask(case, LATEST)
    workflow = run.snapshot.index.workflow
    content = run.latest.summarise(run.run_id, case.started_at, workflow).to_bytes()
    delete = _ours_but(run, {SUMMARY})
    return _plan(case, Action.ARCHIVE, reason, delete=delete, write={SUMMARY: content}, keeps_record=False)


def _trim(case: RetentionCase, reason: str) -> RunPlan:
    run = case.run
    if run.parts and LATEST not in run.parts_of:
        return _ask(case, LATEST)
    # Without its claim, a run would give fences again that were given before.
    delete = _ours_but(run, {LATEST, CLAIM, *run.parts_of.get(LATEST, ())})
    return _plan(case, Action.TRIM if delete else Action.KEEP, reason, delete=delete)


def _prune(case: RetentionCase, reason: str, *, is_thorough: bool = True) -> RunPlan:
    """Return what the rules take, and the parts that nothing refers to.

    To look for these where no checkpoint goes is `is_thorough`: every checkpoint must have been read. So is
    to cut every batch that holds more than the limits allow. A lost segment of the index is made anew.
    """
    run, index = case.run, case.run.index
    if index is None:
        return _plan(case, Action.KEEP, reason)
    index = index.folded(case.layout.run_folder(run.run_id)) if run.is_torn else index
    mended = _rewritten_segments(case, index) | {INDEX: index.to_bytes()} if run.is_torn else {}
    reason = f"{reason}; a lost segment of its index is made anew" if mended else reason
    if run.latest is None and _is_style_needed(case, index):
        return _ask(case, LATEST)
    style = run.latest.style if run.latest else ""
    removed = find_prunable(index, style, case.rules, case.layout, is_old=_is_old_in(case))
    least = 1 if is_thorough else WORTH_CUTTING
    torn = find_torn(index, style, case.rules, case.layout, is_old=_is_old_in(case), least=least)
    if unread := [name for name in torn if name not in run.texts_of]:
        return _ask(case, *unread)
    leftovers = find_leftovers(run, index, case.layout)
    if not removed and not torn and not (is_thorough and run.parts):
        return _plan(case, _action_of(leftovers, mended), reason, delete=leftovers, write=mended)
    names = {case.layout.name_of(run.run_id, entry.file_path) for entry in index.all_entries}
    delete = leftovers | {name: run.files[name] for name in names & removed.keys()}
    if run.parts:
        kept = sorted(name for name in names if name not in delete)
        if unread := [name for name in kept if name not in run.parts_of]:
            return _ask(case, *unread)
        used = {part for name in kept for part in run.parts_of[name]}
        delete |= {name: run.files[name] for name in run.parts if name not in used}
    if not removed and not torn:
        return _plan(case, _action_of(delete, mended), reason, delete=delete, write=mended)
    beyond = [entry for entries in (*removed.values(), *torn.values()) for entry in entries]
    rest = index.without({entry.checkpoint_id for entry in beyond})
    reason = f"{reason}; {len(beyond)} of its {index.checkpoint_count} checkpoints are beyond the limits"
    cut = [cut_batch(rest, name, run.texts_of[name], case.layout) for name in torn]
    rest = rest.with_moved({entry.checkpoint_id: entry for each in cut for entry in each.entries})
    write = {each.name: each.content for each in cut} | _rewritten_segments(case, rest)
    delete |= {name: run.files[name] for name in torn} | _dropped_segments(case, index, rest)
    delete = {name: file for name, file in delete.items() if name not in write}
    # The index comes last: it must not name a file that is not there.
    write[INDEX] = rest.to_bytes()
    return _plan(case, Action.PRUNE, reason, delete=delete, write=write)


def _action_of(delete: Mapping[str, RemoteFile], mended: Mapping[str, bytes]) -> Action:
    if delete:
        return Action.PRUNE
    return Action.MEND if mended else Action.KEEP


def _rewritten_segments(case: RetentionCase, rest: Index) -> dict[str, bytes]:
    """Return the segments that are not as they were, by name."""
    before = set(case.run.snapshot.index.segments)
    return {
        case.layout.name_of(rest.run_id, segment.file_path): segment.to_bytes(rest.run_id)
        for segment in rest.segments
        if segment not in before
    }


def _dropped_segments(case: RetentionCase, index: Index, rest: Index) -> dict[str, RemoteFile]:
    """Return the files of segments that the index does not name any more."""
    kept = {segment.file_path for segment in rest.segments}
    gone = (segment.file_path for segment in index.segments if segment.file_path not in kept)
    names = (case.layout.name_of(index.run_id, path) for path in gone)
    return {name: case.run.files[name] for name in names if name in case.run.files}


def _is_style_needed(case: RetentionCase, index: Index) -> bool:
    """Whether the limit depends on a style that only the latest tells."""
    rules = case.rules
    count = index.checkpoint_count
    return rules.checkpoints is None and count > (rules.least_limit or count)


def _is_old_in(case: RetentionCase) -> Callable[[IndexEntry], bool]:
    """Return what tells whether a checkpoint is older than the rules let it be."""
    run, days = case.run, case.rules.days
    if days is None:
        return lambda _: False
    return lambda entry: run.is_older(case.layout.name_of(run.run_id, entry.file_path), days)


def find_prunable(
    index: Index,
    style: str,
    rules: RetentionRules,
    layout: Layout,
    *,
    is_old: Callable[[IndexEntry], bool] = lambda _: False,
) -> dict[str, list[IndexEntry]]:
    """Return the checkpoints that the rules within a run take from it, by file.

    Here a batch goes as a whole or not at all, see `find_torn`. The newest checkpoint always stays. `is_old`
    tells which are older than the rules let them be: only GitHub knows.
    """
    kept = _kept(index, style, rules, is_old)
    files: dict[str, list[IndexEntry]] = {}
    for entry in index.all_entries:
        files.setdefault(layout.name_of(index.run_id, entry.file_path), []).append(entry)
    return {
        name: entries
        for name, entries in files.items()
        if not any(entry.checkpoint_id in kept for entry in entries)
    }


def find_torn(
    index: Index,
    style: str,
    rules: RetentionRules,
    layout: Layout,
    *,
    is_old: Callable[[IndexEntry], bool] = lambda _: False,
    least: int = 1,
) -> dict[str, list[IndexEntry]]:
    """Return what is beyond the rules in batches of which the rest stays, by file, where `least` or more are.

    A batch can have hundreds of checkpoints. If it went only as a whole, a single one of them that is within
    the limit would keep them all.
    """
    kept = _kept(index, style, rules, is_old)
    files: dict[str, list[IndexEntry]] = {}
    for entry in index.all_entries:
        files.setdefault(layout.name_of(index.run_id, entry.file_path), []).append(entry)
    beyond = {
        name: [entry for entry in entries if entry.checkpoint_id not in kept]
        for name, entries in files.items()
    }
    return {name: entries for name, entries in beyond.items() if least <= len(entries) < len(files[name])}


@dataclass(frozen=True, slots=True)
class CutBatch:
    """The file that takes the place of a batch, and what an index says of those in it."""

    name: str
    content: bytes
    entries: tuple[IndexEntry, ...]


def cut_batch(rest: Index, batch: str, texts: Mapping[str, bytes], layout: Layout) -> CutBatch:
    """Return what is left of a batch, of which only those in the index `rest` stay, byte for byte."""
    path = layout.path(rest.run_id, batch)
    kept = [entry for entry in rest.all_entries if entry.file_path == path]
    numbers = [entry.sequence for entry in kept]
    content = join_batch([texts[entry.checkpoint_id] for entry in kept], numbers)
    name = format_batch_name(numbers[0], numbers[-1])
    if len(kept) == 1:
        content = texts[kept[0].checkpoint_id]
        name = format_checkpoint_name(numbers[0], Trigger(kept[0].trigger))
    entries = tuple(replace(entry, file_path=layout.path(rest.run_id, name)) for entry in kept)
    return CutBatch(name, content, entries)


def _kept(index: Index, style: str, rules: RetentionRules, is_old: Callable[[IndexEntry], bool]) -> set[str]:
    limit = rules.limit_for(style)
    entries = index.all_entries[-limit:] if limit else index.all_entries
    if rules.per_phase is not None:
        entries = tuple(_newest_of_each_phase(entries, rules.per_phase))
    young = [entry for entry in entries if not is_old(entry)]
    newest = (index.current,) if index.current else ()
    return {entry.checkpoint_id for entry in (*young, *newest, *index.entries[-1:])}


def _newest_of_each_phase(entries: Iterable[IndexEntry], limit: int) -> list[IndexEntry]:
    """Return at most `limit` of each phase. An old index does not tell the phase; its entries all stay."""
    seen: dict[str, int] = {}
    kept = []
    for entry in reversed(list(entries)):
        seen[entry.phase] = seen.get(entry.phase, 0) + 1
        if not entry.phase or seen[entry.phase] <= limit:
            kept.append(entry)
    return kept


def _ours_but(run: ScannedRun, kept: Iterable[str]) -> dict[str, RemoteFile]:
    stays = set(kept)
    return {name: file for name, file in run.files.items() if is_ours(name) and name not in stays}


def _named(run: ScannedRun, name: str) -> dict[str, RemoteFile]:
    return {name: run.files[name]} if name in run.files else {}


def _ask(case: RetentionCase, *names: str) -> RunPlan:
    """Return that nothing can be said before these files are opened."""
    return RunPlan(case.run.run_id, Action.KEEP, "not decided yet", case.last_written, unread=names)


def _plan(
    case: RetentionCase,
    action: Action,
    reason: str,
    *,
    delete: Mapping[str, RemoteFile] | None = None,
    write: Mapping[str, bytes] | None = None,
    keeps_record: bool = True,
) -> RunPlan:
    known = None if case.run.is_archived else case.record
    record = RunRecord(case.started_at, case.last_written) if delete and keeps_record else known
    return RunPlan(
        run_id=case.run.run_id,
        action=action,
        reason=reason,
        last_written=case.last_written,
        delete=delete or {},
        write={
            name: content
            for name, content in (write or {}).items()
            if name not in case.run.files or case.run.files[name].sha != blob_sha(content)
        },
        record=record if keeps_record else None,
        record_before=known,
    )
