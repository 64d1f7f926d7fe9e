"""The canonical form of a large JSON text, written a piece at a time."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import Any

import orjson

from holdfast.jsontext.pieces import Large, Run, wrap_run
from holdfast.jsontext.scan import scan_value

# How much of an object with many small members is sorted at once.
_SORTED_BYTES = 6 * 1024**2
# Of so many names one shows how the names are spread.
_SAMPLED = 500

Update = Callable[[bytes | memoryview], object]
_Piece = Callable[[Update], object]


def write_canonical(text: bytes, node: Large, update: Update, *, leaving_out: str | None = None) -> None:
    """Hand the canonical form of a text that was taken apart to `update`, a piece at a time.

    `leaving_out` names a member of the outermost object that does not count.
    """
    opener = text[node.start : node.start + 1]
    if opener == b'"':
        update(orjson.dumps(orjson.loads(memoryview(text)[node.start : node.end])))
        return
    update(opener)
    pieces = _members(text, node, leaving_out) if opener == b"{" else _items(text, node)
    for number, piece in enumerate(pieces):
        if number:
            update(b",")
        piece(update)
    update(b"}" if opener == b"{" else b"]")


def _items(text: bytes, node: Large) -> Iterator[_Piece]:
    for child in node.children:
        if isinstance(child, Large):
            yield partial(write_canonical, text, child)
        else:
            yield partial(_write_inside, _load_exact(text, child, b"["))


def _members(text: bytes, node: Large, leaving_out: str | None) -> Iterator[_Piece]:
    large = {child.name or "": child for child in node.children if isinstance(child, Large)}
    runs = [child for child in node.children if isinstance(child, Run)]
    for low, high in _ranges(text, runs):

        def is_due(name: str, low: str = low, high: str | None = high) -> bool:
            return name >= low and (high is None or name < high) and name != leaving_out

        small = {
            name: value
            for run in runs
            for name, value in _load_exact(text, run, b"{").items()
            if is_due(name)
        }
        names = sorted([*small, *filter(is_due, large)])
        for is_large, group in groupby(names, large.__contains__):
            if is_large:
                yield from (partial(_write_member, text, name, large[name]) for name in group)
            else:
                yield partial(_write_inside, {name: small[name] for name in group})


def _ranges(text: bytes, runs: list[Run]) -> Iterator[tuple[str, str | None]]:
    """Yield ranges of names, in order, so that the members of each fit in memory, about."""
    count = -(-sum(run.end - run.start for run in runs) // _SORTED_BYTES)
    bounds = [""]
    if count > 1:
        sample = sorted(name for run in runs for name in list(_load_exact(text, run, b"{"))[::_SAMPLED])
        bounds += sorted({sample[len(sample) * number // count] for number in range(1, count)} - {""})
    yield from zip(bounds, [*bounds[1:], None], strict=True)


def _write_member(text: bytes, name: str, value: Large, update: Update) -> None:
    update(orjson.dumps(name) + b":")
    write_canonical(text, value, update)


def _write_inside(value: object, update: Update) -> None:
    """Write an object or array without its brackets."""
    update(memoryview(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))[1:-1])


def _load_exact(text: bytes, run: Run, opener: bytes) -> Any:
    """Return a run as a value that orjson writes with every digit as it stands in the text."""
    wrapped = wrap_run(text, run, opener)
    if run.is_plain:
        return orjson.loads(wrapped)
    return scan_value(wrapped, integer=orjson.Fragment, real=orjson.Fragment)
