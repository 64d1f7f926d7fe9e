"""What the steps of a drain need of the budget: for who plans them, and for who asks if one may be taken."""

from typing import Literal

from holdfast.ratelimit.limits import Cost, Need

RUN_FILES = 2  # index.json and latest.json, written once for each step
RUN_READS = 3  # index.json, latest.json, and the verifying read
COMMIT_READS = 1  # the head, with index.json and latest.json of every run


def least_need(mode: Literal["contents", "commit"]) -> Need:
    """Return what the smallest step of this mode needs: a lone checkpoint, or any commit."""
    if mode == "commit":
        return need_of("graphql", content=1, reads=COMMIT_READS)
    return need_of("core", content=1 + RUN_FILES, reads=RUN_READS)


def need_of(resource: str, content: int, reads: int) -> Need:
    """Return what writing so many files and so many reads need together."""
    points = content * Cost(resource, is_mutation=True).points + reads * Cost(resource).points
    return Need(resource, requests=content + reads, content=content, points=points)
