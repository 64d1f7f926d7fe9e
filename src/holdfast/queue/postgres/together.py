"""Many callers, few transactions: what arrives while they commit shares the next.

A commit costs the same for one checkpoint as for many, so that threads which save at once do not wait for
one another's.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

WorkT = TypeVar("WorkT")
ResultT = TypeVar("ResultT")

MOST_TOGETHER = 64


@dataclass(eq=False)
class _CallersWork(Generic[WorkT, ResultT]):
    """The work of one caller, and what became of it."""

    work: WorkT
    is_done: bool = False
    result: list[ResultT] = field(default_factory=list)
    error: BaseException | None = None


class Together(Generic[WorkT, ResultT]):
    """Carries out the work of callers in groups, in the order of their arrival, `most_groups` at a time.

    The first caller carries out the work of all who have come meanwhile, then another one does. `carry_out`
    returns a result for each, or fails for all of them.
    """

    def __init__(
        self, carry_out: Callable[[Sequence[WorkT]], Sequence[ResultT]], most_groups: int = 1
    ) -> None:
        self._carry_out = carry_out
        self._most_groups = most_groups
        self._changed = threading.Condition()
        self._waiting: list[_CallersWork[WorkT, ResultT]] = []
        self._groups = 0

    def do(self, work: WorkT) -> ResultT:
        """Return what became of `work`. Raises what carrying it out raised."""
        turn: _CallersWork[WorkT, ResultT] = _CallersWork(work)
        with self._changed:
            self._waiting.append(turn)
        while group := self._next_group(turn):
            self._settle(group)
        if turn.error:
            raise turn.error
        return turn.result[0]

    def _next_group(self, turn: _CallersWork[WorkT, ResultT]) -> list[_CallersWork[WorkT, ResultT]]:
        """Return whose work is to be carried out by this caller; nobody's once its own is done."""
        with self._changed:
            while self._is_in_hands(turn) and not turn.is_done:
                self._changed.wait()
            if turn.is_done:
                return []
            self._groups += 1
            group, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
            return group

    def _is_in_hands(self, turn: _CallersWork[WorkT, ResultT]) -> bool:
        """Whether another caller carries this work out, or it is not its turn yet."""
        return turn not in self._waiting or self._groups >= self._most_groups

    def _settle(self, group: Sequence[_CallersWork[WorkT, ResultT]]) -> None:
        try:
            results = self._carry_out([turn.work for turn in group])
            for turn, result in zip(group, results, strict=True):
                turn.result = [result]
        except BaseException as error:
            for turn in group:
                turn.error = error
        finally:
            with self._changed:
                for turn in group:
                    turn.is_done = True
                self._groups -= 1
                self._changed.notify_all()
