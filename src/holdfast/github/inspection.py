"""The calls by which a set-up is looked at: the repository itself, who a token is, what guards a branch."""

from dataclasses import dataclass, field

from holdfast.github.calls import Call


@dataclass(frozen=True)
class RepositoryRecord:
    """What the repository says of itself; `can_write` is false when GitHub says that the token may not.

    `size_bytes` is GitHub's own figure for the whole repository, which is rounded and some time behind.
    """

    full_name: str
    default_branch: str
    html_url: str
    can_write: bool
    node_id: str = field(default="", compare=False)
    size_bytes: int = field(default=0, compare=False)


@dataclass(frozen=True)
class ReadRepository(Call[RepositoryRecord]):
    """Read the repository's own record."""


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
