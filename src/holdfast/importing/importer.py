"""Takes in checkpoints of other systems: recognised, converted, checked, and put into the spool in order."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from holdfast.errors import InvalidCheckpoint, SpoolError
from holdfast.format.checkpoint import draft_from_text, stamp
from holdfast.format.receipt import Receipt
from holdfast.importing.formats import Conversion, convert, recognise, split_documents
from holdfast.styles.resume import find_flaws

ImportOutcome = Literal["migrated", "known", "refused"]

_ANY_TIME = "1970-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Import:
    """What became of one document: taken in, known from before, or refused and why.

    `notes` say what its conversion had to assume.
    """

    source: str
    outcome: ImportOutcome
    format: str | None = None
    run_id: str | None = None
    checkpoint_id: str | None = None
    sequence_number: int | None = None
    reason: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Importer:
    """Puts checkpoints into the spool through `submit`; `find` tells of those that are known already."""

    submit: Callable[[bytes], Receipt]
    find: Callable[[str], Receipt | None]

    def take_in(self, sources: Iterable[tuple[str, bytes]], *, run_id: str | None = None) -> list[Import]:
        """Return what became of every document of these files, which are given by name and content.

        Within a run they are taken in by their times, so that the newest is the newest here as well.
        """
        refused: list[Import] = []
        accepted: list[tuple[str, Conversion]] = []
        for name, content in sources:
            for source, document in _split(name, content, refused):
                try:
                    accepted.append((source, convert(document, run_id=run_id)))
                except InvalidCheckpoint as error:
                    refused.append(Import(source, "refused", recognise(document), reason=str(error)))
        accepted.sort(key=lambda each: _moment(each[1]))
        return [*(self._take_in(source, conversion) for source, conversion in accepted), *refused]

    def _take_in(self, source: str, conversion: Conversion) -> Import:
        identity = (conversion.format, conversion.run_id, conversion.checkpoint_id)
        try:
            text = conversion.to_bytes()
            flaws = _flaws(text)
            known = self.find(conversion.checkpoint_id)
            receipt = self.submit(text)
        except (InvalidCheckpoint, SpoolError) as error:
            return Import(source, "refused", *identity, reason=str(error), notes=conversion.notes)
        outcome: ImportOutcome = "known" if known else "migrated"
        return Import(source, outcome, *identity, receipt.sequence_number, notes=(*conversion.notes, *flaws))


def _split(name: str, content: bytes, refused: list[Import]) -> list[tuple[str, object]]:
    try:
        documents = split_documents(content)
    except InvalidCheckpoint as error:
        refused.append(Import(name, "refused", reason=f"it is not JSON: {error}"))
        return []
    if not documents:
        refused.append(Import(name, "refused", reason="there is no checkpoint in it"))
    if len(documents) == 1:
        return [(name, documents[0])]
    return [(f"{name}#{place}", document) for place, document in enumerate(documents)]


def _flaws(text: bytes) -> list[str]:
    """Return what is wrong with the progress of a checkpoint. Raises InvalidCheckpoint if it is none."""
    draft = draft_from_text(text, now=_ANY_TIME, new_id=lambda: "")
    return find_flaws(stamp(draft.body(1)))


def _moment(conversion: Conversion) -> float:
    """Return when a checkpoint was made; without a time it comes last."""
    timestamp = conversion.timestamp
    try:
        return datetime.fromisoformat(timestamp).timestamp() if timestamp else float("inf")
    except (ValueError, TypeError):
        return float("inf")
