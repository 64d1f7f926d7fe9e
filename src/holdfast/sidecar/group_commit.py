"""Checkpoints on their way to the disk: what arrives while one commit runs shares the next one."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from functools import partial

from holdfast.errors import HoldfastError
from holdfast.format.checkpoint import Draft
from holdfast.format.receipt import Receipt
from holdfast.format.triggers import Priority
from holdfast.logs import log
from holdfast.settings.kinds import MEGABYTE

MOST_TOGETHER = 256
MOST_BYTES_TOGETHER = 64 * MEGABYTE
# Whoever was just answered mostly sends its next one at once. To wait so long for it halves the commits
# under load, and with them a fifth of the processor time; PostgreSQL's own `commit_delay` does the same.
GATHERING_S = 0.001

Outcome = Receipt | Exception
Commit = Callable[[Sequence[Draft]], Sequence[Receipt | HoldfastError]]
Settle = Callable[[Outcome], None]
_Waiting = tuple[Draft, Settle]


class GroupCommit:
    """Commits for many requests at once, in one thread. A lone request is committed at once.

    A commit waits for as many as were answered last, `gathering_s` at most: they mostly come again at once.
    `on_committed` is told, in that thread, what became of those that were committed together.
    """

    def __init__(
        self,
        commit: Commit,
        *,
        on_committed: Callable[[Sequence[Outcome], Sequence[Priority]], None],
        gathering_s: float = GATHERING_S,
    ) -> None:
        self._commit = commit
        self._on_committed = on_committed
        self._gathering_s = gathering_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_telling = False
        self._waiting: list[_Waiting] = []
        self._wanted = 1
        """How many must wait for the thread to be told."""
        self._answered = 0
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="holdfast-intake", daemon=True)

    def start(self) -> None:
        """Begin; to be called where the event loop runs."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def close(self) -> None:
        """Commit what is waiting, then end."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()

    async def submit(self, draft: Draft) -> Receipt:
        """Return the receipt once the disk has confirmed it. Raises like `Holdfast.submit`."""
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self.hand_in(draft, partial(_resolve, future))
        return await future

    def hand_in(self, draft: Draft, settle: Settle) -> None:
        """Have `settle` called with the receipt or the error once that is known, in this very event loop."""
        with self._changed:
            self._waiting.append((draft, settle))
        if not self._is_telling:
            # Told once for all that came at the same time: a thread that is woken for the first of them would
            # commit it alone.
            self._is_telling = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        self._is_telling = False
        with self._changed:
            if len(self._waiting) >= self._wanted:
                self._changed.notify()

    def _run(self) -> None:
        while batch := self._take():
            outcomes = self._commit_all([draft for draft, _ in batch])
            assert self._loop is not None  # noqa: S101 (set before the thread starts)
            self._loop.call_soon_threadsafe(_settle, batch, outcomes)
            self._on_committed(outcomes, [draft.priority for draft, _ in batch])

    def _take(self) -> list[_Waiting]:
        """Wait for the next requests, in the order of their arrival; none when it is time to end."""
        with self._changed:
            expected = min(self._answered + len(self._waiting), MOST_TOGETHER)
            self._wait_for(1, None)
            self._wait_for(expected, self._gathering_s)
            self._wanted = 1
            count, size = 0, 0
            for draft, _ in self._waiting[:MOST_TOGETHER]:
                size += draft.size_bytes
                if count and size > MOST_BYTES_TOGETHER:
                    break
                count += 1
            batch, self._waiting = self._waiting[:count], self._waiting[count:]
            self._answered = count
        return batch

    def _wait_for(self, wanted: int, seconds: float | None) -> None:
        """Wait until so many requests are here, for so long at most, or until it is time to end."""
        self._wanted = wanted
        self._changed.wait_for(lambda: self._is_closing or len(self._waiting) >= wanted, seconds)

    def _commit_all(self, drafts: list[Draft]) -> Sequence[Outcome]:
        try:
            return self._commit(drafts)
        except HoldfastError as error:
            return [error] * len(drafts)
        except Exception as error:
            if len(drafts) > 1:
                # One of them may be to blame: the others must not suffer for it.
                return [outcome for draft in drafts for outcome in self._commit_all([draft])]
            log.exception("commit_failed", checkpoint_id=drafts[0].checkpoint_id)
            return [error]


def _settle(batch: Sequence[_Waiting], outcomes: Sequence[Outcome]) -> None:
    for (draft, settle), outcome in zip(batch, outcomes, strict=True):
        try:
            settle(outcome)
        except Exception:  # the others are to be answered all the same
            log.exception("answer_failed", checkpoint_id=draft.checkpoint_id)


def _resolve(future: "asyncio.Future[Receipt]", outcome: Outcome) -> None:
    if future.done():  # its client has gone; the checkpoint is stored all the same
        return
    if isinstance(outcome, Receipt):
        future.set_result(outcome)
    else:
        future.set_exception(outcome)
