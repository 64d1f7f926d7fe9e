"""What differs between two JSON documents, as the JSON Patch (RFC 6902) that turns one into the other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from holdfast.jsontext.encode import encode_exact
from holdfast.jsontext.parse import parse_exact

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class PatchOperation:
    """One operation: `before` is what was there, `value` what is there now, as far as it is there."""

    operation: Literal["add", "remove", "replace"]
    path: Path
    before: Any = None
    value: Any = None

    @property
    def pointer(self) -> str:
        """Return the place as a JSON Pointer.

        >>> PatchOperation("remove", ("a/b", 0, "~")).pointer
        '/a~1b/0/~0'
        """
        return "".join(f"/{_escape(str(step))}" for step in self.path)

    def to_mapping(self) -> dict[str, Any]:
        """Return the operation as RFC 6902 writes it."""
        operation = {"op": self.operation, "path": self.pointer}
        return operation if self.operation == "remove" else {**operation, "value": self.value}


@dataclass(frozen=True, slots=True)
class Patch:
    """Changes that, carried out one after the other, turn the first document into the second."""

    changes: Sequence[PatchOperation]

    def to_bytes(self) -> bytes:
        """Return the JSON Patch, with every number as it is written."""
        return encode_exact([change.to_mapping() for change in self.changes])


def compare(before: bytes, after: bytes) -> Patch:
    """Return what turns one JSON text into the other."""
    return Patch(list(compare_values(parse_exact(before), parse_exact(after))))


def compare_values(before: Any, after: Any, path: Path = ()) -> Iterator[PatchOperation]:
    """Yield the changes from one value to another. Numbers in them are exact numbers."""
    pending: list[tuple[Any, Any, Path]] = [(before, after, path)]
    while pending:
        old, new, place = pending.pop()
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _compare_names(old, new, place)
            pending += [(old[name], new[name], (*place, name)) for name in reversed(old) if name in new]
        elif isinstance(old, list) and isinstance(new, list):
            changes, pairs = _compare_items(old, new, place)
            yield from changes
            pending += reversed(pairs)
        elif not _is_same(old, new):
            yield PatchOperation("replace", place, old, new)


def _compare_names(old: dict[str, Any], new: dict[str, Any], path: Path) -> Iterator[PatchOperation]:
    for name, value in old.items():
        if name not in new:
            yield PatchOperation("remove", (*path, name), before=value)
    for name, value in new.items():
        if name not in old:
            yield PatchOperation("add", (*path, name), value=value)


def _compare_items(
    old: list[Any], new: list[Any], path: Path
) -> tuple[list[PatchOperation], list[tuple[Any, Any, Path]]]:
    """Return what came and went in a list, and which items are to be compared, by their places afterwards.

    What both ends share is left alone, so that an item that was put in the middle does not change all that
    follow it.
    """
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    room = shorter - head
    tail = next((at for at in range(room) if old[-1 - at] != new[-1 - at]), room)
    old_end, new_end = len(old) - tail, len(new) - tail
    middle = min(old_end, new_end)
    gone = [
        PatchOperation("remove", (*path, at), before=old[at]) for at in range(old_end - 1, middle - 1, -1)
    ]
    come = [PatchOperation("add", (*path, at), value=new[at]) for at in range(middle, new_end)]
    return [*gone, *come], [(old[at], new[at], (*path, at)) for at in range(head, middle)]


def _is_same(old: Any, new: Any) -> bool:
    # To Python, True equals 1; numbers are no integers here, but a caller's own values may be.
    return type(old) is type(new) and bool(old == new)


def _escape(step: str) -> str:
    return step.replace("~", "~0").replace("/", "~1")
