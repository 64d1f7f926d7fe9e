"""Reads one run: what is stored and what is still spooled as one, and the local copy when GitHub is away.

What plans how a run goes on is loaded by who asks for it: `holdfast exec` has no time for it.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self, TypeVar

from holdfast.cache.local_copy import RepositoryCache
from holdfast.errors import (
    HoldfastError,
    IntegrityFailure,
    KeyMissing,
    Missing,
    Refused,
    Remedy,
    Throttled,
    Unavailable,
    UnknownRun,
)
from holdfast.format.checkpoint import Envelope
from holdfast.format.ids import At
from holdfast.format.index import Index, IndexEntry
from holdfast.format.paths import SUMMARY, Layout
from holdfast.format.review import Held
from holdfast.format.stored_file import entry_of
from holdfast.github.calls import Gateway
from holdfast.github.presence import GraphqlPresence
from holdfast.logs import log
from holdfast.queue import Queue
from holdfast.repository.known_lines import KnownLines
from holdfast.repository.loaded import (
    Loaded,
    load_stored,
    prefer_aside,
    rescue,
    tell_native,
)
from holdfast.repository.past import SpooledPast, look_back
from holdfast.repository.queued import SpooledRun
from holdfast.repository.sources import MAX_FILE_BYTES, CachedSource, Files, GitHubSource
from holdfast.repository.stored_run import StoredRun
from holdfast.security.signatures import Forged, Unsigned
from holdfast.security.trust import Trust
from holdfast.styles.review import Past, find_review, open_reviewed

if TYPE_CHECKING:
    from holdfast.styles.resume import ResumePlan

ResultT = TypeVar("ResultT")

# What makes us read the local copy instead. GitHub answers 404 to those who may not see a repository.
AWAY = (Unavailable, Throttled, Refused, Missing)


@dataclass(frozen=True)
class History:
    """Every good checkpoint of a run, in order, and what is wrong with the others."""

    run_id: str
    envelopes: Sequence[Envelope]
    warnings: Sequence[str]


@dataclass(frozen=True)
class RunReader:
    """Answers what checkpoints a run has; what is spooled here is newer than what GitHub has.

    `hasty` is the way to GitHub that gives up at once: it is taken where the local copy or the spool has an
    answer too, so that nobody waits in vain for a GitHub that is away.
    """

    gateway: Gateway
    spool: Queue
    cache: RepositoryCache
    layout: Layout
    branch: str
    max_file_bytes: int = MAX_FILE_BYTES
    hasty: Gateway | None = None
    graphql: GraphqlPresence | None = None
    now: Callable[[], float] | None = None
    old_after_s: float | None = None
    trust: Trust = field(default_factory=Trust)
    lines: KnownLines = field(default_factory=KnownLines)
    past: SpooledPast = field(default_factory=SpooledPast)
    source: GitHubSource | None = None
    """What is read from, if that is to be the same commit for several questions."""

    def at_commit(self, head: str, files: Files) -> Self:
        """Return one that reads the run with these files at this commit, which is known to be the newest.

        How large they are need not be known.
        """
        source = replace(self._github(is_hasty=True), known_head=head, known_files=files)
        return replace(self, source=source)

    def look_at(self, run_id: str, *, newest: int | None = None) -> tuple[Index, "ResumePlan"]:
        """Return the checkpoints of a run and its resume plan, both at one commit. Raises like `resume`."""
        # The spool first: what leaves it after this is stored at the commit that is read, or was listed here.
        spooled = self._spooled_entries(run_id)
        is_hasty = self.cache.has_latest(run_id)
        at_once = replace(self, source=self._github(is_hasty=is_hasty))
        plan = at_once.resume(run_id)
        return at_once.list_beside(run_id, spooled, newest=newest), plan

    def read_summary(self, run_id: str) -> bytes:
        """Return what is left of an archived run. Raises UnknownRun if it is not archived."""

        def read(run: StoredRun) -> bytes:
            if run.exists or SUMMARY not in run.files:
                raise UnknownRun(f"run {run_id!r} is not archived")
            return run.read(SUMMARY)

        return self.use_stored(run_id, read)

    def list_checkpoints(self, run_id: str, *, newest: int | None = None) -> Index:
        """Return the checkpoints of a run, stored or spooled: all, or the `newest`. Raises UnknownRun."""
        return self.list_beside(run_id, self._spooled_entries(run_id), newest=newest)

    def _spooled_entries(self, run_id: str) -> list[IndexEntry]:
        waiting = SpooledRun.look(self.spool, run_id)
        return [
            entry_of(
                envelope, self.layout.checkpoint_path(run_id, envelope.sequence, envelope.header.trigger)
            )
            for envelope in waiting.open_all(waiting.pending)
        ]

    def list_beside(self, run_id: str, spooled: list[IndexEntry], *, newest: int | None = None) -> Index:
        """Return what is stored of a run, and these spooled checkpoints. Raises UnknownRun."""

        def read(run: StoredRun) -> Index:
            return run.listing() if newest is None else run.list_newest(newest)

        stored, _ = self._stored_beside_spool(run_id, read, Index(run_id), is_spooled=bool(spooled))
        whole = stored.with_entries(spooled, workflow=None, now="") if spooled else stored
        return whole.unfolded(newest)

    def read_signatures(self, run_id: str) -> dict[str, str]:
        """Return what the signature of each stored checkpoint is worth, by id; nothing without a key."""
        if not self.trust.signatures.keys:
            return {}
        nothing: dict[str, str] = {}
        return self._stored_beside_spool(run_id, _mark_signatures, nothing, is_spooled=True)[0]

    def read_checkpoint(self, run_id: str, at: At | None = None) -> Envelope:
        """Return one checkpoint of a run, the newest good one unless its number or its id is given.

        Raises UnknownRun, or IntegrityFailure when the stored file is not what was written.
        """
        loaded = self.load(run_id, at=at)
        for warning in loaded.warnings:
            log.warning("checkpoint_read_with_warning", run_id=run_id, cause=warning)
        return loaded.envelope

    def read_many(self, run_id: str, checkpoint_ids: Collection[str]) -> dict[str, Envelope]:
        """Return these checkpoints of a run, by their ids, with as few requests as can be.

        Raises UnknownRun if one of them is not there, or IntegrityFailure.
        """
        waiting = SpooledRun.look(self.spool, run_id, self.trust)
        wanted = [item for item in (*waiting.pending, *waiting.aside) if item.checkpoint_id in checkpoint_ids]
        found = {envelope.checkpoint_id: envelope for envelope in waiting.open_all(wanted)}
        rest = [each for each in checkpoint_ids if each not in found]
        return {**found, **self.use_stored(run_id, lambda run: run.read_many(rest))} if rest else found

    def resume(
        self,
        run_id: str,
        *,
        at: At | None = None,
        active_lessons: Sequence[Any] | None = None,
        dag: Any = None,
    ) -> "ResumePlan":
        """Return where the run goes on, from its newest good checkpoint or from the one at `at`.

        Raises UnknownRun, IntegrityFailure when nothing good is left, GatewayError when GitHub is away and
        nothing of the run is known here.
        """
        from holdfast.styles.lateness import tell_late
        from holdfast.styles.resume import plan_resume

        waiting = SpooledRun.look(self.spool, run_id, self.trust)
        loaded = self._load_newest(waiting, with_index=True) if at is None else self._load_at(waiting, at)
        past = loaded.past()
        late = tell_late(loaded.envelope.header, past.entries) if at is None else []
        native = tell_native(loaded.envelope)
        plan = plan_resume(
            loaded.envelope,
            source=loaded.source,
            active_lessons=active_lessons,
            dag=dag,
            earlier=loaded.earlier if at is None else None,
            past=past if at is None else past._replace(review=None),
            warnings=[*loaded.warnings, *late, *native],
            now=self.now() if self.now else None,
            old_after_s=self.old_after_s,
        )
        log.info(
            "resume_planned",
            run_id=run_id,
            checkpoint_id=plan.checkpoint_id,
            resume_at=plan.resume_at,
            completed=len(plan.completed),
            cost_accumulated=plan.cost_accumulated,
            source=plan.source,
            warnings=len(plan.warnings),
            message=plan.message,
        )
        return plan

    def load(self, run_id: str, *, at: At | None = None) -> Loaded:
        """Return the newest good checkpoint, or the one at `at`. Raises like `resume`."""
        waiting = SpooledRun.look(self.spool, run_id, self.trust)
        return self._load_newest(waiting) if at is None else self._load_at(waiting, at)

    def load_reviewed(self, run_id: str) -> tuple[Loaded, Held | None]:
        """Return the newest good checkpoint, and what keeps the run from going on. Raises like `resume`.

        What came before a checkpoint of the spool is known by the local copy alone.
        """
        waiting = SpooledRun.look(self.spool, run_id, self.trust)
        loaded = self._load_newest(waiting, with_index=True)
        if loaded.source == "spool":
            run = StoredRun(self._cached(), self.layout, run_id, self.trust)
            run.find_ends()
            past = look_back(run, waiting, self.past)
        else:
            past = loaded.past()
        return loaded, find_review(open_reviewed(loaded.envelope), past)

    def history(self, run_id: str) -> History:
        """Return every good checkpoint of a run, stored or spooled, in order. Raises UnknownRun."""
        waiting = SpooledRun.look(self.spool, run_id, self.trust)
        spooled = waiting.open_all(waiting.pending)
        nothing: tuple[list[Envelope], list[str]] = [], []
        (stored, warnings), absence = self._stored_beside_spool(
            run_id, lambda run: (run.read_all(), run.warnings), nothing, is_spooled=bool(spooled)
        )
        every = {envelope.checkpoint_id: envelope for envelope in [*stored, *spooled]}
        ordered = sorted(every.values(), key=lambda envelope: envelope.sequence)
        return History(run_id, ordered, [*waiting.warnings, *absence, *warnings])

    def use_stored(
        self, run_id: str, use: Callable[[StoredRun], ResultT], *, is_hasty: bool | None = None
    ) -> ResultT:
        """Return what `use` makes of the stored files of a run; of the local copy if GitHub is away.

        If it `is_hasty`, GitHub is asked only once; so it is, unless told, if the newest checkpoint is here.
        Raises UnknownRun if there is no such repository, GatewayError if nothing of the run is known here.
        """
        if is_hasty is None:
            is_hasty = self._cached().has_latest(run_id)
        github = self._github(is_hasty=is_hasty)
        try:
            return use(StoredRun(github, self.layout, run_id, self.trust))
        except AWAY as error:
            absence = f"GitHub could not be read ({error}): this is what was last read or written here"
            cached = StoredRun(self._cached(), self.layout, run_id, self.trust, warnings=[absence])
            if cached.exists:
                log.warning("github_not_read", run_id=run_id, cause=str(error))
                return use(cached)
            if isinstance(error, Missing):
                unknown = f"there is no run {run_id!r}, neither stored nor spooled"
                raise UnknownRun(unknown, Remedy("runs")) from error
            raise

    def _stored_beside_spool(
        self, run_id: str, use: Callable[[StoredRun], ResultT], nothing: ResultT, *, is_spooled: bool
    ) -> tuple[ResultT, list[str]]:
        """Return what `use` makes of the stored files, or `nothing`; and warnings if GitHub is away.

        Raises like `use_stored`, unless the run has checkpoints in the spool, which are an answer too.
        """
        try:
            return self.use_stored(run_id, use, is_hasty=True if is_spooled else None), []
        except (UnknownRun, *AWAY) as error:
            if not is_spooled:
                raise
            if isinstance(error, UnknownRun):
                return nothing, []
            log.warning("github_not_read", run_id=run_id, cause=str(error))
            return nothing, [f"GitHub could not be read ({error})"]

    def _load_newest(self, waiting: SpooledRun, *, with_index: bool = False) -> Loaded:
        """Return the newest good checkpoint. The index comes with it in one request, if it is asked for."""
        spooled = waiting.newest()
        if spooled and spooled.header.fence:
            spooled = waiting.newest(self._stored_fence(waiting.run_id))
        if spooled:
            earlier = self._before_spooled(spooled, waiting)
            loaded = Loaded(spooled, "spool", waiting.warnings, earlier, lambda: self._past_of(waiting))
            return prefer_aside(loaded, waiting)

        def load(run: StoredRun) -> Loaded:
            if with_index:
                run.fetch_ends()
            return load_stored(run.newest(), run, waiting, self.past)

        try:
            loaded = self.use_stored(waiting.run_id, load)
        except HoldfastError as error:
            return rescue(waiting, error)
        return prefer_aside(loaded, waiting)

    def _stored_fence(self, run_id: str) -> int:
        """Return the highest fence that is stored; 0 if that cannot be had at once."""
        try:
            return self.use_stored(run_id, StoredRun.highest_fence, is_hasty=True)
        except HoldfastError:
            return 0

    def _load_at(self, waiting: SpooledRun, at: At) -> Loaded:
        spooled = waiting.at(at)
        if spooled:
            return Loaded(spooled, "spool", waiting.warnings, past=lambda: self._past_of(waiting))
        return self.use_stored(waiting.run_id, lambda run: load_stored(run.at(at), run, waiting, self.past))

    def _github(self, *, is_hasty: bool) -> GitHubSource:
        if self.source:
            return self.source
        gateway = self.hasty if is_hasty and self.hasty else self.gateway
        return GitHubSource(
            gateway, self.cache, self.layout, self.branch, self.max_file_bytes, graphql=self.graphql
        )

    def _cached(self) -> CachedSource:
        return CachedSource(self.cache, self.layout, self.max_file_bytes)

    def _past_of(self, waiting: SpooledRun) -> Past:
        """Return what came before the newest of the spool: by the local copy, without asking GitHub.

        GitHub is asked only if nothing of the run is known here, and it began elsewhere.
        """
        run = StoredRun(self._cached(), self.layout, waiting.run_id, self.trust)
        if not (run.find_ends().files or run.exists) and waiting.pending and waiting.pending[-1].sequence > 1:
            run = StoredRun(self._github(is_hasty=True), self.layout, waiting.run_id, self.trust)
        return look_back(run, waiting, self.past)

    def _before_spooled(self, newest: Envelope, waiting: SpooledRun) -> Iterator[Envelope]:
        for item in waiting.pending:
            if item.sequence < newest.sequence and (envelope := waiting.open(item)):
                yield envelope
        run = StoredRun(self._github(is_hasty=True), self.layout, waiting.run_id, self.trust)
        yield from run.before(newest.sequence)


def _mark_signatures(run: StoredRun) -> dict[str, str]:
    """Return what the signature of each checkpoint of the index is worth: valid, missing or forged."""
    run.fetch_all()
    marks: dict[str, str] = {}
    for candidate in run.candidates():
        if candidate.entry is None:
            continue
        mark = "valid"
        try:
            run.open(candidate)
        except Unsigned:
            mark = "missing"
        except Forged:
            mark = "forged"
        except KeyMissing:
            pass  # signed, and sealed as well
        except IntegrityFailure:
            continue  # it is damaged: validate says how
        marks[candidate.entry.checkpoint_id] = mark
    return marks
