"""Where each file lives in the repository: the one place that formats and parses paths."""

import re
from dataclasses import dataclass
from functools import lru_cache

from holdfast.format.triggers import Trigger

INDEX = "index.json"
LATEST = "latest.json"
SUMMARY = "summary.json"
CLAIM = "claim.json"
PARTS = "parts"
PRESERVED_RUNS = "preserved_runs.json"
RETENTION_LOG = "retention_log.json"

MAX_SEQUENCE = 999_999_999
MOST_DIGITS = len(str(MAX_SEQUENCE))

SINGLE_PATTERN = rf"cp_([0-9]{{3,{MOST_DIGITS}}})_[a-z_]+\.json"
BATCH_PATTERN = rf"batch_([0-9]{{1,{MOST_DIGITS}}})_([0-9]{{1,{MOST_DIGITS}}})\.json"

_CHECKPOINT = re.compile(SINGLE_PATTERN)
_BATCH = re.compile(BATCH_PATTERN)
_SEGMENT = re.compile(rf"index_(\d{{1,{MOST_DIGITS}}})_(\d{{1,{MOST_DIGITS}}})\.json", re.ASCII)


def format_checkpoint_name(sequence: int, trigger: Trigger) -> str:
    """Return the file name of a single checkpoint, within its run's folder.

    >>> format_checkpoint_name(7, Trigger.MANUAL)
    'cp_007_manual.json'
    """
    return f"cp_{sequence:03d}_{trigger}.json"


def format_batch_name(first: int, last: int) -> str:
    """Return the file name of a batch, within its run's folder.

    >>> format_batch_name(7, 12)
    'batch_7_12.json'
    """
    return f"batch_{first}_{last}.json"


def format_segment_name(first: int, last: int) -> str:
    """Return the file name of a closed segment of the index, within its run's folder.

    >>> format_segment_name(1, 80)
    'index_1_80.json'
    """
    return f"index_{first}_{last}.json"


def parse_segment_name(name: str) -> range:
    """Return the sequence numbers between the first and the last of a segment; empty if it is not one.

    >>> parse_segment_name("index_1_80.json"), parse_segment_name("index.json")
    (range(1, 81), range(0, 0))
    """
    match = _SEGMENT.fullmatch(name)
    return range(int(match[1]), int(match[2]) + 1) if match else range(0)


@lru_cache(maxsize=65_536)  # a writer looks at every name of a long run, with each checkpoint
def parse_sequences(name: str) -> range:
    """Return the sequence numbers that a file name speaks for; empty if it is not a checkpoint's.

    A batch holds the first and the last of them; of those between, it may lack any.

    >>> parse_sequences("cp_007_manual.json"), parse_sequences("batch_3_5.json"), parse_sequences("x.json")
    (range(7, 8), range(3, 6), range(0, 0))
    """
    if match := _CHECKPOINT.fullmatch(name):
        return range(int(match[1]), int(match[1]) + 1)
    if match := _BATCH.fullmatch(name):
        return range(int(match[1]), int(match[2]) + 1)
    return range(0)


def parse_checkpoint_name(name: str) -> tuple[int, str] | None:
    """Return the number and the trigger that a single checkpoint's file is named by; None for other files.

    >>> parse_checkpoint_name("cp_007_manual.json"), parse_checkpoint_name("batch_3_5.json")
    ((7, 'manual'), None)
    """
    match = _CHECKPOINT.fullmatch(name)
    return (int(match[1]), name[match.end(1) + 1 : -len(".json")]) if match else None


def is_single(name: str) -> bool:
    """Whether a file name is that of a single checkpoint.

    >>> is_single("cp_007_manual.json"), is_single("batch_3_5.json")
    (True, False)
    """
    return _CHECKPOINT.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths below one base folder of the repository."""

    base_path: str = "checkpoints"

    def run_folder(self, run_id: str) -> str:
        """Return the folder that holds everything of one run."""
        return f"{self.base_path}/{run_id}"

    def path(self, run_id: str, name: str) -> str:
        """Return where the file `name` of a run lives.

        >>> Layout().path("build-42", "index.json")
        'checkpoints/build-42/index.json'
        """
        return f"{self.base_path}/{run_id}/{name}"

    def checkpoint_path(self, run_id: str, sequence: int, trigger: Trigger) -> str:
        """Return where a single checkpoint of a run lives."""
        return self.path(run_id, format_checkpoint_name(sequence, trigger))

    def is_part(self, path: str) -> bool:
        """Whether a path is that of a part of an oversized checkpoint.

        >>> Layout().is_part("checkpoints/r/parts/0a.json"), Layout().is_part("checkpoints/parts/index.json")
        (True, False)
        """
        return path.removeprefix(f"{self.base_path}/").split("/")[1:2] == [PARTS]

    def name_of(self, run_id: str, path: str) -> str:
        """Return the name of a run's file from its whole path; the path itself if it is elsewhere.

        The specification writes paths with a slash before them, and so do other programs.

        >>> [Layout().name_of("r", path) for path in ("/checkpoints/r/a.json", "checkpoints/r/a.json")]
        ['a.json', 'a.json']
        """
        return path.removeprefix("/").removeprefix(self.run_folder(run_id) + "/")

    def parse_path(self, path: str) -> tuple[str, str]:
        """Return the run that a file belongs to and its name within it; nothing if it belongs to none.

        >>> Layout().parse_path("checkpoints/build-42/parts/1.json")
        ('build-42', 'parts/1.json')
        >>> Layout().parse_path("checkpoints/preserved_runs.json")
        ('', '')
        """
        path = path.removeprefix("/")
        run_id, _, name = path.removeprefix(self.base_path + "/").partition("/")
        is_inside = path.startswith(self.base_path + "/")
        return (run_id, name) if is_inside and name else ("", "")
