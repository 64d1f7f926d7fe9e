"""Reading runs back: lists, single checkpoints, where to go on, what is wrong, what changed."""

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from holdfast.assembly import open_assembly
from holdfast.assembly.ground import Ground
from holdfast.errors import InvalidCheckpoint, UnknownRun
from holdfast.format.checkpoint import Envelope
from holdfast.format.ids import At, is_checkpoint_id, parse_at, parse_checkpoint_id, parse_run_id
from holdfast.format.receipt import Receipt
from holdfast.logs import configure_logs, configure_traces
from holdfast.settings import Settings
from holdfast.settings.file import load_settings
from holdfast.sharding.answers import merge_runs

if TYPE_CHECKING:
    from holdfast.format.index import Index
    from holdfast.repository.catalog import RunLine, RunSummary
    from holdfast.repository.findings import Report
    from holdfast.repository.reader import Reader
    from holdfast.stats.figures import Statistics
    from holdfast.styles.diff import Patch
    from holdfast.styles.replay import Story
    from holdfast.styles.resume import ResumePlan


class Reading:
    """A context manager over one repository and its data folder, both read as one."""

    def __init__(self, settings: Settings, *, assembly: Ground | None = None) -> None:
        self._assembly = assembly or open_assembly(settings)

    @classmethod
    def from_env(cls) -> Self:
        """Return one that is set up by HOLDFAST_… variables and holdfast.toml. Raises InvalidSettings.

        Unless the program has set up structlog itself, events go to standard error, warnings and above.
        """
        settings = load_settings(os.environ)
        level = settings.log_level if "log_level" in settings.sources else "warning"
        assembly = open_assembly(settings)
        configure_logs(settings.log_format, level, secrets=assembly.secrets, is_default=True)
        configure_traces(os.environ)
        return cls(settings, assembly=assembly)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every file and connection. What is spooled stays spooled."""
        self._assembly.close()

    def _reader(self, run_id: str) -> "Reader":
        return self._assembly.home(run_id).reader

    def receipt(self, checkpoint_id: str) -> Receipt | None:
        """Return how far a checkpoint has come; None if it is not known here."""
        return self._assembly.spool.receipt(checkpoint_id)

    def runs(
        self,
        *,
        resumable: bool = False,
        workflow: str | None = None,
        review: bool = False,
        archived: bool = False,
    ) -> list["RunSummary"]:
        """Return every run, stored or spooled, the one last written to first.

        With `resumable`, those that can be resumed; with `workflow`, those of one by its path or its name;
        with `review`, those that wait for a person; with `archived`, those of which only a summary is left.
        """
        readers = [shard.reader for shard in self._assembly.shards]
        if archived:
            if resumable or review:
                return []  # nothing goes on that is archived
            chosen = [run for reader in readers for run in reader.list_archived(workflow)]
            return merge_runs(chosen)
        return merge_runs(
            run
            for reader in readers
            for run in reader.list_runs(is_resumable=resumable, workflow=workflow, is_waiting=review)
        )

    def waiting(self, *, ask: bool = True) -> list["RunLine"]:
        """Return every run that waits for a person, with why and since when, the longest wait first.

        Without `ask`, GitHub is not asked: what others did since the runs were last listed is not in it.
        """
        readers = [shard.reader for shard in self._assembly.shards]
        found = [line for reader in readers for line in reader.list_waiting(is_asking=ask)]
        lines = {line.summary.run_id: line for line in found}
        return sorted(lines.values(), key=lambda line: line.review.since if line.review else "")

    def checkpoints(self, run_id: str, *, limit: int | None = None) -> "Index":
        """Return every checkpoint of a run, stored or spooled, or the newest `limit`. Raises UnknownRun."""
        return self._reader(run_id).list_checkpoints(run_id, newest=limit)

    def checkpoint(self, name: str, at: At | None = None) -> Envelope:
        """Return one checkpoint: the one with this id, or of a run the newest, or the one at `at`.

        `at` is a sequence number or a checkpoint's id. Raises UnknownRun, IntegrityFailure.
        """
        if at is not None or not is_checkpoint_id(name):
            return self._reader(name).read_checkpoint(name, parse_place(at))
        checkpoint_id = parse_checkpoint_id(name)
        if self.receipt(checkpoint_id) is None:
            with suppress(UnknownRun):  # a run may be named like that, too
                return self._reader(name).read_checkpoint(name)
        run_id = self.run_of(checkpoint_id)
        return self._reader(run_id).read_checkpoint(run_id, checkpoint_id)

    def summary(self, run_id: str) -> bytes:
        """Return the summary that is left of an archived run, as JSON. Raises UnknownRun."""
        return self._reader(run_id).read_summary(run_id)

    def checkpoints_by_id(self, run_id: str, checkpoint_ids: Collection[str]) -> dict[str, Envelope]:
        """Return these checkpoints of a run, by their ids. Raises UnknownRun, IntegrityFailure."""
        return self._reader(run_id).read_many(run_id, checkpoint_ids)

    def run_of(self, checkpoint_id: str) -> str:
        """Return the run that a checkpoint belongs to, by its id. Raises UnknownRun."""
        *others, last = (shard.reader for shard in self._assembly.shards)
        for reader in others:
            with suppress(UnknownRun):
                return reader.find_run(checkpoint_id)
        return last.find_run(checkpoint_id)

    def signatures(self, run_id: str) -> dict[str, str]:
        """Return what each stored checkpoint's signature is worth: `valid`, `missing` or `forged`, by id.

        Nothing where no signing key is set; nor of what is spooled here, which is signed when it is drained.
        """
        return self._reader(run_id).read_signatures(run_id)

    def resume(
        self,
        run_id: str,
        *,
        at: At | None = None,
        active_lessons: Sequence[Any] | None = None,
        dag: Any = None,
    ) -> "ResumePlan":
        """Return where a run goes on: from its newest good checkpoint, or from the one at `at`,
        a sequence number or a checkpoint's id.

        What is spooled here is newer than what GitHub has. `active_lessons` and `dag` are what is in force
        now; where they differ from what was stored, the plan warns. Raises UnknownRun, IntegrityFailure when
        nothing good is left, GatewayError when GitHub is away and nothing of the run is known here.
        """
        from holdfast.stats.resumes import count_resume

        plan = self._reader(run_id).resume(run_id, at=parse_place(at), active_lessons=active_lessons, dag=dag)
        count_resume(self._assembly.folder, run_id, self._assembly.clock.now())
        return plan

    def stats(self, run_id: str | None = None) -> "Statistics":
        """Return how much is saved, how often, how large it is, how long its way takes: of a run or of all.

        GitHub is asked for the run's folder, index and newest checkpoint; or for the list of runs and the
        repository's size. What cannot be known is None, and `unknown` says why. Raises UnknownRun,
        GatewayError.
        """
        from holdfast.stats.collection import collect

        return collect(self._assembly, None if run_id is None else parse_run_name(run_id))

    def look_at(self, run_id: str, *, limit: int | None = None) -> "tuple[Index, ResumePlan]":
        """Return the checkpoints of a run, or the newest `limit`, and its resume plan, at one commit.

        It costs one request less than to ask for both. Raises like `resume`.
        """
        return self._reader(run_id).look_at(run_id, newest=limit)

    def is_preserved(self, run_id: str) -> bool | None:
        """Whether a run is never cleaned up, as of the commit last seen; None if that cannot be known now."""
        return self._reader(run_id).is_preserved(run_id)

    def validate(self, run_id: str) -> "Report":
        """Return everything that is wrong with a run: files, integrity, index, numbers, parts, spool.

        Raises UnknownRun, and GatewayError when GitHub is away and nothing of the run is known here.
        """
        from holdfast.repository.validate import Validator

        return Validator(self._reader(run_id)).check_run(run_id)

    def diff(self, run_id: str, first: At, second: At) -> "Patch":
        """Return what turns one checkpoint of a run into another, by their numbers or ids.

        Raises UnknownRun, IntegrityFailure.
        """
        from holdfast.styles.diff import compare

        return compare(self.checkpoint(run_id, first).content, self.checkpoint(run_id, second).content)

    def replay(self, run_id: str, *, start: At | None = None) -> "Story":
        """Return what was decided and what changed at each checkpoint of a run, from `start` on.

        Raises UnknownRun.
        """
        from holdfast.styles.replay import Story, begin_at, replay

        history = self._reader(run_id).history(run_id)
        scenes = begin_at(list(replay(history.envelopes)), parse_place(start, "start"))
        return Story(run_id, scenes, history.warnings)


def parse_run_name(run_id: str) -> str:
    """Return `run_id` if it can name a run. Raises InvalidCheckpoint."""
    try:
        return parse_run_id(run_id)
    except ValueError as error:
        raise InvalidCheckpoint("run_id", str(error)) from error


def parse_place(at: At | None, name: str = "at") -> At | None:
    """Return the checkpoint's number or id that `at` is, if anything is given. Raises InvalidCheckpoint."""
    if at is None:
        return None
    try:
        return parse_at(str(at))
    except ValueError as error:
        raise InvalidCheckpoint(name, f"{at!r}: {error}") from error
