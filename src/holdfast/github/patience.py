"""How long GitHub is waited for: for one answer, and for a GitHub that does not answer at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf

from holdfast.clock import Clock, Stopwatch
from holdfast.errors import Missing, Silent, Unavailable

# GitHub itself gives a request up after 10 s; a server of one's own may take longer.
PATIENCE_S = 30.0
# The first attempt gets most of it. The rest is for another one: a single answer may be lost on its way.
_SHARE = 0.8
# Less is no attempt.
_LEAST_S = 2.0

_longest_s: ContextVar[float] = ContextVar("holdfast_longest_wait_s", default=inf)


@contextmanager
def waiting_at_most(seconds: float) -> Iterator[None]:
    """Have no answer that is asked for here, and in this thread, be waited for any longer."""
    before = _longest_s.set(min(seconds, _longest_s.get()))
    try:
        yield
    finally:
        _longest_s.reset(before)


def longest_wait_s(usual_s: float) -> float:
    """Return how long the next answer may be waited for; as long as usual, unless there is less time."""
    return min(usual_s, _longest_s.get())


class Patience:
    """How long one waits in vain, in all: what one question has used up, the next one does not have.

    An answer renews it. Without one, nobody is asked again for as long as was waited. An error that GitHub
    answers is worth another attempt however long it took, and uses up nothing.
    """

    def __init__(self, clock: Clock, total_s: float = PATIENCE_S) -> None:
        self._clock = clock
        self._total_s = total_s
        self._waited_s = 0.0
        self._since_failure = Stopwatch(clock)

    def is_used_up(self) -> bool:
        """Whether it is of no use to ask, for now."""
        return self._left_s() < _LEAST_S

    @contextmanager
    def asking(self, subject: str) -> Iterator[None]:
        """Ask once, and wait as long as there is patience. Raises Silent once it is used up."""
        if self.is_used_up():
            raise Silent(subject, f"GitHub did not answer for {self._total_s:.0f} s")
        left_s, asked = self._left_s(), Stopwatch(self._clock)
        try:
            with waiting_at_most(_share_of(left_s)):
                yield
        except Unavailable as error:
            if not error.is_late:
                raise
            self._waited_s = self._total_s - left_s + asked.least_s()
            self._since_failure = Stopwatch(self._clock)
            if self.is_used_up():
                raise Silent(error.path, error.reason) from error
            raise
        except Missing:
            self._waited_s = 0.0
            raise
        self._waited_s = 0.0

    def _left_s(self) -> float:
        is_long_ago = self._since_failure.least_s() >= self._total_s
        return self._total_s if is_long_ago else self._total_s - self._waited_s


def _share_of(left_s: float) -> float:
    """Return how long the next answer may take, so that there is time for another attempt.

    >>> _share_of(30.0), _share_of(6.0)
    (24.0, 6.0)
    """
    share_s = left_s * _SHARE
    return share_s if left_s - share_s >= _LEAST_S else left_s
