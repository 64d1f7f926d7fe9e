"""Reads what is stored and what is still spooled, as one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import structlog

from holdfast.core.envelope import Envelope, RunStatus, seal
from holdfast.core.index import Index, IndexEntry, parse_index
from holdfast.core.layout import INDEX, LATEST, Layout
from holdfast.core.moments import format_moment
from holdfast.core.parts import join_envelope
from holdfast.core.stored import entry_of, open_file
from holdfast.core.ticket import Ticket
from holdfast.errors import IntegrityFailure, Missing, SpoolDamaged, UnknownRun
from holdfast.github.gateway import Gateway, ReadFile, ReadHead, ReadTree
from holdfast.runs import Runs
from holdfast.spool import Spool

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run, in a line."""

    run_id: str
    status: RunStatus
    resumable: bool
    checkpoint_count: int
    last_updated: str
    workflow: str | None


@dataclass(frozen=True)
class Reader:
    """Answers what runs and checkpoints there are; what is spooled here is newer than what GitHub has."""

    gateway: Gateway
    spool: Spool
    runs: Runs
    layout: Layout
    branch: str

    def list_runs(self) -> list[RunSummary]:
        """Return every run, the one last written to first."""
        spooled: dict[str, list[Ticket]] = {}
        for ticket in self.spool.pending():
            spooled.setdefault(ticket.run_id, []).append(ticket)
        stored = {index.run_id: index for index in self._stored_indexes()}
        summaries = [
            self._summarise(stored.get(run_id, Index(run_id)), spooled.get(run_id, []))
            for run_id in {*stored, *spooled}
        ]
        return sorted(summaries, key=lambda run: (run.last_updated, run.run_id), reverse=True)

    def list_checkpoints(self, run_id: str) -> Index:
        """Return every checkpoint of a run, stored or spooled. Raises UnknownRun."""
        return self._join(run_id, self._spooled(run_id))

    def read_checkpoint(self, run_id: str, sequence: int | None = None) -> Envelope:
        """Return one checkpoint of a run, the newest unless its number is given.

        Raises UnknownRun, or IntegrityFailure when the stored file is not what was written.
        """
        spooled = self._spooled(run_id)
        entries = self._join(run_id, spooled).entries
        wanted = entries[-1].sequence if sequence is None else sequence
        entry = next((entry for entry in entries if entry.sequence == wanted), None)
        if entry is None:
            raise UnknownRun(f"run {run_id!r} has no checkpoint {wanted}; see holdfast list {run_id}")
        for envelope in spooled:
            if envelope.checkpoint_id == entry.checkpoint_id:
                return envelope
        return self._read_stored(run_id, entry)

    def _join(self, run_id: str, spooled: Sequence[Envelope]) -> Index:
        entries = [
            entry_of(
                envelope, self.layout.checkpoint_path(run_id, envelope.sequence, envelope.header.trigger)
            )
            for envelope in spooled
        ]
        joined = self.runs.refresh(run_id).index.with_entries(entries, workflow=None, now="")
        if not joined.entries:
            raise UnknownRun(f"there is no run {run_id!r}, neither stored nor spooled; see holdfast runs")
        return joined

    def _spooled(self, run_id: str) -> list[Envelope]:
        tickets = [ticket for ticket in self.spool.pending() if ticket.run_id == run_id]
        return [envelope for ticket in tickets if (envelope := self._open(ticket))]

    def _open(self, ticket: Ticket) -> Envelope | None:
        try:
            return seal(self.spool.read(ticket))
        except SpoolDamaged as error:
            log.warning("checkpoint_damaged", checkpoint_id=ticket.checkpoint_id, cause=str(error))
            return None

    def _read_stored(self, run_id: str, entry: IndexEntry) -> Envelope:
        name = self.layout.name_of(run_id, entry.file_path)
        sha = self.runs.view(run_id).blobs.get(name)
        if sha is None:
            raise IntegrityFailure(entry.file_path, "the index names it, but it is not there")
        for envelope, found in open_file(self.runs.read_blob(sha), entry.file_path):
            if found.checkpoint_id == entry.checkpoint_id:
                return join_envelope(envelope, self._read_file, entry.file_path)
        raise IntegrityFailure(entry.file_path, f"it does not hold checkpoint {entry.checkpoint_id}")

    def _read_file(self, path: str) -> bytes:
        try:
            return self.gateway.perform(ReadFile(path, self.branch)).content
        except Missing as error:
            raise IntegrityFailure(path, "a checkpoint refers to it, but it is not there") from error

    def _summarise(self, index: Index, tickets: Sequence[Ticket]) -> RunSummary:
        """Return the run in a line; of what is spooled only the newest is opened."""
        added = [ticket for ticket in tickets if ticket.checkpoint_id not in index.by_id]
        newest = max(added, key=lambda ticket: ticket.sequence, default=None)
        envelope = self._open(newest) if newest else None
        header = envelope.header if envelope else None
        stored = index.newest.sequence if index.newest else 0
        status = header.status if header and (header.sequence_number or 0) > stored else index.status
        return RunSummary(
            run_id=index.run_id,
            status=status,
            resumable=status is not RunStatus.COMPLETED,
            checkpoint_count=len(index.entries) + len(added),
            last_updated=format_moment(newest.arrived_at) if newest else index.last_updated,
            workflow=(header.workflow if header else None) or index.workflow,
        )

    def _stored_indexes(self) -> Iterator[Index]:
        """Read the index of every run. One listing names them all; only those not seen before are fetched."""
        folders: dict[str, dict[str, str]] = {}
        for path, sha in self._list_files():
            run_id, _, name = path.partition("/")
            if name in (INDEX, LATEST):
                folders.setdefault(run_id, {})[name] = sha
        for run_id, files in folders.items():
            yield self._stored_index(run_id, files)

    def _stored_index(self, run_id: str, files: dict[str, str]) -> Index:
        try:
            if INDEX in files:
                return parse_index(self.runs.read_blob(files[INDEX]), self.layout.path(run_id, INDEX))
            path = self.layout.path(run_id, LATEST)
            entries = [entry for _, entry in open_file(self.runs.read_blob(files[LATEST]), path)]
            return Index(run_id).with_entries(entries, workflow=None, now=entries[-1].timestamp)
        except IntegrityFailure as error:
            log.warning("run_damaged", run_id=run_id, path=error.path, cause=error.reason)
            return self.runs.refresh(run_id).index

    def _list_files(self) -> Iterator[tuple[str, str]]:
        """List every file below the base path, relative to it, with its blob."""
        try:
            sha = self.gateway.perform(ReadHead(self.branch))
            for segment in self.layout.base_path.split("/"):
                listing = self.gateway.perform(ReadTree(sha))
                sha = next(entry.sha for entry in listing.entries if entry.path == segment)
        except (Missing, StopIteration):
            return
        listing = self.gateway.perform(ReadTree(sha, is_recursive=True))
        if listing.is_complete:
            yield from ((entry.path, entry.sha) for entry in listing.entries if entry.kind == "file")
            return
        for folder in self.gateway.perform(ReadTree(sha)).entries:
            if folder.kind == "folder":
                for entry in self.gateway.perform(ReadTree(folder.sha)).entries:
                    yield f"{folder.path}/{entry.path}", entry.sha
