"""A claim that lasts over the steps of a job: kept in a file of the runner's, renewed by the steps."""

import os
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from holdfast.action.inputs import Inputs
from holdfast.action.job import Job
from holdfast.claims.decide import RENEWALS_IN_TTL
from holdfast.errors import Fenced, GatewayError
from holdfast.logs import log
from holdfast.presentation.session import Session


@dataclass(frozen=True, slots=True)
class JobClaim:
    """A claim as the steps of a job hand it on; not by variables, where every program would see its token."""

    token: str
    fence: int
    ttl_s: float


def find_claim(job: Job, run_id: str) -> JobClaim | None:
    """Return the claim of this run that an earlier step has taken."""
    try:
        return JobClaim(**orjson.loads(_file(job, run_id).read_bytes()))
    except FileNotFoundError:
        return None


def take_or_renew(session: Session, job: Job, inputs: Inputs) -> JobClaim:
    """Return a claim of the run: that of an earlier step, if it is still this job's.

    Raises Claimed, GatewayError.
    """
    run_id, ttl_s = inputs.run_id, inputs.ttl_s
    kept = find_claim(job, run_id)
    if kept:
        try:
            session.holdfast.renew_claim(run_id, kept.token, ttl_s=ttl_s)
            return _keep(job, run_id, JobClaim(kept.token, kept.fence, ttl_s))
        except Fenced as error:
            log.warning("claim_lost", run_id=run_id, cause=str(error))
    taken = session.holdfast.take_claim(run_id, owner=inputs.owner, ttl_s=ttl_s)
    return _keep(job, run_id, JobClaim(taken.token, taken.claim.fence, ttl_s))


def carry_on(session: Session, job: Job, run_id: str) -> None:
    """Let what this step saves carry the fence of the job's claim, if there is one; renew it when it is due.

    Raises Fenced if someone else has taken the run.
    """
    claim = find_claim(job, run_id)
    if claim is None:
        return
    session.holdfast.carry_fence(run_id, claim.fence)
    known = session.assembly.home(run_id).known_claims
    if known.left_s(run_id) > claim.ttl_s / RENEWALS_IN_TTL:
        return
    try:
        session.holdfast.renew_claim(run_id, claim.token, ttl_s=claim.ttl_s)
    except GatewayError as error:
        # As long as it lasts the checkpoint is taken, and GitHub may be back before it ends.
        log.warning("claim_not_renewed", run_id=run_id, cause=str(error))


def release_claim(session: Session, job: Job, run_id: str) -> bool | None:
    """End the job's claim; return whether the run was its own until now, None if none was taken."""
    claim = find_claim(job, run_id)
    if claim is None:
        return None
    was_ours = session.holdfast.release_claim(run_id, claim.token)
    _file(job, run_id).unlink()
    return was_ours


def _keep(job: Job, run_id: str, claim: JobClaim) -> JobClaim:
    file = _file(job, run_id)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(orjson.dumps(asdict(claim)))
    return claim


def _file(job: Job, run_id: str) -> Path:
    # Not with the spool, which may outlive the job: the runner empties this folder for each.
    return job.temp / "holdfast-claims" / f"{run_id}.json"
