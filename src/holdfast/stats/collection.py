"""Gathers what the statistics are made from, with no more requests than that takes.

Of one run: its folder, its parts, its index and `latest.json`. Of all: what the list of runs has, the
repository's own record, the number of its commits, one list of all files, and `latest.json` of each run, many
with one request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import Conflict, GatewayError, HoldfastError, IntegrityFailure, Missing, UnknownRun
from holdfast.format.index import Index
from holdfast.format.paths import INDEX, LATEST
from holdfast.format.receipt import Progress
from holdfast.format.run_snapshot import RemoteFile
from holdfast.github.calls import Call, ReadTree, ResultT
from holdfast.github.inspection import CountCommits, ReadRepository
from holdfast.github.results import Listing
from holdfast.queue.contract import Journey
from holdfast.repository.blobs import BlobReader
from holdfast.repository.queued import open_item
from holdfast.stats.figures import Gathered, Statistics, compute
from holdfast.stats.resumes import read_resumes

if TYPE_CHECKING:
    from holdfast.assembly import Assembly
    from holdfast.assembly.ground import Ground
    from holdfast.repository.stored_run import StoredRun

MOST_JOURNEYS = 20_000
"""Of so many of the newest checkpoints that were saved here the receipts are looked at."""
MOST_COSTS, MOST_COST_BYTES = 200, 8_000_000
"""Of so many runs `latest.json` is read for the cost, if these are no larger than that together."""
MOST_READ_ALONE = 5
"""So many of them that no query gives are asked for one by one."""


def collect(assembly: "Ground", run_id: str | None = None) -> Statistics:
    """Return the statistics of one run, or of all. Raises UnknownRun, GatewayError."""
    journeys = assembly.spool.journeys(run_id, most=MOST_JOURNEYS)
    resumes = read_resumes(assembly.folder, run_id)
    if run_id is None:
        indexes = [index for shard in assembly.shards for index in shard.reader.list_indexes()]
        return compute(_with_repositories(Gathered(None, indexes, journeys, resumes), assembly.shards))
    return compute(_gather_run(assembly.home(run_id), Gathered(run_id, (), journeys, resumes)))


def _gather_run(assembly: "Assembly", found: Gathered) -> Gathered:
    """Return what there is of one run. What waits here is an answer, too. Raises UnknownRun, GatewayError."""
    run_id = found.run_id or ""
    waiting = [each for each in found.journeys if each.progress is not Progress.VERIFIED]
    try:
        found = assembly.reader.use_stored(run_id, lambda run: _look_into(run, found))
    except (UnknownRun, GatewayError) as error:
        if not waiting:
            raise
        if not isinstance(error, UnknownRun):
            found = replace(found, unknown=[f"what is stored: GitHub could not be read ({error})"])
    spooled = max(waiting, key=lambda each: each.sequence, default=None)
    if spooled is not None:
        found = replace(found, cost=_cost_of_spooled(assembly, spooled))
    return found


def _look_into(run: "StoredRun", found: Gathered) -> Gathered:
    run.fetch([name for name in (LATEST, INDEX) if name in run.files])
    index: Index = run.listing()
    cost, why = _cost_of_latest(run)
    parts = run.source.part_sizes(run.run_id)
    return replace(
        found,
        indexes=[index],
        file_bytes={run.layout.path(run.run_id, name): file.size_bytes for name, file in run.files.items()},
        part_bytes=parts,
        cost=cost,
        unknown=[*found.unknown, *run.warnings, *why],
    )


def _cost_of_latest(run: "StoredRun") -> tuple[int | float | None, list[str]]:
    """Return what the newest checkpoint says that the run has cost; and why that is not known."""
    try:
        return _cost_in(run.read(LATEST))
    except IntegrityFailure as error:
        return None, [f"cost: {error}"]


def _cost_in(checkpoint: bytes) -> tuple[int | float | None, list[str]]:
    try:
        return _cost(orjson.loads(checkpoint).get("state_snapshot"))
    except (ValueError, AttributeError) as error:
        return None, [f"cost: {error}"]


def _cost(state: Any) -> tuple[int | float | None, list[str]]:
    if isinstance(state, Mapping) and "$sealed" in state:
        return None, ["cost: the state is sealed"]
    cost = state.get("cost_accumulated") if isinstance(state, Mapping) else None
    is_number = isinstance(cost, int | float) and not isinstance(cost, bool)
    return (cost, []) if is_number else (None, ["cost: the state records none (cost_accumulated)"])


def _cost_of_spooled(assembly: "Assembly", spooled: Journey) -> int | float | None:
    item = next(
        (each for each in assembly.spool.pending() if each.checkpoint_id == spooled.checkpoint_id), None
    )
    try:
        envelope = open_item(assembly.spool, item) if item else None
    except HoldfastError:
        return None
    return _cost_in(envelope.content)[0] if envelope else None


def _with_repositories(found: Gathered, shards: "Sequence[Assembly]") -> Gathered:
    """Return it with the size and the commits of all repositories, as far as GitHub tells them of each."""
    unknown = list(found.unknown)
    sizes = [_ask(shard, ReadRepository(), "stored.bytes", unknown) for shard in shards]
    commits = [
        _ask(shard, CountCommits(shard.settings.branch), "stored.commits", unknown, absent=0)
        for shard in shards
    ]
    size_bytes = [each.size_bytes for each in sizes if each is not None]
    # GitHub counts in kilobytes, some time later; a server that does not count says 0.
    is_counted = len(size_bytes) == len(shards) and all(size_bytes)
    if not is_counted and len(size_bytes) == len(shards):
        unknown.append("stored.bytes: GitHub has not counted them yet")
    found = replace(
        found,
        repository_bytes=sum(size_bytes) if is_counted else None,
        commits=None if None in commits else sum(each or 0 for each in commits),
    )
    return replace(_with_files(found, shards, unknown), unknown=unknown)


def _with_files(found: Gathered, shards: "Sequence[Assembly]", unknown: list[str]) -> Gathered:
    """Return it with every file and part of all runs, and with what the runs have cost."""
    files: dict[str, int] = {}
    parts: dict[str, int] = {}
    costs: list[int | float] = []
    for shard in shards:
        base = f"{shard.settings.base_path}/"
        tree = ReadTree(shard.settings.branch, is_recursive=True)
        listing = _ask(shard, tree, "stored.files", unknown, absent=Listing((), is_complete=True))
        if listing is None:
            return found
        if not listing.is_complete:
            unknown.append("files, parts and cost: there are more files than GitHub lists at once")
            return found
        entries = [each for each in listing.entries if each.kind == "file" and each.path.startswith(base)]
        for entry in entries:
            sizes = parts if shard.layout.is_part(entry.path) else files
            # Each shard has a preserved_runs.json: all of them count.
            path = f"{shard.repository}:{entry.path}" if entry.path in sizes else entry.path
            sizes[path] = entry.size_bytes
        newest = [
            RemoteFile(each.sha, each.size_bytes) for each in entries if each.path.endswith(f"/{LATEST}")
        ]
        costs += _read_costs(shard, newest, unknown)
    return replace(found, file_bytes=files, part_bytes=parts, cost=sum(costs) if costs else None)


def _read_costs(shard: "Assembly", newest: list[RemoteFile], unknown: list[str]) -> list[int | float]:
    """Return what each run has cost whose newest checkpoint says so."""
    if len(newest) > MOST_COSTS or sum(file.size_bytes for file in newest) > MOST_COST_BYTES:
        unknown.append(
            f"cost: that of {len(newest):,} runs takes too long to read; ask for a run by its name"
        )
        return []
    reader = shard.reader
    blobs = BlobReader(reader.gateway, reader.cache, reader.graphql)
    try:
        blobs.fetch(newest)
        contents = reader.cache.blobs(file.sha for file in newest)
        alone = [file.sha for file in newest if file.sha not in contents][:MOST_READ_ALONE]
        contents |= {sha: blobs.read(sha) for sha in alone}
    except GatewayError as error:
        unknown.append(f"cost: {error}")
        return []
    costs = [_cost_in(content)[0] for content in contents.values()]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(newest):
        unknown.append(f"cost: {len(known):,} of {len(newest):,} runs record one that can be read here")
    return known


def _ask(
    shard: "Assembly",
    call: Call[ResultT],
    figure: str,
    unknown: list[str],
    *,
    absent: ResultT | None = None,
) -> ResultT | None:
    """Return what GitHub says; `absent` if there is nothing yet; None, and why, where it does not say."""
    try:
        return shard.reader.gateway.perform(call)
    except (Missing, Conflict) as error:  # no branch, or nothing at all in the repository
        if absent is None:
            unknown.append(f"{figure}: {error}")
        return absent
    except GatewayError as error:
        unknown.append(f"{figure}: {error}")
        return None
