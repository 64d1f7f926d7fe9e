"""Places where the checkpoints of a run may lie, in the order in which a reader tries them."""

from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count, pairwise
from typing import NamedTuple

from holdfast.format.index import IndexEntry
from holdfast.format.paths import Layout, is_single, parse_sequences


class Candidate(NamedTuple):
    """A place where a checkpoint may lie: a file by name, and the index's entry for it, if there is one."""

    sequence: int
    name: str
    entry: IndexEntry | None = None

    def path_in(self, layout: Layout, run_id: str) -> str:
        """Return the whole path of the file that is meant."""
        if self.entry is None:
            return layout.path(run_id, self.name)
        return self.entry.file_path.removeprefix("/")


class _Turn(NamedTuple):
    """When a candidate comes: by its number, downwards.

    Of one number, a batch comes first, to be opened (rank 0), then what the index names (1), then the others
    by their names (2). `arrival` tells apart what is alike in all of that.
    """

    place: int
    rank: int
    name: str
    arrival: int
    candidate: Candidate


def find_candidates(
    named: Iterable[Candidate], files: Iterable[str], numbers_in: Callable[[str], Iterable[int]]
) -> Iterator[Candidate]:
    """Yield every place where a checkpoint may lie, by index and file names, the newest first.

    Of two that claim a number, the one that is in the index comes first. A batch is opened by `numbers_in`
    when its turn comes, since its name does not tell which numbers it lacks.
    """
    arrivals = count()

    def turn_of(candidate: Candidate, rank: int) -> _Turn:
        return _Turn(-candidate.sequence, rank, candidate.name, next(arrivals), candidate)

    waiting = [turn_of(candidate, 1) for candidate in named]
    known = {(-turn.place, turn.name) for turn in waiting}
    for name in files:
        numbers = parse_sequences(name)
        if numbers and not is_single(name):
            waiting.append(turn_of(Candidate(numbers[-1], name), 0))
        elif numbers and (numbers[0], name) not in known:
            waiting.append(turn_of(Candidate(numbers[0], name), 2))
    heapify(waiting)
    while waiting:
        turn = heappop(waiting)
        if turn.rank:
            yield turn.candidate
            continue
        for number in numbers_in(turn.name):
            if (number, turn.name) not in known:
                heappush(waiting, turn_of(Candidate(number, turn.name), 2))


def has_rivals(files: Collection[str]) -> bool:
    """Whether two files may claim one number, by their names.

    >>> has_rivals(["cp_003_manual.json", "batch_1_3.json"])
    True
    >>> has_rivals(["cp_004_manual.json", "batch_1_3.json"])
    False
    """
    spans = sorted((numbers[0], numbers[-1]) for name in files if (numbers := parse_sequences(name)))
    return any(start <= end for (_, end), (start, _) in pairwise(spans))
