"""GitHub as the judge: `claim.json`, replaced only if it is still the file that was read.

Whatever is unknown is settled by reading: the token's digest in the file tells whose claim it is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from holdfast.claims.decide import Wish, decide_release, decide_renewal, decide_take, refuse_living
from holdfast.claims.lease import ClaimLease
from holdfast.claims.server_time import DatedGateway, DateReading
from holdfast.clock import Deadline
from holdfast.errors import GatewayError, IntegrityFailure, Missing
from holdfast.format.claim import Claim, parse_claim
from holdfast.format.index import highest_fence, parse_index
from holdfast.format.paths import CLAIM, INDEX, LATEST, Layout
from holdfast.format.stored_file import open_checkpoint
from holdfast.github.calls import Gateway, ReadFile
from holdfast.github.wrappers.retrying import CHANGE_ATTEMPTS, is_worth_repeating, repeat
from holdfast.github.write_calls import WriteFile
from holdfast.logs import log
from holdfast.repository.branch import perform_on_branch

ResultT = TypeVar("ResultT")


class _Found(NamedTuple):
    """What lies at the place of a claim, and when GitHub said so."""

    claim: Claim | None
    blob_sha: str | None
    reading: DateReading


@dataclass(frozen=True)
class GitHubJudge:
    """Keeps claims in the repository. `gateway` is the whole way to GitHub, of which `dated` is a part."""

    gateway: Gateway
    dated: DatedGateway
    layout: Layout
    branch: str
    deadline: Deadline

    def take(self, wish: Wish) -> ClaimLease:
        """Return the claim that is now ours. Raises Claimed, and GatewayError if GitHub does not answer."""

        def take() -> ClaimLease:
            found = self._read(wish.run_id)
            highest = 0 if found.claim else self._fence_of_checkpoints(wish.run_id)
            claim = decide_take(found.claim, wish, found.reading.earliest(), highest_fence=highest)
            if claim == found.claim:
                return ClaimLease(claim, found.reading, found.blob_sha or "")
            return self._write(claim, found.blob_sha, "taken")

        return self._insist(take, wish.run_id, lambda: self._find_own(wish.run_id, wish.token_sha256))

    def renew(
        self, run_id: str, token_sha256: str, ttl_s: float, known: ClaimLease | None = None
    ) -> ClaimLease:
        """Return the claim with a new end: one request, unless someone was quicker. Raises Fenced."""
        told = [_Found(known.claim, known.blob_sha, known.reading)] if known else []

        def renew() -> ClaimLease:
            found = told.pop() if told else self._read(run_id)
            now = found.reading.earliest()
            claim = decide_renewal(found.claim, run_id, token_sha256, now, ttl_s)
            return self._write(claim, found.blob_sha, "renewed")

        return self._insist(renew, run_id, lambda: self._find_own(run_id, token_sha256))

    def release(self, run_id: str, token_sha256: str, known: ClaimLease | None = None) -> Claim | None:
        """End the claim with one request, unless someone was quicker."""
        told = [_Found(known.claim, known.blob_sha, known.reading)] if known else []

        def release() -> Claim | None:
            found = told.pop() if told else self._read(run_id)
            claim = decide_release(found.claim, token_sha256, found.reading.earliest())
            if claim is None:
                mine = found.claim and found.claim.token_sha256 == token_sha256
                return found.claim if mine else None
            return self._write(claim, found.blob_sha, "released").claim

        return self._insist(release, run_id, lambda: None)

    def look(self, run_id: str) -> Claim | None:
        """Return the newest claim of a run, as the branch shows it."""
        return self._read(run_id).claim

    def check_idle(self, run_id: str) -> None:
        """Raise Claimed while someone drives the run, as the branch shows it."""
        found = self._read(run_id)
        refuse_living(found.claim, found.reading.earliest())

    def _read(self, run_id: str) -> _Found:
        path = self._path(run_id)
        try:
            file = self.gateway.perform(ReadFile(path, self.branch))
        except Missing:
            return _Found(None, None, self.dated.reading())
        reading = self.dated.reading()
        try:
            return _Found(parse_claim(file.content, path, run_id), file.blob_sha, reading)
        except IntegrityFailure as error:
            advice = "; nobody can claim the run until it is deleted, or what it was"
            raise IntegrityFailure(path, f"{error.reason}{advice}") from error

    def _write(self, claim: Claim, blob_sha: str | None, what: str) -> ClaimLease:
        path = self._path(claim.run_id)
        message = f"Claim {claim.run_id}: {what} by {claim.owner}, fence {claim.fence}"
        call = WriteFile(path, claim.to_bytes(), message, self.branch, blob_sha)
        revision = perform_on_branch(self.gateway, self.branch, call)
        log.info(f"claim_{what}", run_id=claim.run_id, owner=claim.owner, fence=claim.fence)
        return ClaimLease(claim, self.dated.reading(), revision.blob_shas[path])

    def _insist(
        self,
        work: Callable[[], ResultT],
        run_id: str,
        find: Callable[[], ResultT | None],
    ) -> ResultT:
        """Return what `work` returns, which reads before it repeats; `find` settles what is left open."""

        def note(attempt: int, error: GatewayError) -> None:
            log.info("claim_repeated", run_id=run_id, attempt=attempt, cause=str(error))

        try:
            return repeat(work, attempts=CHANGE_ATTEMPTS, deadline=self.deadline, note=note)
        except GatewayError as error:
            found = find() if is_worth_repeating(error) else None
            if found is None:
                raise
            return found

    def _find_own(self, run_id: str, token_sha256: str) -> ClaimLease | None:
        found = self._read(run_id)
        is_ours = found.claim and found.claim.token_sha256 == token_sha256 and not found.claim.is_released
        if not (found.claim and is_ours):
            return None
        lease = ClaimLease(found.claim, found.reading, found.blob_sha or "")
        return lease if lease.is_alive else None

    def highest_fence(self, run_id: str) -> int:
        """Return the highest fence that was given, as far as claim.json or the checkpoints tell."""
        if claim := self._read(run_id).claim:
            return claim.fence
        return self._fence_of_checkpoints(run_id)

    def _fence_of_checkpoints(self, run_id: str) -> int:
        for name in (INDEX, LATEST):
            path = self.layout.path(run_id, name)
            try:
                content = self.gateway.perform(ReadFile(path, self.branch)).content
            except Missing:
                continue
            if name == INDEX:
                return highest_fence(parse_index(content, path).entries)
            return open_checkpoint(content, path).header.fence or 0
        return 0

    def _path(self, run_id: str) -> str:
        return self.layout.path(run_id, CLAIM)
