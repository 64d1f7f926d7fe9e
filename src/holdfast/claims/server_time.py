"""GitHub's time, from the `Date` of its answers: never from this machine's clock alone.

A claim must end for its holder before it ends for others. So each side is told the worst case: who wants to
take a run learns a time that GitHub's has surely reached, and a holder one that it has surely not passed.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from holdfast.clock import Clock, Stopwatch
from holdfast.github.calls import Answer, Call, Gateway, ResultT


@dataclass(frozen=True, slots=True)
class DateReading:
    """The date of one answer, and how long ago its request was sent and the answer came."""

    date: float
    since_asked: Stopwatch
    since_answered: Stopwatch

    def earliest(self) -> float:
        """Return a time that GitHub's clock has reached by now."""
        return self.date + self.since_answered.least_s()

    def latest(self) -> float:
        """Return a time that GitHub's clock has not passed yet, but for the second that a date leaves out."""
        return self.date + self.since_asked.most_s()


class DatedGateway:
    """Performs calls through `inner`, and remembers when GitHub says that it answered the last of them.

    `open_inner` is given what has to see each answer. Threads do not see one another's.
    """

    def __init__(self, open_inner: Callable[[Callable[[Answer], None]], Gateway], clock: Clock) -> None:
        self._clock = clock
        self._thread = threading.local()
        self._inner = open_inner(self._observe)

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers to `call`, or raise a GatewayError."""
        self._thread.asked = Stopwatch(self._clock)
        self._thread.reading = None
        return self._inner.perform(call)

    def reading(self) -> DateReading:
        """Return what the last answer to this thread said; by the local clock where none has a date."""
        reading: DateReading | None = getattr(self._thread, "reading", None)
        if reading is None:
            return DateReading(self._clock.now(), Stopwatch(self._clock), Stopwatch(self._clock))
        return reading

    def _observe(self, answer: Answer) -> None:
        try:
            date = parsedate_to_datetime(answer.headers["date"]).timestamp()
        except (KeyError, ValueError):
            return
        self._thread.reading = DateReading(date, self._thread.asked, Stopwatch(self._clock))
