"""Validates a whole run: every file by itself, the index against the files, numbers, parts and the spool."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from holdfast.errors import GatewayError, IntegrityFailure, NotInCopy, UnknownRun
from holdfast.format.checkpoint import Envelope
from holdfast.format.claim import parse_claim
from holdfast.format.index import IndexEntry, highest_fence
from holdfast.format.paths import CLAIM, INDEX, LATEST, parse_segment_name, parse_sequences
from holdfast.format.stored_file import entry_of
from holdfast.repository.candidates import Candidate
from holdfast.repository.findings import (
    Finding,
    Report,
    check_count,
    check_index,
    check_numbers,
    check_progress,
    tell_gaps,
)
from holdfast.repository.queued import SpooledRun
from holdfast.repository.reader import Reader
from holdfast.repository.stored_run import StoredRun


@dataclass(frozen=True)
class Validator:
    """Checks runs. What is spooled belongs to a run like what is stored."""

    reader: Reader

    def check_run(self, run_id: str) -> Report:
        """Return everything that is wrong with a run. Raises UnknownRun, or GatewayError as in reading.

        With GitHub away, what is here is checked, and the rest named as unchecked.
        """
        reader = replace(self.reader, trust=replace(self.reader.trust, is_lenient=True))
        waiting = SpooledRun.look(reader.spool, run_id, reader.trust)
        spooled = waiting.open_all(waiting.pending)
        try:
            stored = reader.use_stored(run_id, _check_stored, is_hasty=False)
        except (UnknownRun, GatewayError) as error:
            if not (waiting.pending or waiting.aside):
                raise
            is_away = isinstance(error, GatewayError)
            stored = _Checked(unchecked=[f"GitHub could not be read ({error})"] if is_away else [])
        findings = [*stored.findings, *(Finding("spool", warning) for warning in waiting.warnings)]
        for envelope in spooled:
            findings += check_progress(envelope, f"spool#{envelope.sequence}")
        known = {entry.checkpoint_id for entry in stored.entries}
        added = [envelope.sequence for envelope in spooled if envelope.checkpoint_id not in known]
        numbers = [*(entry.sequence for entry in stored.entries), *added]
        all_numbers = [*numbers, *stored.unread]
        findings += check_numbers(all_numbers, self.reader.layout.run_folder(run_id))
        notes = [*tell_gaps(all_numbers), *_tell_spool(waiting, all_numbers)]
        return Report(run_id, len(numbers), findings, notes, stored.unchecked)


@dataclass(frozen=True, slots=True)
class _Checked:
    """What was found in the files; `unread` has the numbers of those that the local copy lacks."""

    entries: list[IndexEntry] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)


def _check_stored(run: StoredRun) -> _Checked:
    if not run.exists:
        run.newest()  # it says why there is nothing
    checked = _Checked(unchecked=list(run.warnings))  # only that this is the local copy
    run.fetch_all()
    envelopes = dict(_open_all(run, checked))
    checked.entries.extend(_entries(run, envelopes))
    for candidate, envelope in envelopes.items():
        checked.findings.extend(check_progress(envelope, candidate.path_in(run.layout, run.run_id)))
    if _is_reduced(run):
        _check_reduced(run, checked)
    else:
        _check_index(run, checked)
        _check_latest(run, checked)
    if CLAIM in run.files:
        _check_claim(run, checked)
    return checked


def _open_all(run: StoredRun, checked: _Checked) -> Iterator[tuple[Candidate, Envelope]]:
    failures: list[IntegrityFailure] = []
    for candidate in reversed(list(run.candidates(is_whole=True))):
        try:
            yield candidate, run.open(candidate)
        except NotInCopy as failure:
            checked.unread.append(candidate.sequence)
            checked.unchecked.append(str(failure))
        except IntegrityFailure as failure:
            failures.append(failure)
    failures += run.damages  # also those that nobody has asked for
    checked.findings.extend(dict.fromkeys(Finding(failure.path, failure.reason) for failure in failures))


def _entries(run: StoredRun, envelopes: dict[Candidate, Envelope]) -> list[IndexEntry]:
    """Return what was found, as an index would name it; an index that names the same twice names it once."""
    found = {
        (envelope.checkpoint_id, candidate.name): entry_of(
            envelope, candidate.path_in(run.layout, run.run_id)
        )
        for candidate, envelope in envelopes.items()
    }
    return list(found.values())


def _check_index(run: StoredRun, checked: _Checked) -> None:
    """Check the files against the index; against the one that they ought to have if it is lost."""
    path = run.layout.path(run.run_id, INDEX)
    try:
        index = run.read_index()
        checked.findings.extend(check_count(run.read(INDEX), index, path))
        segments = tuple(run.read_segment(segment, index) for segment in index.segments)
        index = replace(index, segments=segments)
    except IntegrityFailure as failure:
        _enter(failure, checked)
        index = run.listing()
    checked.findings.extend(check_index(index, path, checked.entries))


def _check_latest(run: StoredRun, checked: _Checked) -> None:
    try:
        latest = run.read_latest()
    except IntegrityFailure as failure:
        _enter(failure, checked)
        return
    numbers = [*(entry.sequence for entry in checked.entries), *checked.unread]
    newest = max(numbers, default=latest.sequence)
    fences = highest_fence(entry for entry in checked.entries if entry.sequence <= latest.sequence)
    later = [entry for entry in checked.entries if entry.sequence > latest.sequence]
    is_taken_over = bool(later) and all(0 < entry.fence < fences for entry in later)
    if latest.sequence != newest and not is_taken_over:
        path = run.layout.path(run.run_id, LATEST)
        reason = f"it holds checkpoint {latest.sequence}, but the newest is {newest}"
        checked.findings.append(Finding(path, reason))


def _is_reduced(run: StoredRun) -> bool:
    """Whether latest.json is all that is left, as retention leaves an older run."""
    if LATEST not in run.files or INDEX in run.files:
        return False
    return not any(parse_segment_name(name) or parse_sequences(name) for name in run.files)


def _check_reduced(run: StoredRun, checked: _Checked) -> None:
    path = run.layout.path(run.run_id, LATEST)
    try:
        latest = run.read_latest()
    except IntegrityFailure as failure:
        _enter(failure, checked)
        return
    checked.entries.append(entry_of(latest, path))
    checked.findings.extend(check_progress(latest, path))


def _check_claim(run: StoredRun, checked: _Checked) -> None:
    try:
        parse_claim(run.read(CLAIM), run.layout.path(run.run_id, CLAIM), run.run_id)
    except IntegrityFailure as failure:
        _enter(failure, checked)


def _enter(failure: IntegrityFailure, checked: _Checked) -> None:
    if isinstance(failure, NotInCopy):
        checked.unchecked.append(str(failure))
    else:
        checked.findings.append(Finding(failure.path, failure.reason))


def _tell_spool(waiting: SpooledRun, numbers: list[int]) -> Iterator[str]:
    if waiting.pending:
        yield f"still in the spool: {len(waiting.pending)} of its checkpoints"
    for item in waiting.aside:
        yield f"checkpoint {item.sequence} is set aside: {waiting.reasons[item.checkpoint_id]}"
    if numbers and min(numbers) > 1:
        yield f"it begins with checkpoint {min(numbers)}: those before were pruned, or never stored"
