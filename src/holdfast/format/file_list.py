"""The files of a run's folder as one text, in which one is found without parsing all the others."""

import re
from collections.abc import ItemsView, Iterable, Iterator, Mapping
from functools import cached_property

from holdfast.format.paths import BATCH_PATTERN, SINGLE_PATTERN, parse_sequences
from holdfast.format.run_snapshot import RemoteFile

# Git takes neither of these for the name of a file.
_BEFORE, _AFTER = b"\0", b"/"
_RECORD = re.compile(rb"([^\0/]+)/([^\0/ ]*) ([0-9]+)")
_OTHER_THAN_CHECKPOINTS = re.compile(rb"\0(?!cp_|batch_)([^\0/]+)/([^\0/ ]*) ([0-9]+)")
# Two patterns that each begin with a text are searched three times as fast as one with a choice.
_SINGLES, _BATCHES = (
    re.compile(rf"\0{pattern}(?![^\0/])".encode()) for pattern in (SINGLE_PATTERN, BATCH_PATTERN)
)


class FileList(Mapping[str, RemoteFile]):
    """The files by name, in their order: one is found in a long list as quickly as in a short one."""

    def __init__(self, text: bytes, highest_number: int | None = None) -> None:
        self._text = text
        self._highest_number = highest_number

    @classmethod
    def of(cls, files: Mapping[str, RemoteFile]) -> "FileList":
        """Return the list of these files."""
        if isinstance(files, cls):
            return files
        names = sorted((name.encode("utf-8", "surrogatepass"), file) for name, file in files.items())
        records = (b"%b/%b %d" % (name, file.sha.encode(), file.size_bytes) for name, file in names)
        return cls(b"".join(_BEFORE + record for record in records) + _BEFORE)

    def to_bytes(self) -> bytes:
        """Return what `FileList` takes."""
        return self._text

    def __getitem__(self, name: str) -> RemoteFile:
        wanted = name.encode("utf-8", "surrogatepass")
        low, high = 0, len(self._text) - 1
        while low < high:
            # Between two ends that are both at the beginning of a record, the one in the middle is looked at.
            start = self._text.rfind(_BEFORE, 0, (low + high) // 2 + 1)
            end = self._text.index(_BEFORE, start + 1)
            found, _, rest = self._text[start + 1 : end].partition(_AFTER)
            if found == wanted:
                sha, _, size = rest.partition(b" ")
                return RemoteFile(sha.decode(), int(size))
            low, high = (end, high) if found < wanted else (low, start)
        raise KeyError(name)

    def __len__(self) -> int:
        return max(0, self._text.count(_BEFORE) - 1)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parsed)

    def items(self) -> ItemsView[str, RemoteFile]:
        """Return the files with their names: all are parsed at once."""
        return self._parsed.items()

    @cached_property
    def _parsed(self) -> dict[str, RemoteFile]:
        return _parse(_RECORD, self._text)

    def beside_checkpoints(self) -> dict[str, RemoteFile]:
        """Return the files that hold no checkpoints of their own: index, segments, latest, and others."""
        return _parse(_OTHER_THAN_CHECKPOINTS, self._text)

    @property
    def highest_number(self) -> int:
        """Return the highest number that the name of a checkpoint's file has; 0 if there is none."""
        if self._highest_number is None:
            self._highest_number = _find_highest(self._text)
        return self._highest_number


def find_highest(names: Iterable[str]) -> int:
    """Return the highest number that the name of a checkpoint's file has; 0 if there is none."""
    return _find_highest("\0".join(("", *names)).encode("utf-8", "surrogatepass"))


def _find_highest(text: bytes) -> int:
    spans = ((int(first), int(last)) for first, last in _BATCHES.findall(text))
    ends = [last for first, last in spans if first <= last]
    return max([0, *map(int, _SINGLES.findall(text)), *ends])


def _parse(pattern: re.Pattern[bytes], text: bytes) -> dict[str, RemoteFile]:
    return {
        name.decode("utf-8", "surrogatepass"): RemoteFile(sha.decode(), int(size))
        for name, sha, size in pattern.findall(text)
    }


def highest_number(files: Mapping[str, RemoteFile]) -> int:
    """Return the highest number that the name of a checkpoint's file has; 0 if there is none."""
    if isinstance(files, FileList):
        return files.highest_number
    return max((numbers[-1] for name in files if (numbers := parse_sequences(name))), default=0)


class Blobs(Mapping[str, str]):
    """The blobs of files, by name."""

    def __init__(self, files: Mapping[str, RemoteFile]) -> None:
        self._files = files

    def __getitem__(self, name: str) -> str:
        return self._files[name].sha

    def __len__(self) -> int:
        return len(self._files)

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)
