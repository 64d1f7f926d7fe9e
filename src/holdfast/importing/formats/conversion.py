"""What all conversions share: identity, time, status, and what is kept of the fields that have no place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid5

from holdfast.errors import InvalidCheckpoint
from holdfast.format.ids import parse_checkpoint_id, parse_timestamp
from holdfast.jsontext.encode import encode_exact
from holdfast.jsontext.members import canonical, sha256_hex
from holdfast.jsontext.parse import Number

# Fixed for ever: the same document gets the same id in every import.
_NAMESPACE = UUID("7d0fbd0e-52d5-4f3b-9c38-0f3b7f0a5f6e")


@dataclass(frozen=True, slots=True)
class Conversion:
    """A checkpoint ready to be submitted, with exact numbers, and what its conversion had to assume."""

    format: str
    checkpoint: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def run_id(self) -> str:
        """Return the run that it goes to."""
        return str(self.checkpoint["run_id"])

    @property
    def checkpoint_id(self) -> str:
        """Return its id, which is the same in every import."""
        return str(self.checkpoint["checkpoint_id"])

    @property
    def timestamp(self) -> str | None:
        """Return when it was made, if that is known."""
        return self.checkpoint.get("timestamp")

    def to_bytes(self) -> bytes:
        """Return the checkpoint as JSON."""
        return encode_exact(self.checkpoint)


@dataclass
class Builder:
    """Puts a checkpoint together from a document, and remembers which of its fields have found a place."""

    format: str
    document: Mapping[str, Any]
    notes: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def take(self, *names: str) -> Any:
        """Return the first of these fields that is there and not null, and count all of them as placed."""
        self.used.update(names)
        return next((self.document[name] for name in names if self.document.get(name) is not None), None)

    def take_number(self, *names: str) -> Number:
        """Return a field that must count something from 0 on. Raises InvalidCheckpoint."""
        value = self.take(*names)
        if not (isinstance(value, Number) and value.text.isdigit()):
            raise InvalidCheckpoint(names[0], "it is not a whole number from 0 on")
        return value

    def identify(self, *names: str) -> str:
        """Return the document's own UUID, else one that its content makes."""
        given = self.take(*names)
        if isinstance(given, str):
            try:
                return parse_checkpoint_id(given)
            except ValueError:
                self.notes.append(f"{names[0]} {given!r} is no UUID: another one was made from the content")
        return str(uuid5(_NAMESPACE, sha256_hex(canonical(encode_exact(self.document)))))

    def name_run(self, given: str | None, *names: str) -> str:
        """Return the run: as the document names it, or as the caller does. Raises InvalidCheckpoint."""
        named = self.take(*names)
        if isinstance(named, str) and named:
            return named
        if given is None:
            raise InvalidCheckpoint(names[0], "it names no run; give one with --run-id")
        return given

    def tell_time(self, *names: str) -> str | None:
        """Return when the checkpoint was made, if the document says so."""
        given = self.take(*names)
        if not isinstance(given, str):
            self.notes.append("it has no time: the time of the import was taken")
            return None
        for text, note in ((given, None), (f"{given}Z", f"{names[0]} has no time zone: taken as UTC")):
            try:
                parse_timestamp(text)
            except ValueError:
                continue
            self.notes += [note] if note else []
            return text
        self.notes.append(f"{names[0]} {given!r} is no time: the time of the import was taken")
        return None

    def build(self, *, checkpoint_id: str, run_id: str, timestamp: str | None, **fields: Any) -> Conversion:
        """Return the checkpoint; what has no place of its own in it is kept in its context."""
        rest = {name: value for name, value in self.document.items() if name not in self.used}
        checkpoint = {
            "checkpoint_id": checkpoint_id,
            "run_id": run_id,
            "timestamp": timestamp,
            **fields,
            "context_fields": {"imported": {"format": self.format, **rest}},
        }
        stated = {name: value for name, value in checkpoint.items() if value is not None}
        return Conversion(self.format, stated, tuple(self.notes))


def rename(record: Any, names: Mapping[str, str]) -> Any:
    """Return a record with some of its fields under other names; anything else is returned as it is.

    >>> rename({"taskId": "a", "result": 1}, {"taskId": "task_id"})
    {'task_id': 'a', 'result': 1}
    """
    if not isinstance(record, dict):
        return record
    return {names.get(name, name): value for name, value in record.items()}
