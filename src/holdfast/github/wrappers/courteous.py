"""A gateway that lets others go first."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.github.calls import Call, Gateway, ResultT


@dataclass(frozen=True, slots=True)
class CourteousGateway:
    """Performs calls through `inner`, each after `give_way`, which returns soon whatever happens."""

    inner: Gateway
    give_way: Callable[[], None]

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers."""
        self.give_way()
        return self.inner.perform(call)
