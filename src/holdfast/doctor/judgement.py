"""What a finding means: whether it is in order, and what to do. Nothing is looked at here.

A check that is in order may still carry advice: something will have to be done, but not today.
"""

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.errors import GatewayError, Missing, Refused, Throttled, Unavailable
from holdfast.github.inspection import RepositoryRecord
from holdfast.queue.contract import QueueStatus
from holdfast.security.keys import SecurityKey

MEGABYTE = 1024 * 1024
DAY_S = 86_400.0
# GitHub asks to keep repositories below 1 GB, and strongly below 5 GB.
WARNED_REPOSITORY_BYTES = 1024 * MEGABYTE
LARGE_REPOSITORY_BYTES = 5 * 1024 * MEGABYTE
WARNED_EXPIRY_S = 14 * DAY_S
# Waits are measured by GitHub's clock, so that only what people read suffers from a wrong one.
MOST_SKEW_S = 60.0
SLOW_SYNC_S = 0.1
OLD_S = 3600.0
MOST_OF_SPOOL = 0.8
# Rules that keep a commit off a branch unless it comes by a pull request, is signed, or has passed checks.
BLOCKING_RULES = frozenset(
    {
        "merge_queue",
        "pull_request",
        "required_deployments",
        "required_signatures",
        "required_status_checks",
        "update",
        "workflows",
    }
)


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the diagnosis."""

    name: str
    ok: bool
    detail: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Every check, in the order of the way of a checkpoint."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing must be mended."""
        return all(check.ok for check in self.checks)


def judge_settings(
    sources: Mapping[str, str], unknown: Mapping[str, str], *, is_enabled: bool = True
) -> Check:
    """Tell what is set, and name the variables that look like settings and are none."""
    if not is_enabled:
        return Check("settings", False, "enabled is false: nothing is saved", "Unset HOLDFAST_ENABLED.")
    if unknown:
        meant = [f"{name} ({likely}?)" if likely else name for name, likely in unknown.items()]
        advice = "Correct the name, or unset it; holdfast config lists every setting."
        return Check("settings", False, f"not a setting: {', '.join(meant)}", advice)
    places: dict[str, list[str]] = {}
    for name, source in sources.items():
        kind = source.partition(", line")[0] if ", line" in source else "environment"
        kind = source if source in ("command line", "embedded GitHub", "working folder") else kind
        places.setdefault(kind, []).append(name)
    told = [f"{', '.join(sorted(names))} from the {kind}" for kind, names in places.items()]
    return Check("settings", True, "; ".join(told) or "all have their defaults")


def judge_unreadable_keys(reason: str) -> Check:
    """Return what is to say of keys that cannot be read."""
    return Check("keys", False, reason, "Use what holdfast keys new prints.")


def judge_keys(
    sealing: Sequence[SecurityKey], signing: Sequence[SecurityKey], exposed: Sequence[str]
) -> Check:
    """Whether the keys are as they should be; `exposed` are files that others can read."""
    told = []
    if sealing:
        told.append(f"states are sealed with {sealing[0].kid}")
    if sealing and not sealing[0].is_private:
        told.append("only its public half is here: this machine writes and cannot read")
    if signing:
        verb = "signed" if signing[0].is_private else "verified"
        told.append(f"checkpoints are {verb} with {signing[0].kid}")
    if exposed:
        told.append(f"others can read {', '.join(exposed)}")
        return Check("keys", False, "; ".join(told), "Make the file its owner's alone: chmod 600.")
    return Check("keys", True, "; ".join(told))


def judge_database(version: str, *, is_synced: bool, is_writable: bool, took_s: float) -> Check:
    """Whether the database that machines share keeps what it takes."""
    detail = f"PostgreSQL {version} answers within {took_s * 1000:.0f} ms"
    if not is_writable:
        advice = "HOLDFAST_DATABASE_URL leads to a standby, or to a user who may only read: name the primary."
        return Check("database", False, f"{detail}, and takes no writes", advice)
    if not is_synced:
        advice = "Set fsync = on in postgresql.conf: a power cut would take acknowledged checkpoints with it."
        return Check("database", False, f"{detail}, and does not sync to its disk", advice)
    return Check("database", True, detail)


def judge_absent_database(reason: str) -> Check:
    """Tell that the database that machines share cannot be asked."""
    advice = (
        "See that it runs and that HOLDFAST_DATABASE_URL leads to it; once it was in use, checkpoints wait "
        "on this disk meanwhile."
    )
    return Check("database", False, reason, advice)


def judge_late(name: str) -> Check:
    """Return that something outside did not answer in time."""
    if name == "github":
        return judge_failure(name, Unavailable("", "it did not answer in time"))
    advice = "See that what its settings name can be reached; until then checkpoints wait on this disk."
    return Check(name, False, "it did not answer in time", advice)


def judge_sealed(sealed: int, opened: int, *, is_writer_only: bool) -> Check:
    """Whether the keys here open what is stored, by the newest checkpoints of some runs."""
    detail = f"{opened} of {sealed} sealed checkpoints looked at can be opened here"
    if is_writer_only:
        return Check("sealed states", True, "this machine writes and cannot read, as its public key says")
    if opened < sealed:
        advice = (
            "Add the key that sealed them to HOLDFAST_ENCRYPTION_KEY, after the newest: the first one seals, "
            "all of them open."
        )
        return Check("sealed states", False, detail, advice)
    return Check("sealed states", True, detail)


def judge_unwritable_folder(path: str, error: Exception) -> Check:
    """Tell why the data folder takes nothing."""
    advice = "Give this user the right to write there, or choose another folder with HOLDFAST_DATA_DIR."
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = "Free some space, or choose another disk with HOLDFAST_DATA_DIR."
    return Check("data folder", False, f"{path} cannot be written to: {error}", advice)


def judge_folder(path: str, *, free_bytes: int, min_free_bytes: int, sync_s: float, kind: str) -> Check:
    """Whether the disk takes checkpoints for good: `kind` is the type of its file system."""
    megabytes = free_bytes // MEGABYTE
    detail = f"{path}: {megabytes:,} MB free, a sync takes {sync_s * 1000:.1f} ms"
    if free_bytes < 2 * min_free_bytes:
        advice = (
            f"Free some space, or choose another disk with HOLDFAST_DATA_DIR: saves end at "
            f"{min_free_bytes // MEGABYTE:,} MB (HOLDFAST_MIN_FREE_BYTES)."
        )
        return Check("data folder", free_bytes >= min_free_bytes, detail, advice)
    if kind in ("tmpfs", "ramfs"):
        advice = "Choose a folder on a disk with HOLDFAST_DATA_DIR."
        return Check(
            "data folder", False, f"{path} is in memory ({kind}) and does not survive a restart", advice
        )
    if sync_s > SLOW_SYNC_S:
        advice = "Each save waits for one sync: choose a faster disk with HOLDFAST_DATA_DIR."
        return Check("data folder", True, detail, advice)
    return Check("data folder", True, detail)


def judge_queue(status: QueueStatus, *, max_bytes: int, max_items: int, last_error: str | None) -> Check:
    """Whether checkpoints move through the spool."""
    detail = f"{status.depth:,} waiting, {status.set_aside:,} set aside"
    if status.depth:
        detail += f", the oldest for {status.oldest_age_s / 60:.0f} min"
    if status.lost:
        advice = "They were in a damaged spool, which is kept beside the new one; save these runs again."
        return Check("spool", False, f"{detail}, {status.lost:,} lost", advice)
    if status.set_aside:
        advice = "holdfast status says why; then holdfast spool restore, and holdfast drain."
        return Check("spool", False, detail, advice)
    held = max(
        (status.bytes + status.set_aside_bytes) / max_bytes, (status.depth + status.set_aside) / max_items
    )
    if held > MOST_OF_SPOOL:
        advice = (
            "Let it drain, or raise HOLDFAST_MAX_SPOOL_BYTES or HOLDFAST_MAX_SPOOL_ITEMS: "
            "a full spool refuses saves."
        )
        return Check("spool", False, f"{detail}: {held:.0%} of its limit", advice)
    if last_error:
        return Check("spool", False, f"{detail}; {last_error}", "Mend what it says, then holdfast drain.")
    if status.depth and status.oldest_age_s > OLD_S:
        advice = "Nothing seems to drain it: run holdfast serve, or holdfast drain from time to time."
        return Check("spool", False, detail, advice)
    return Check("spool", True, detail)


def judge_failure(name: str, error: GatewayError) -> Check:
    """Tell why GitHub could not be asked."""
    if isinstance(error, Throttled):
        minutes = error.retry_after_s / 60
        detail = f"GitHub asks us to stay away for {minutes:.0f} min more: {error.reason}"
        return Check(name, True, f"not asked: {detail}", "Nothing: Holdfast goes on by itself then.")
    if isinstance(error, Refused):
        return Check(name, False, error.reason, error.advice)
    if isinstance(error, Missing):
        advice = "Check HOLDFAST_REPO and HOLDFAST_API_URL, and that the token may write to it."
        return Check(name, False, "the repository does not exist, or the token may not see it", advice)
    advice = "Check the network, the proxy and HOLDFAST_API_URL; until then checkpoints wait in the spool."
    return Check(name, False, str(error), advice)


def judge_absent_token(file: str | None, *, is_needed: bool) -> Check:
    """Tell what to do where there is no token; `file` is where one should be."""
    if not is_needed:
        return Check("token", True, "none, and none is needed for the embedded GitHub")
    if file:
        advice = "Put the token into this file, and let this user read it."
        return Check(
            "token", False, f"HOLDFAST_TOKEN_FILE is {file}, which has none or cannot be read", advice
        )
    advice = "Set HOLDFAST_TOKEN: fine-grained, this one repository, contents: read and write."
    return Check("token", False, "none is set", advice)


def judge_token(viewer: str | GatewayError, expires: str, now: float) -> Check:
    """Tell whose token it is, as far as GitHub has told, and how long it lasts."""
    who = f"of {viewer}" if isinstance(viewer, str) else "whose it is was not told"
    if isinstance(viewer, Refused):
        who = "of an app or a job"
    ends_at = parse_expiry(expires)
    if ends_at is None:
        return Check("token", True, f"{who}, without an end that GitHub tells")
    days = (ends_at - now) / DAY_S
    detail = f"{who}, ends in {days:.0f} days ({expires})"
    advice = "Make a new one, and put it into HOLDFAST_TOKEN_FILE, which is read again when it changes."
    return Check("token", ends_at > now, detail, advice if ends_at - now < WARNED_EXPIRY_S else "")


def parse_expiry(text: str) -> float | None:
    """Return the end of a token as GitHub's header tells it; None if it tells none.

    >>> parse_expiry("2026-11-17 00:00:00 UTC"), parse_expiry("2026-11-17 02:00:00 +0200"), parse_expiry("")
    (1794873600.0, 1794873600.0, None)
    """
    try:
        return datetime.strptime(text.replace("UTC", "+0000"), "%Y-%m-%d %H:%M:%S %z").timestamp()
    except ValueError:
        return None


def judge_repository(record: RepositoryRecord) -> tuple[Check, Check]:
    """Whether the repository can be written to, and whether it stays small."""
    may_write = Check("permission", True, f"the token may write to {record.full_name}")
    if not record.can_write:
        advice = "Give the token contents: read and write on this repository; unarchive it if it is archived."
        detail = f"the token may not write to {record.full_name}, or it is archived"
        may_write = Check("permission", False, detail, advice)
    megabytes = record.size_bytes // MEGABYTE
    detail = f"{record.full_name}, {megabytes:,} MB"
    if record.size_bytes <= WARNED_REPOSITORY_BYTES:
        return may_write, Check("repository", True, detail)
    advice = (
        "Keep less (docs/retention.md), then holdfast cleanup --squash-history; GitHub asks for under 1 GB."
    )
    return may_write, Check("repository", record.size_bytes <= LARGE_REPOSITORY_BYTES, detail, advice)


def judge_branch(branch: str, *, is_there: bool, is_protected: bool, rules: Sequence[str]) -> Check:
    """Whether commits can be made on the branch without a pull request."""
    blocking = sorted(
        rule for rule in {*rules} if rule in BLOCKING_RULES or (rule == "creation" and not is_there)
    )
    if blocking or (is_protected and not rules):
        guard = f"the rules {', '.join(blocking)}" if blocking else "branch protection"
        advice = f"Take {branch} out of it, or choose a branch of its own with HOLDFAST_BRANCH."
        return Check("branch", False, f"{branch} is guarded by {guard}", advice)
    return Check("branch", True, branch if is_there else f"{branch}, which the first checkpoint makes")


def judge_limits(report: Mapping[str, Any]) -> Check:
    """Tell what GitHub still allows."""
    if report["blocked_until"]:
        detail = f"no calls for now: {report['blocked_because']}"
        return Check("limits", True, detail, "Nothing: Holdfast goes on by itself then.")
    if report["last_remaining"] is None:
        return Check("limits", True, "GitHub has told none")
    detail = f"{report['last_remaining']:,} of {report['limit']:,} calls left this hour"
    if not report["is_low"]:
        return Check("limits", True, detail)
    advice = "Use commit mode (HOLDFAST_WRITE_MODE=commit), or a token that nothing else uses."
    return Check("limits", True, detail, advice)


def judge_clock(ahead_s: float | None) -> Check:
    """Tell how far GitHub's clock is ahead of this machine's; None if GitHub has not told."""
    if ahead_s is None:
        return Check("clock", True, "not compared")
    if abs(ahead_s) <= MOST_SKEW_S:
        return Check("clock", True, "agrees with GitHub's")
    side = "behind" if ahead_s > 0 else "ahead of"
    detail = f"{abs(ahead_s):,.0f} s {side} GitHub's"
    return Check("clock", False, detail, "Set this machine's clock, and have it kept by NTP.")


def judge_graphql(*, is_there: bool, write_mode: str) -> Check:
    """Whether what commit mode needs is there."""
    if is_there:
        return Check("graphql", True, "answers")
    if write_mode == "commit":
        advice = "Set HOLDFAST_WRITE_MODE=contents, which needs no GraphQL."
        return Check("graphql", False, "this server has none, but commit mode needs it", advice)
    return Check("graphql", True, "this server has none; contents mode does without")


def judge_formats(versions: Mapping[str, int] | None, known: int) -> Check:
    """Whether this version reads what is stored; `versions` are those of a sample of runs, if any."""
    if versions is None:
        return Check("format", True, f"format {known}; what is stored was not told in time")
    newer = sorted(run_id for run_id, version in versions.items() if version > known)
    if newer:
        detail = f"{', '.join(newer)}: stored by a newer Holdfast (format {max(versions.values())})"
        return Check("format", False, detail, "Upgrade Holdfast on this machine.")
    looked = (
        f"{len(versions)} run{'' if len(versions) == 1 else 's'} looked at"
        if versions
        else "nothing stored yet"
    )
    return Check("format", True, f"format {known}, {looked}")
