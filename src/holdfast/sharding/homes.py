"""Where runs are at home: what was found out once is not asked for again."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from holdfast.errors import GatewayError
from holdfast.sharding.stored_runs import StoredRuns

# Someone who reads a run that is not known may have to see it at once; a drain may look less often: what it
# looks for are runs that were begun before a shard was added.
FRESH_S = 5.0
RECENT_S = 60.0
_MOST_KNOWN = 100_000


class Homes:
    """The home of every run: where it is stored, or else the shard that its hash names.

    `is_held` tells whether the spool of a shard holds checkpoints of a run.
    """

    def __init__(self, stored: Mapping[str, StoredRuns], is_held: Callable[[str, str], bool]) -> None:
        self._stored = stored
        self._is_held = is_held
        self._known: dict[str, str] = {}
        self.ranked = lru_cache(maxsize=10_000)(lambda run_id: rank(run_id, list(stored)))

    def hashed(self, run_id: str) -> str:
        """Return the shard that a run belongs to by its name."""
        return self.ranked(run_id)[0]

    def known(self, run_id: str) -> str | None:
        """Return the home of a run if it was found out before."""
        return self._known.get(run_id)

    def find(self, run_id: str) -> str:
        """Return the home of a run for someone who reads it. A shard that does not answer has no say."""
        if run_id in self._known:
            return self._known[run_id]
        for shard in self.ranked(run_id):
            try:
                if run_id in self._stored[shard].names(max_age_s=FRESH_S):
                    return self._remember(run_id, shard)
            except GatewayError:
                continue
        return next(
            (shard for shard in self.ranked(run_id) if self._is_held(shard, run_id)), self.hashed(run_id)
        )

    def settle(self, run_id: str, holder: str) -> str:
        """Return the home of a run whose checkpoints wait in the spool of `holder`, before they are written.

        It stays that. Raises GatewayError as long as one of the others was never seen.
        """
        if run_id in self._known:
            return self._known[run_id]
        elsewhere = [
            shard
            for shard in self.ranked(run_id)
            if shard != holder and run_id in self._stored[shard].names(max_age_s=RECENT_S)
        ]
        if not elsewhere:
            hashed = self.hashed(run_id)
            is_divided = hashed != holder and self._is_held(hashed, run_id)
            return self._remember(run_id, hashed if is_divided else holder)
        if run_id in self._stored[holder].names(max_age_s=FRESH_S):
            elsewhere.append(holder)
        return self._remember(run_id, min(elsewhere, key=self.ranked(run_id).index))

    def forget(self, run_id: str) -> None:
        """Look for a run anew the next time: it was deleted."""
        self._known.pop(run_id, None)

    def _remember(self, run_id: str, shard: str) -> str:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[run_id] = shard
        return shard


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
