"""The calls by which a person's set-up is looked at: who a token is, and what guards a branch."""

from dataclasses import dataclass

from holdfast.github.calls import Call


@dataclass(frozen=True, slots=True)
class ReadViewer(Call[str]):
    """Read whose token it is, by login. Raises Refused for a token that stands for no person."""


@dataclass(frozen=True, slots=True)
class ReadProtection(Call[bool]):
    """Read whether the branch is protected in the classic way. Raises Missing."""

    branch: str


@dataclass(frozen=True, slots=True)
class ReadRules(Call[tuple[str, ...]]):
    """Read the types of the rules for a branch, whether it is there or not. Raises Missing on old servers."""

    branch: str
