"""Rendezvous hashing: which of several repositories a run belongs to, by their names alone."""

import hashlib
from collections.abc import Sequence


def rank(run_id: str, shards: Sequence[str]) -> list[str]:
    """Return the shards in the order in which they would have this run; the first one has it.

    When a shard is added, the runs that it does not get stay where they are. How a name is spelled does not
    matter, as it does not to GitHub.

    >>> shards = ["one/state", "two/state", "three/state"]
    >>> [rank(run_id, shards)[0] for run_id in ("build-3", "build-4")]
    ['three/state', 'one/state']
    >>> rank("build-3", [*shards, "four/state"])
    ['three/state', 'four/state', 'two/state', 'one/state']
    """
    return sorted(shards, key=lambda shard: _weight(run_id, shard), reverse=True)


def _weight(run_id: str, shard: str) -> bytes:
    return hashlib.sha256(f"{shard.lower()}\n{run_id}".encode()).digest()
