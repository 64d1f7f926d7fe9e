"""The list of runs that retention never touches, as the repository holds it."""

from collections.abc import Iterable

import orjson

from holdfast.errors import IntegrityFailure


def parse_preserved(content: bytes, path: str) -> frozenset[str]:
    """Return the runs that a file lists: an array of run_ids, or an object with such an array in it.

    People edit this file, so every usual shape is taken. Raises IntegrityFailure for anything else: a list
    that cannot be read must not count as an empty one.

    >>> sorted(parse_preserved(b'["build-1", {"run_id": "build-2"}]', "preserved_runs.json"))
    ['build-1', 'build-2']
    """
    try:
        listed = orjson.loads(content)
        if isinstance(listed, dict):
            lists = [value for value in listed.values() if isinstance(value, list)]
            (listed,) = lists or [list(listed)]
        return frozenset(_run_id_of(item) for item in listed)
    except (ValueError, TypeError, KeyError) as error:
        reason = "it is not a list of run_ids; mend it, or nothing can be cleaned up"
        raise IntegrityFailure(path, reason) from error


def format_preserved(run_ids: Iterable[str]) -> bytes:
    """Return the file's content: one run on each line.

    >>> format_preserved(["b", "a"])
    b'[\\n  "a",\\n  "b"\\n]\\n'
    """
    return orjson.dumps(sorted(run_ids), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _run_id_of(item: object) -> str:
    found = item["run_id"] if isinstance(item, dict) else item
    if not isinstance(found, str):
        raise TypeError("a run_id is a text")
    return found
