"""What is kept and what goes: cleaning up, preserved runs, the branch's history."""

from typing import TYPE_CHECKING

from holdfast.errors import InvalidSettings
from holdfast.library.open_library import OpenLibrary, parse_run_name
from holdfast.sharding.answers import merge_squashes, merge_sweeps

if TYPE_CHECKING:
    from holdfast.retention import SquashReport, SweepReport
    from holdfast.retention.rotation import RotationReport


class Keeping(OpenLibrary):
    """The rules of retention, carried out."""

    def cleanup(self, *, dry_run: bool = False) -> "SweepReport":
        """Clean up the repository by the rules of the settings, or say what that would do.

        The report of a sweep that was cut short has a `rest_because`. Raises SweepBusy when another process
        is at it, Throttled when the budget is low.
        """
        sweepers = [shard.sweeper for shard in self._assembly.shards]
        return merge_sweeps([each.plan() if dry_run else each.sweep() for each in sweepers])

    def rotate_keys(self, run_id: str) -> "RotationReport":
        """Seal what is stored of a run with the newest key; called again, it goes on with what is left.

        Raises InvalidSettings without an encryption key, UnknownRun, Throttled when the budget is low.
        """
        if not self._assembly.keyring.keys:
            raise InvalidSettings(["HOLDFAST_ENCRYPTION_KEY: there is no key to seal with"])
        home = self._assembly.home(parse_run_name(run_id))
        report = home.rotator.rotate(run_id)
        home.cache.empty()  # the local copies of what was sealed otherwise, or not at all
        return report

    def squash_history(
        self, *, keep_days: float | None = None, force: str = "", unguarded: bool = False
    ) -> "SquashReport":
        """Rewrite the branch so that what was deleted is no longer in its history. Raises Refused.

        `force` must name the branch if it is the repository's default one. `unguarded` allows it where the
        server has no GraphQL, so that nothing compares the branch as it is moved.
        """
        return merge_squashes(
            [
                shard.squash.run(keep_days=keep_days, forced_branch=force, may_be_unguarded=unguarded)
                for shard in self._assembly.shards
            ]
        )

    def preserve(self, run_id: str) -> bool:
        """Keep a run from ever being cleaned up; return whether that is new."""
        name = parse_run_name(run_id)
        # It is stored as it is, whether there is such a run or not.
        self._assembly.redactor.check_name("run_id", name)
        return self._assembly.home(name).preserved.add(run_id)

    def unpreserve(self, run_id: str) -> bool:
        """Let a run be cleaned up again; return whether it was preserved."""
        return self._assembly.home(parse_run_name(run_id)).preserved.remove(run_id)
