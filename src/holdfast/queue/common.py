"""What every queue does alike, wherever it keeps its checkpoints."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from holdfast.errors import HoldfastError
from holdfast.format.receipt import Persistence, Receipt
from holdfast.queue.admission import RunNumbers
from holdfast.queue.contract import DAMAGED, NewItem, PutOutcome, Quarantined

_MAX_REMEMBERED = 10_000


class CommonQueue(ABC):
    """The part of the protocol `Queue` that follows from the rest of it."""

    @abstractmethod
    def put_all(
        self,
        new_items: Sequence[NewItem],
        *,
        persistence: Persistence = Persistence.NORMAL,
        are_new: bool = False,
    ) -> list[PutOutcome]: ...

    @abstractmethod
    def set_aside_entries(self) -> list[Quarantined]: ...

    def put(self, new_item: NewItem, *, persistence: Persistence = Persistence.NORMAL) -> Receipt:
        (outcome,) = self.put_all([new_item], persistence=persistence)
        if isinstance(outcome, HoldfastError):
            raise outcome
        return outcome

    def is_kept_aside(self, checkpoint_id: str) -> bool:
        return any(
            each.item.checkpoint_id == checkpoint_id and each.reason != DAMAGED
            for each in self.set_aside_entries()
        )


class NextNumbers:
    """Guesses at the next number of each run, from what this process has seen.

    They are not read, because a save would wait for whoever is listing. After a wrong guess the body is made
    once more.
    """

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def likely(self, run_id: str) -> int:
        """Return which number a run will probably give next."""
        return self._known.get(run_id, 1)

    def remember(self, numbers: Mapping[str, RunNumbers]) -> None:
        """Let the next guesses begin where these numbers end."""
        if len(self._known) > _MAX_REMEMBERED:
            self._known.clear()
        self._known |= {run_id: each.highest + 1 for run_id, each in numbers.items()}
