"""Gathers what the statistics are made from, with no more requests than that takes.

Of one run: its folder, its parts, its index and `latest.json`. Of all: what the list of runs has, the
repository's own record, and the number of its commits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from holdfast.errors import GatewayError, HoldfastError, IntegrityFailure, UnknownRun
from holdfast.format.index import Index
from holdfast.format.paths import INDEX, LATEST
from holdfast.format.receipt import Progress
from holdfast.github.calls import Call, CountCommits, ReadRepository, ResultT
from holdfast.queue.contract import Journey
from holdfast.repository.queued import open_item
from holdfast.stats.figures import Gathered, Statistics, compute
from holdfast.stats.resumes import read_resumes

if TYPE_CHECKING:
    from holdfast.assembly import Assembly
    from holdfast.assembly.ground import Ground
    from holdfast.repository.stored_run import StoredRun

MOST_JOURNEYS = 20_000
"""Of so many of the newest checkpoints that were saved here the receipts are looked at."""


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
        state = orjson.loads(run.read(LATEST)).get("state_snapshot")
    except (IntegrityFailure, ValueError, AttributeError) as error:
        return None, [f"cost: {error}"]
    return _cost(state)


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
        state = orjson.loads(envelope.content).get("state_snapshot") if envelope else None
    except (HoldfastError, ValueError, AttributeError):
        return None
    return _cost(state)[0]


def _with_repositories(found: Gathered, shards: "Sequence[Assembly]") -> Gathered:
    """Return it with the size and the commits of all repositories, as far as GitHub tells them of each."""
    unknown = list(found.unknown)
    sizes = [_ask(shard, ReadRepository(), "stored.bytes", unknown) for shard in shards]
    commits = [
        _ask(shard, CountCommits(shard.settings.branch), "stored.commits", unknown) for shard in shards
    ]
    size_bytes = [each.size_bytes for each in sizes if each is not None]
    # GitHub counts in kilobytes, some time later; a server that does not count says 0.
    is_counted = len(size_bytes) == len(shards) and all(size_bytes)
    if not is_counted and len(size_bytes) == len(shards):
        unknown.append("stored.bytes: GitHub has not counted them yet")
    return replace(
        found,
        repository_bytes=sum(size_bytes) if is_counted else None,
        commits=None if None in commits else sum(each or 0 for each in commits),
        unknown=unknown,
    )


def _ask(shard: "Assembly", call: Call[ResultT], figure: str, unknown: list[str]) -> ResultT | None:
    """Return what GitHub says; None where it does not, with the reason among the unknown."""
    try:
        return shard.reader.gateway.perform(call)
    except GatewayError as error:
        unknown.append(f"{figure}: {error}")
        return None
