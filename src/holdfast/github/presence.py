"""Whether a server has GraphQL: github.com has, a small or an old one may not."""

from holdfast.clock import Clock
from holdfast.logs import log

ASK_AGAIN_S = 300.0
"""When a server that seems to have no GraphQL is asked again: a 404 may be a proxy's, or of a moment."""


class GraphqlPresence:
    """What is known of one server; it is believed to have GraphQL until it answers that it has none."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ask_again_at = float("-inf")
        self._is_missed = False

    @property
    def is_likely(self) -> bool:
        """Whether it is worth asking."""
        return self._clock.now() >= self._ask_again_at

    def miss(self) -> None:
        """Learn that the server has none, and do not ask for a while."""
        self._ask_again_at = self._clock.now() + ASK_AGAIN_S
        if not self._is_missed:
            log.warning(
                "graphql_missing", advice="This server has no GraphQL; going on without until it has."
            )
        self._is_missed = True

    def find(self) -> None:
        """Learn that the server has it."""
        if self._is_missed:
            log.info("graphql_found")
        self._is_missed = False
