"""Stamps the checkpoints of a run for a writer, and keeps in mind which members are stored already."""

from collections import OrderedDict
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from functools import partial

from holdfast.cache.local_copy import RepositoryCache
from holdfast.drain.stamping import Stamp
from holdfast.errors import Missing
from holdfast.format.incremental import Memory, PartChooser, remember
from holdfast.format.part_files import MAX_FILE_BYTES, PartStyle
from holdfast.format.paths import Layout
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.format.splitting import stamp_in_parts

LEAST_BYTES = {"commit": 2 * 1024, "contents": 64 * 1024}
"""From this size on a member is worth a file of its own, by how one writes.

In a commit, a file costs no request. In the contents mode it costs two, to write it and to read it back.
"""

_MOST_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class PartPolicy:
    """What becomes a part: what does not fit into a file, and what did not change.

    `least_bytes` is the size of the smallest member that is stored once; None if none is. Where parts are
    free, as in a commit, what comes in the place of one is a part as well.
    """

    limit_bytes: int = MAX_FILE_BYTES
    least_bytes: int | None = None
    compress_from_bytes: int | None = None
    has_free_parts: bool = False


@dataclass
class Stamper:
    """Makes of the bodies of a run what the repository will hold."""

    layout: Layout
    cache: RepositoryCache
    policy: PartPolicy = PartPolicy()
    sign: Callable[[bytes], str] | None = None
    _memories: OrderedDict[str, Memory] = field(default_factory=OrderedDict)

    @property
    def is_incremental(self) -> bool:
        """Whether members that did not change are stored once."""
        return self.policy.least_bytes is not None

    def stamp_for(self, snapshot: RunSnapshot, part_names: Callable[[], Container[str]]) -> Stamp:
        """Return what stamps the next checkpoints of a run; `part_names` lists the parts that are there."""
        style = PartStyle(self.layout.run_folder(snapshot.run_id), self.policy.compress_from_bytes)
        least_bytes = self.policy.least_bytes
        if least_bytes is None:
            return partial(stamp_in_parts, limit_bytes=self.policy.limit_bytes, style=style, sign=self.sign)
        memory = self._recall(snapshot, style, least_bytes, part_names)
        limit_bytes, is_free = self.policy.limit_bytes, self.policy.has_free_parts
        return PartChooser(memory, style, limit_bytes, least_bytes, self._keep, self.sign, is_free).stamp

    def _recall(
        self,
        snapshot: RunSnapshot,
        style: PartStyle,
        least_bytes: int,
        part_names: Callable[[], Container[str]],
    ) -> Memory:
        """Return what the newest stored checkpoint holds, as far as it is known without a request for it."""
        newest = snapshot.index.newest
        if newest is None or not newest.blob_sha:
            return Memory()
        known = self._memories.get(newest.blob_sha)
        if known is not None:
            return known
        content = self.cache.blob(newest.blob_sha)
        if content is None:
            return Memory()
        memory = remember(content, newest.file_path, style.run_folder, least_bytes)
        # Someone may have deleted a part: then nothing must refer to it any more.
        memory = memory.only(_list(part_names)) if memory.parts else memory
        self._keep(newest.blob_sha, memory)
        return memory

    def _keep(self, blob_sha: str, memory: Memory) -> None:
        self._memories[blob_sha] = memory
        if len(self._memories) > _MOST_REMEMBERED:
            self._memories.popitem(last=False)


def _list(part_names: Callable[[], Container[str]]) -> Container[str]:
    try:
        return part_names()
    except Missing:
        return ()
