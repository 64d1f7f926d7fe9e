"""The list of runs that retention never touches, as the repository holds it."""

from typing import Any

import orjson

from holdfast.errors import IntegrityFailure
from holdfast.format.versions import refuse_newer

_VERSION = "format_version"


def parse_preserved(content: bytes, path: str) -> frozenset[str]:
    """Return the runs that a file lists: an array of run_ids, or an object with such an array in it.

    People edit this file, so every usual shape is taken. Raises IntegrityFailure for anything else: a list
    that cannot be read must not count as an empty one.

    >>> sorted(parse_preserved(b'["build-1", {"run_id": "build-2"}]', "preserved_runs.json"))
    ['build-1', 'build-2']
    """
    return frozenset(map(_run_id_of, _listed_in(_parse(content, path))))


def change_preserved(content: bytes, path: str, run_id: str, *, is_wanted: bool) -> bytes:
    """Return the file with or without a run: one run on each line, and all else as people left it.

    Raises like `parse_preserved`.

    >>> change_preserved(b'["b"]', "preserved_runs.json", "a", is_wanted=True)
    b'[\\n  "a",\\n  "b"\\n]\\n'
    """
    document = _parse(content, path)
    if isinstance(document, dict) and not _lists_in(document):
        rest = {name: value for name, value in document.items() if name != run_id}
        document = {**rest, run_id: None} if is_wanted else rest
    else:
        listed = _listed_in(document)
        kept = [item for item in listed if _run_id_of(item) != run_id]
        listed[:] = sorted([*kept, run_id] if is_wanted else kept, key=_run_id_of)
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _parse(content: bytes, path: str) -> Any:
    """Return the document, which is sound. Raises IntegrityFailure, NewerFormat if it is a later one."""
    try:
        document = orjson.loads(content)
        refuse_newer(document, path)
        for item in _listed_in(document):
            _run_id_of(item)
    except (ValueError, TypeError, KeyError) as error:
        reason = "it is not a list of run_ids; mend it, or nothing can be cleaned up"
        raise IntegrityFailure(path, reason) from error
    return document


def _listed_in(document: Any) -> Any:
    """Return what lists the runs: the document, or the one list in it; its own members if it has none."""
    if not isinstance(document, dict):
        return document
    (listed,) = _lists_in(document) or [[name for name in document if name != _VERSION]]
    return listed


def _lists_in(document: dict[str, Any]) -> list[Any]:
    return [value for value in document.values() if isinstance(value, list)]


def _run_id_of(item: object) -> str:
    found = item["run_id"] if isinstance(item, dict) else item
    if not isinstance(found, str):
        raise TypeError("a run_id is a text")
    return found
