"""An attribute that is worked out on first use."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class once(Generic[T]):  # noqa: N801 (read as a decorator, like `property`)
    """The method below it, as an attribute that is worked out on first use.

    Unlike `cached_property`, in Python 3.11 no thread waits for the requests of another; unlike `cache` of a
    bound method, the object does not refer to itself: it goes, with all that it has read, as soon as it is
    let go, and does not wait for a collection of garbage, which a sidecar seldom makes.
    """

    def __init__(self, work: Callable[[Any], T]) -> None:
        self._work = work
        self._name = work.__name__
        self.__doc__ = work.__doc__

    def __get__(self, instance: object, owner: type) -> T:
        value = instance.__dict__[self._name] = self._work(instance)
        return value
