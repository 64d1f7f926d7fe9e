"""Several repositories on one emulator, and runs that fall to each of them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from holdfast.library import Holdfast
from holdfast.settings import Settings
from holdfast.sharding.homes import rank
from tests.fakes.repository import check_files, read_branch

ONE, TWO, THREE = SHARDS = ("acme/one", "acme/two", "umbrella/three")


@dataclass
class ShardedGitHub:
    """The emulator, its address and its folder."""

    emulator: Emulator
    url: str
    root: Path

    def variables(self, folder: Path, shards: Sequence[str] = SHARDS, **more: str) -> dict[str, str]:
        """Return the environment of a machine whose data is in `folder`."""
        return {
            "HOLDFAST_SHARDS": ",".join(shards),
            "HOLDFAST_API_URL": self.url,
            "HOLDFAST_TOKEN": "token",
            "HOLDFAST_DATA_DIR": str(folder),
            "HOLDFAST_MIN_FREE_BYTES": "0",
            "HOLDFAST_WRITE_INTERVAL_S": "0",
            "HOLDFAST_CONTENT_PER_MINUTE": "0",
            "HOLDFAST_CONTENT_PER_HOUR": "0",
            "HOLDFAST_WRITE_MODE": "commit",
            **more,
        }

    def open(self, folder: Path, shards: Sequence[str] = SHARDS, **more: str) -> Holdfast:
        """Return the library on a machine whose data is in `folder`."""
        return Holdfast(Settings.from_environment(self.variables(folder, shards, **more)))

    def files(self, shard: str) -> dict[str, bytes]:
        """Return what a repository holds."""
        repository = self.root / f"{shard}.git"
        is_there = any((repository / "refs" / "heads").iterdir()) or (repository / "packed-refs").exists()
        return read_branch(repository) if is_there else {}

    def runs(self, shard: str) -> set[str]:
        """Return the runs that a repository holds."""
        return {path.split("/")[1] for path in self.files(shard) if path.startswith("checkpoints/")}

    def numbers(self, shard: str, run_id: str) -> dict[int, str]:
        """Return the checkpoints of a run by number, which index, files and latest agree on."""
        return check_files(self.files(shard), run_id)


@contextmanager
def sharded_github(root: Path, shards: Sequence[str] = SHARDS, **options: Any) -> Iterator[ShardedGitHub]:
    emulator = Emulator(EmulatorOptions(root=root, repo=shards[0], **options))
    for shard in shards[1:]:
        emulator.create_repository(shard)
    with EmulatorServer(emulator) as server:
        yield ShardedGitHub(emulator, server.url, root)
    emulator.close()


def run_of(shard: str, shards: Sequence[str] = SHARDS, *, before: Sequence[str] = (), nth: int = 0) -> str:
    """Return a run that falls to `shard`, and that fell to `before[0]` when those were all shards."""
    numbers = (f"run-{number}" for number in range(10_000))
    fitting = (
        run_id
        for run_id in numbers
        if rank(run_id, shards)[0] == shard and (not before or rank(run_id, before)[0] == before[0])
    )
    return [next(fitting) for _ in range(nth + 1)][-1]
