"""Failures on request: which requests a rule hits, and what becomes of them."""

import json
import random
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from holdfast.emulator.exchange import Request

Target = Literal[
    "any", "read", "write", "graphql", "mutation", "get", "head", "put", "post", "patch", "delete"
]
WRITE_METHODS = frozenset({"PUT", "POST", "PATCH", "DELETE"})
_QUERY = re.compile(rb'"query"\s*:\s*("(?:[^"\\]|\\.)*")')
_MUTATION = re.compile(r"\bmutation\b")


@dataclass(frozen=True)
class AnswerWith:
    """Answer with this status instead; after the write was applied, or without applying it."""

    status: int
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    after_write: bool = False


@dataclass(frozen=True)
class Delay:
    """Apply the request, then hold the answer back."""

    seconds: float


@dataclass(frozen=True)
class Cut:
    """Close the connection without a byte of answer; after the write was applied, or without applying it."""

    after_write: bool = False


@dataclass(frozen=True)
class LateWrite:
    """Close the connection at once, and apply the request before the first one that comes `seconds` later."""

    seconds: float


@dataclass(frozen=True)
class Truncate:
    """Announce the whole body, send half of it, close."""


@dataclass(frozen=True)
class WrongLength:
    """Announce a body that is `difference` bytes longer (or shorter, if negative) than it is."""

    difference: int = -1


@dataclass(frozen=True)
class Malform:
    """Answer with a body that is no JSON."""


@dataclass(frozen=True)
class Stale:
    """Answer branch reads from `commits` before; if `hidden`, the newest are unreadable by SHA too."""

    commits: int = 1
    hidden: bool = False


@dataclass(frozen=True)
class HeadMoves:
    """Let a foreign commit land on the branch while the write is under way."""


@dataclass(frozen=True)
class Call:
    """Run callbacks before the request is applied, and after it was applied but not yet answered."""

    before: Callable[[Request], None] | None = None
    after: Callable[[Request], None] | None = None


Effect = AnswerWith | Delay | Cut | LateWrite | Truncate | WrongLength | Malform | Stale | HeadMoves | Call


@dataclass(frozen=True)
class Rule:
    """What happens to which requests.

    `path` is searched for as a regular expression in the decoded path. Of the requests that match, the
    rule hits `times` (all, if None) beginning with the `nth`; `nth` alone hits just that one. Each hit
    happens with `probability`, decided by a random sequence that `seed` fixes.
    """

    effect: Effect
    target: Target = "any"
    path: str | None = None
    nth: int | None = None
    times: int | None = None
    probability: float = 1.0
    seed: int = 0

    def matches(self, request: Request) -> bool:
        """Whether the rule concerns this request at all."""
        if not _concerns(self.target, request):
            return False
        return self.path is None or re.search(self.path, request.decoded_path) is not None


def is_write(request: Request) -> bool:
    """Whether a request changes something; a GraphQL query does not."""
    if request.path.endswith("/graphql"):
        return _MUTATION.search(read_document(request)) is not None
    return request.method in WRITE_METHODS


def read_document(request: Request) -> str:
    """Return the GraphQL document of a request, without reading the megabytes that may surround it."""
    found = _QUERY.search(request.body)
    try:
        return str(json.loads(found.group(1))) if found else ""
    except ValueError:
        return ""


def _concerns(target: Target, request: Request) -> bool:
    is_graphql = request.path.endswith("/graphql")
    match target:
        case "any":
            return True
        case "read":
            return not is_write(request)
        case "write":
            return is_write(request)
        case "graphql":
            return is_graphql
        case "mutation":
            return is_graphql and is_write(request)
        case _:
            return request.method == target.upper()


class _Armed:
    """A rule with its counts."""

    def __init__(self, number: int, rule: Rule) -> None:
        self.number = number
        self.rule = rule
        self.seen = 0
        self.fired = 0
        self._random = random.Random(rule.seed)  # noqa: S311 (repeatable, not secret)

    def fires(self, request: Request) -> bool:
        """Count a request, and tell whether the rule hits it."""
        rule = self.rule
        if not rule.matches(request):
            return False
        self.seen += 1
        if self.seen < (rule.nth or 1):
            return False
        times = 1 if rule.times is None and rule.nth is not None else rule.times
        if times is not None and self.fired >= times:
            return False
        if rule.probability < 1.0 and self._random.random() >= rule.probability:
            return False
        self.fired += 1
        return True


@dataclass(frozen=True)
class ArmedRule:
    """A rule in force: its number, how many requests it matched and how many it hit."""

    number: int
    rule: Rule
    seen: int
    fired: int


class Faults:
    """The rules in force; may be changed while requests are under way."""

    def __init__(self) -> None:
        self._armed: list[_Armed] = []
        self._next = 1
        self._lock = threading.Lock()

    def add(self, rule: Rule) -> int:
        """Put a rule in force and return its number."""
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._armed.append(_Armed(number, rule))
            return number

    def remove(self, number: int) -> bool:
        """Take one rule out of force; False if there is none of that number."""
        with self._lock:
            kept = [armed for armed in self._armed if armed.number != number]
            found = len(kept) < len(self._armed)
            self._armed = kept
            return found

    def clear(self) -> None:
        """Take every rule out of force."""
        with self._lock:
            self._armed = []

    @property
    def rules(self) -> list[ArmedRule]:
        """The rules in force, oldest first."""
        with self._lock:
            return [ArmedRule(armed.number, armed.rule, armed.seen, armed.fired) for armed in self._armed]

    def effects_for(self, request: Request) -> list[Effect]:
        """Return what shall happen to this request, and count it."""
        if not self._armed:
            return []
        with self._lock:
            return [armed.rule.effect for armed in self._armed if armed.fires(request)]
