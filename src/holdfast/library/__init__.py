"""The library: what a Python program saves its checkpoints with.

`Holdfast` is the whole of it: each method parses, delegates and returns.
"""

import os
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from holdfast.claims.decide import DEFAULT_TTL_S
from holdfast.errors import DecisionRefused, InvalidSettings, RunArchived, SpoolBusy, Stopped, UnknownRun
from holdfast.format.ids import At
from holdfast.format.receipt import Progress, Receipt
from holdfast.library.reading import parse_place, parse_run_name
from holdfast.library.saving import Saving
from holdfast.sharding.answers import DrainTerms, drain_shards, merge_squashes, merge_sweeps

if TYPE_CHECKING:
    from holdfast.claims.desk import ClaimDesk, TakenClaim
    from holdfast.claims.holding import HeldClaim
    from holdfast.claims.lease import ClaimLease
    from holdfast.decisions.deletion import DeletedRun
    from holdfast.drain.worker import DrainResult
    from holdfast.queue.transfer import Manifest
    from holdfast.recorder import (
        AgentsRun,
        LayersRun,
        PhasesRun,
        Recorder,
        RunOptions,
        StepsRun,
        TasksRun,
    )
    from holdfast.retention import SquashReport, SweepReport
    from holdfast.retention.rotation import RotationReport

BUSY_POLL_S = 0.1
FENCE_VARIABLE = "HOLDFAST_FENCE"
"""The variable by which the commands of a job learn the fence of the claim that the job holds."""


class Holdfast(Saving):
    """Durable checkpoints for one repository. Use it as a context manager, or close it.

    Saving returns as soon as the checkpoint is safe on the local disk, whatever GitHub does; `drain`, or a
    sidecar on the same data folder, takes it to the repository.
    """

    @overload
    def run(
        self, run_id: str, *, style: Literal["phases"] = "phases", **options: Unpack["RunOptions"]
    ) -> "PhasesRun": ...
    @overload
    def run(
        self, run_id: str, *, style: Literal["layers"], **options: Unpack["RunOptions"]
    ) -> "LayersRun": ...
    @overload
    def run(
        self, run_id: str, *, style: Literal["agents"], **options: Unpack["RunOptions"]
    ) -> "AgentsRun": ...
    @overload
    def run(self, run_id: str, *, style: Literal["tasks"], **options: Unpack["RunOptions"]) -> "TasksRun": ...
    @overload
    def run(self, run_id: str, *, style: Literal["steps"], **options: Unpack["RunOptions"]) -> "StepsRun": ...
    def run(self, run_id: str, *, style: str = "phases", **options: Unpack["RunOptions"]) -> "Recorder":
        """Return a run that saves its checkpoints by itself. See RunOptions for what may be chosen.

        Raises InvalidCheckpoint if the run or the style cannot be called that.
        """
        from holdfast.recorder import Options, Storage, open_run

        storage = Storage(
            draft=self.draft,
            put=self._put,
            resume=self.resume,
            drain=self.drain,
            clock=self._assembly.clock,
            claim=lambda claimed, owner: self.claim(claimed, owner=owner),
        )
        return open_run(run_id, style, storage, Options(**options))

    def drain(self, *, timeout_s: float = 0.0, tidies: bool = True) -> "DrainResult":
        """Write what is spooled to the repository; wait for limits to reset for `timeout_s` at most.

        If that ends a run and it `tidies`, the repository is cleaned up as well. Raises SpoolBusy when
        another process is draining.
        """
        return self._drain(timeout_s, tidies=tidies)

    def wait(self, checkpoint_id: str, *, timeout_s: float, tidies: bool = True) -> Receipt | None:
        """Drain until this checkpoint is verified or refused, or wait for the process that drains.

        Returns how far it has come after `timeout_s` at the latest, and earlier if no wait that fits in it
        would help; None if it is not known here. If that ends a run and it `tidies`, the repository is
        cleaned up as well.
        """
        clock, stop = self._assembly.clock, self._assembly.stop
        deadline = clock.now() + timeout_s

        def is_done() -> bool:
            return clock.now() >= deadline or self._is_settled(checkpoint_id)

        while not (stop.is_set() or is_done()):
            try:
                self._drain(deadline - clock.now(), is_done=is_done, tidies=tidies)
                break
            except SpoolBusy:
                clock.sleep(BUSY_POLL_S)
            except Stopped:
                break
        return self.receipt(checkpoint_id)

    def _drain(
        self, timeout_s: float, *, is_done: Callable[[], bool] = lambda: False, tidies: bool
    ) -> "DrainResult":
        shards = self._assembly.shards
        if len(shards) == 1:
            return shards[0].worker.drain(timeout_s=timeout_s, is_done=is_done, tidies=tidies)
        ends_at = self._assembly.clock.now() + timeout_s if timeout_s else None
        return drain_shards(shards, DrainTerms(ends_at, is_done, tidies))

    def status(self) -> dict[str, Any]:
        """Return the spool, the budget and the last error, without asking GitHub or making anything."""
        from holdfast.status import overview

        return overview(self._assembly)

    def export_spool(self, folder: Path) -> "Manifest":
        """Write every unsent checkpoint to `folder`, as a file each. The spool stays as it is."""
        from holdfast.queue.transfer import export_spool

        return export_spool(self._assembly.spool, folder)

    def restore(self, checkpoint_ids: Iterable[str] | None = None, *, redact: bool = False) -> list[str]:
        """Put set-aside checkpoints back into the line, all of them unless some are named; return their ids.

        With `redact`, credentials are taken out first, and only those are put back in which there were some.
        Raises UnknownRun for one that is not known, SpoolDamaged for one whose bytes are damaged.
        """
        spool = self._assembly.spool
        ids = checkpoint_ids or [entry.item.checkpoint_id for entry in spool.set_aside_entries()]
        if redact:
            from holdfast.drain.cleansing import restore_redacted

            return restore_redacted(spool, ids, self._assembly.secrets)
        return [spool.restore(checkpoint_id).checkpoint_id for checkpoint_id in ids]

    def _is_settled(self, checkpoint_id: str) -> bool:
        receipt = self.receipt(checkpoint_id)
        return receipt is None or receipt.status in (Progress.VERIFIED, Progress.REFUSED)

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

    def review(
        self, run_id: str, decision: str, *, note: str | None = None, by: str | None = None
    ) -> Receipt:
        """Decide what a run waits for that needs a person: `continue`, `retry` or `stop`.

        Raises DecisionRefused if nothing waits, InvalidCheckpoint for another decision, UnknownRun.
        """
        from holdfast.decisions.review import ReviewDecision, write_review

        decided = ReviewDecision(decision, note, by)
        plan = self._reader(run_id).resume(parse_run_name(run_id))
        if plan.review is None:
            raise DecisionRefused("nothing_to_review", f"run {run_id!r} does not wait for a review")
        newest = self.checkpoint(run_id, plan.checkpoint_id)
        return self.submit(write_review(newest, plan.review, decided))

    def rollback(self, run_id: str, at: At, *, note: str | None = None) -> Receipt:
        """Go on from an older checkpoint: its state is carried on in a new one.

        What waits for a review still does. Raises UnknownRun, IntegrityFailure, DecisionRefused if a review
        has stopped the run.
        """
        from holdfast.decisions.carrying import write_rollback

        self._refuse_stopped(run_id)
        target = self.checkpoint(parse_run_name(run_id), parse_place(at))
        return self.submit(write_rollback(target, note))

    def fork(self, run_id: str, at: At, new_run_id: str) -> Receipt:
        """Begin another run with the state of a checkpoint; the run itself stays as it is.

        Raises UnknownRun, IntegrityFailure, DecisionRefused if there is a run of the new name already, or if
        that checkpoint is the review that has stopped the run.
        """
        from holdfast.decisions.carrying import ends_run, write_fork

        source = self.checkpoint(parse_run_name(run_id), parse_place(at))
        if ends_run(source):
            reason = f"checkpoint {source.sequence} has stopped run {run_id!r}; begin from an earlier one"
            raise DecisionRefused("stopped", reason)
        self._check_free(parse_run_name(new_run_id))
        return self.submit(write_fork(source, new_run_id))

    def delete(self, run_id: str, *, force: bool = False) -> "DeletedRun":
        """Delete a run as one commit, with what waits for it in the spool.

        A preserved one, and one that someone drives at the moment, only by force. Raises UnknownRun,
        DecisionRefused, Claimed, SpoolBusy, GatewayError.
        """
        return self._assembly.home(parse_run_name(run_id)).deletion.delete(run_id, is_forced=force)

    def _check_free(self, run_id: str) -> None:
        try:
            self.checkpoint(run_id)
        except RunArchived as error:
            reason = f"there is a run {run_id!r} already, which is archived; choose another name"
            raise DecisionRefused("run_exists", reason) from error
        except UnknownRun:
            return
        raise DecisionRefused("run_exists", f"there is a run {run_id!r} already; choose another name")

    def claim(self, run_id: str, *, owner: str | None = None, ttl_s: float = DEFAULT_TTL_S) -> "HeldClaim":
        """Be the only one that drives a run, until the claim is released: use it with `with`.

        It renews itself in the background, twice in `ttl_s`; meanwhile what is saved here for the run carries
        its fence. `owner` is shown to others; this machine and process unless given. Raises Claimed while
        someone else holds the run, GatewayError (Throttled with the time to wait) when GitHub cannot judge.
        """
        from holdfast.claims.holding import HeldClaim

        taken = self.take_claim(run_id, owner=owner, ttl_s=ttl_s)

        def end(claim: "HeldClaim") -> None:
            if self._held.get(claim.run_id) is claim:
                del self._held[claim.run_id]

        held = HeldClaim(self._desk(run_id), taken, on_end=end)
        self._held[held.run_id] = held
        return held.start()

    def take_claim(
        self, run_id: str, *, owner: str | None = None, ttl_s: float = DEFAULT_TTL_S
    ) -> "TakenClaim":
        """Take a claim that nobody renews but its caller, with `renew_claim`. Raises like `claim`."""
        desk = self._desk(run_id)
        name = owner if owner is not None else f"{socket.gethostname()}:{os.getpid()}"
        # Both are stored as they are, also in the message of a commit.
        for field, text in (("run_id", run_id), ("owner", name)):
            self._assembly.redactor.check_name(field, text)
        return desk.take(run_id, name, ttl_s)

    def renew_claim(self, run_id: str, token: str, *, ttl_s: float | None = None) -> "ClaimLease":
        """Let a claim last longer. Raises Fenced if it is not the token's any more, GatewayError."""
        return self._desk(run_id).renew(run_id, token, ttl_s)

    def release_claim(self, run_id: str, token: str) -> bool:
        """End a claim; return whether it was the token's until now. Raises GatewayError."""
        return self._desk(run_id).release(run_id, token)

    def carry_fence(self, run_id: str, fence: int) -> None:
        """Let what is saved here for a run carry the fence of a claim that is renewed elsewhere."""
        self._fences[run_id] = fence

    def _desk(self, run_id: str) -> "ClaimDesk":
        return self._assembly.home(parse_run_name(run_id)).claims

    def close(self) -> None:
        """Release what is still claimed, and close every file and connection."""
        for held in list(self._held.values()):
            held.release()
        super().close()
