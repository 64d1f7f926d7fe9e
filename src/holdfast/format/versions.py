"""The number of the stored format: what a newer Holdfast wrote is left alone by this one."""

from typing import Any

from holdfast.errors import NewerFormat

FORMAT_VERSION = 1
"""Of everything that the repository holds. A new number needs a reader for the old one."""


def is_newer(document: Any) -> bool:
    """Whether a parsed file says that a newer Holdfast wrote it.

    >>> is_newer({"format_version": 2}), is_newer({"format_version": 1}), is_newer({}), is_newer([])
    (True, False, False, False)
    """
    version = document.get("format_version") if isinstance(document, dict) else None
    return isinstance(version, int | float) and version > FORMAT_VERSION


def refuse_newer(document: Any, path: str) -> None:
    """Raise NewerFormat if a newer Holdfast wrote the file: its unknown parts must not be lost to ours."""
    if is_newer(document):
        raise NewerFormat(path, document["format_version"], FORMAT_VERSION)
