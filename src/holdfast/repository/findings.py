"""Checks files as the repository holds them, and says everything that is wrong with them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from holdfast.errors import IntegrityFailure, InvalidCheckpoint
from holdfast.format.checkpoint import Envelope, draft_from_text, open_stored, stamp
from holdfast.format.index import Index, IndexEntry, parse_index
from holdfast.format.stored_file import entry_of, open_checkpoint, split_batch
from holdfast.importing.formats import name_format
from holdfast.jsontext.members import Document, parse_document
from holdfast.jsontext.parse import parse_exact
from holdfast.styles.resume import find_flaws

_ANY_TIME = "1970-01-01T00:00:00Z"
_ANY_ID = "00000000-0000-4000-8000-000000000000"
_ANY_RUN = "unnamed"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong: where, and how that shows."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a check came to: how many checkpoints were looked at, what is wrong, and what to know besides.

    `unchecked` says what could not be looked at, and why.
    """

    subject: str
    checkpoints: int
    findings: Sequence[Finding]
    notes: Sequence[str] = ()
    unchecked: Sequence[str] = ()

    @property
    def is_valid(self) -> bool:
        """Whether everything was looked at, and nothing is wrong."""
        return not self.findings and not self.unchecked


def check_file(content: bytes, path: str) -> Report:
    """Check a file by itself: a checkpoint, stored or to be submitted, a batch, or an index."""
    try:
        document = parse_document(content)
    except InvalidCheckpoint as error:
        return Report(path, 0, [Finding(path, str(error))])
    # A file may have any name here. A checkpoint may have a field `checkpoints` of its caller's.
    if "checkpoints" not in document.value or {"state", "state_snapshot"} & document.value.keys():
        return _check_checkpoint(document, content, path)
    if "run_id" in document.value:
        return _check_index_alone(content, path)
    return _check_batch(document, content, path)


def check_progress(envelope: Envelope, path: str) -> list[Finding]:
    """Check that the stored progress tells where the run goes on."""
    return [Finding(path, flaw) for flaw in find_flaws(envelope)]


def check_index(index: Index, path: str, found: Sequence[IndexEntry]) -> Iterator[Finding]:
    """Check an index against the checkpoints that were found in the files, each as an index would name it."""
    by_id = {entry.checkpoint_id: entry for entry in found}
    for entry in index.all_entries:
        actual = by_id.get(entry.checkpoint_id)
        if actual is None:
            continue  # what is wrong with its file is a finding of its own
        for name in ("sequence", "trigger", "timestamp", "file_path", "status"):
            stated, true = getattr(entry, name), getattr(actual, name)
            if name == "file_path":
                stated = stated.removeprefix("/")  # as the specification writes it
            if stated != true:
                yield Finding(path, f"checkpoint {entry.sequence}: its {name} is {true!r}, not {stated!r}")
    for entry in found:
        if entry.checkpoint_id not in index.by_id:
            yield Finding(entry.file_path, f"checkpoint {entry.sequence} is not in the index")


def check_numbers(sequences: Iterable[int], path: str) -> Iterator[Finding]:
    """Check that no number is there twice."""
    for before, after in pairwise(sorted(sequences)):
        if after == before:
            yield Finding(path, f"two checkpoints have the number {after}")


def tell_gaps(sequences: Iterable[int]) -> Iterator[str]:
    """Tell which numbers nobody has.

    That is nothing wrong: a writer that lost a number to another takes the next one, retention takes some
    away, and callers may count as they like.
    """
    for before, after in pairwise(sorted(set(sequences))):
        if after == before + 2:
            yield f"no checkpoint has the number {before + 1}"
        elif after > before + 2:
            yield f"no checkpoints have the numbers {before + 1} to {after - 1}"


def _check_checkpoint(document: Document, content: bytes, path: str) -> Report:
    if "integrity" not in document.value:
        return _check_submission(content, path)
    try:
        envelope, _ = open_stored(content, path)
    except IntegrityFailure as failure:
        return Report(path, 1, [Finding(failure.path, failure.reason)])
    return Report(path, 1, check_progress(envelope, path))


def _check_submission(content: bytes, path: str) -> Report:
    notes = ["it has no integrity: it was checked as a checkpoint that is still to be submitted"]
    try:
        draft = draft_from_text(content, now=_ANY_TIME, new_id=lambda: _ANY_ID)
    except InvalidCheckpoint as error:
        if error.place != "run_id":
            return Report(path, 1, [Finding(path, str(error))], [*notes, *_tell_format(content)])
        notes.append("it does not name its run")
        draft = draft_from_text(content, now=_ANY_TIME, new_id=lambda: _ANY_ID, run_id=_ANY_RUN)
    return Report(path, 1, check_progress(stamp(draft.body(draft.sequence or 1)), path), notes)


def _tell_format(content: bytes) -> list[str]:
    found = name_format(parse_exact(content))
    return [f"it looks like {found}: holdfast import takes it in"] if found else []


def _check_batch(document: Document, content: bytes, path: str) -> Report:
    findings: list[Finding] = []
    entries: list[IndexEntry] = []
    try:
        texts = split_batch(content, path)
    except IntegrityFailure as failure:
        return Report(path, 0, [Finding(path, failure.reason)])
    for place, text in enumerate(texts):
        try:
            envelope = open_checkpoint(text, path)
        except IntegrityFailure as failure:
            findings.append(Finding(f"{path}#{place}", failure.reason))
            continue
        entries.append(entry_of(envelope, path))
        findings += check_progress(envelope, f"{path}#{place}")
    findings += check_numbers((entry.sequence for entry in entries), path)
    stated = document.value.get("batch_metadata")
    count = stated.get("checkpoint_count") if isinstance(stated, dict) else None
    if count != len(texts):
        findings.append(Finding(path, f"batch_metadata counts {count}, but it holds {len(texts)}"))
    return Report(path, len(texts), findings)


def _check_index_alone(content: bytes, path: str) -> Report:
    try:
        index = parse_index(content, path)
    except IntegrityFailure as failure:
        return Report(path, 0, [Finding(path, failure.reason)])
    findings = list(check_count(content, index, path))
    findings += check_numbers((entry.sequence for entry in index.entries), path)
    return Report(
        path, 0, findings, ["it is an index, checked by itself: name the run to check its files too"]
    )


def check_count(content: bytes, index: Index, path: str) -> Iterator[Finding]:
    """Check that an index counts as many checkpoints as it names."""
    stated = parse_document(content).value.get("checkpoint_count")
    if stated != index.checkpoint_count:
        yield Finding(path, f"checkpoint_count is {stated}, but it names {index.checkpoint_count}")
