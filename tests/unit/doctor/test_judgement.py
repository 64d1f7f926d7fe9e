import errno
import json

import pytest

from holdfast.doctor import judgement
from holdfast.doctor.judgement import Check, Diagnosis
from holdfast.errors import GatewayError, Missing, Refused, Throttled, Unavailable
from holdfast.github.inspection import RepositoryRecord
from holdfast.queue.contract import QueueStatus
from holdfast.security.jose import make_recipient_key, make_shared_key, public_half
from holdfast.security.keys import parse_keys

GIGABYTE = 1024**3
LIMITED = Throttled("", "limit", kind="primary", retry_after_s=60)
REFUSED = Refused("", "no", "auth", "Renew the token.")
NOW = 1_794_873_600.0  # 2026-11-17


def queue(**changes: float) -> QueueStatus:
    values = {
        "depth": 0,
        "bytes": 0,
        "oldest_age_s": 0.0,
        "set_aside": 0,
        "set_aside_bytes": 0,
        "salvaged": 0,
        "lost": 0,
    }
    return QueueStatus(**{**values, **changes})  # type: ignore[arg-type]


def judge_queue(status: QueueStatus, last_error: str | None = None) -> Check:
    return judgement.judge_queue(status, max_bytes=1000, max_items=100, last_error=last_error)


def judge_branch(*rules: str, is_there: bool = True, is_protected: bool = False) -> Check:
    return judgement.judge_branch("b", is_there=is_there, is_protected=is_protected, rules=rules)


def judge_folder(free: int = GIGABYTE, sync_s: float = 0.001, kind: str = "ext4") -> Check:
    return judgement.judge_folder(
        "data", free_bytes=free, min_free_bytes=64 * 1024**2, sync_s=sync_s, kind=kind
    )


def record(*, can_write: bool = True, size_bytes: int = 0) -> RepositoryRecord:
    return RepositoryRecord("you/x", "main", "", can_write, size_bytes=size_bytes)


def test_a_diagnosis_is_in_order_if_every_check_is() -> None:
    good, bad = Check("a", True, "", "later"), Check("b", False, "")

    assert Diagnosis((good,)).ok
    assert not Diagnosis((good, bad)).ok


def test_settings_are_told_with_where_they_come_from() -> None:
    sources = {"repo": "holdfast.toml, line 1", "branch": "HOLDFAST_BRANCH", "port": "command line"}

    assert judgement.judge_settings(sources, {}).detail == (
        "repo from the holdfast.toml; branch from the environment; port from the command line"
    )


@pytest.mark.parametrize(
    ("check", "word"),
    [
        (judge_folder(free=100 * 1024**2), "HOLDFAST_MIN_FREE_BYTES"),
        (judge_folder(sync_s=0.5), "faster disk"),
        (judge_queue(queue()), ""),
        (judgement.judge_token("me", "2026-11-20 00:00:00 UTC", NOW), "new one"),
        (judgement.judge_token("me", "", NOW), ""),
        (judgement.judge_absent_token(None, is_needed=False), ""),
        (judgement.judge_repository(record(size_bytes=2 * GIGABYTE))[1], "squash-history"),
        (judge_branch("deletion", is_protected=True), ""),
        (judge_branch("creation"), ""),
        (judgement.judge_graphql(is_there=False, write_mode="contents"), ""),
        (judgement.judge_clock(-59.0), ""),
        (judgement.judge_formats({"a": 1}, 1), ""),
        (judgement.judge_formats(None, 1), ""),
        (
            judgement.judge_failure("github", Throttled("", "limit", kind="primary", retry_after_s=60)),
            "Nothing",
        ),
    ],
    ids=str,
)
def test_these_are_in_order_perhaps_with_advice(check: Check, word: str) -> None:
    assert check.ok
    assert word in check.advice
    assert bool(word) == bool(check.advice)


@pytest.mark.parametrize(
    ("check", "word"),
    [
        (judgement.judge_settings({}, {"HOLDFAST_REOP": "HOLDFAST_REPO"}), "Correct the name"),
        (judgement.judge_settings({}, {}, is_enabled=False), "HOLDFAST_ENABLED"),
        (judge_folder(free=10 * 1024**2), "HOLDFAST_DATA_DIR"),
        (judge_folder(kind="tmpfs"), "HOLDFAST_DATA_DIR"),
        (judge_queue(queue(set_aside=1)), "spool restore"),
        (judge_queue(queue(lost=1)), "damaged spool"),
        (judge_queue(queue(depth=90)), "HOLDFAST_MAX_SPOOL_ITEMS"),
        (judge_queue(queue(depth=1, bytes=900)), "HOLDFAST_MAX_SPOOL_BYTES"),
        (judge_queue(queue(depth=1), "no permission"), "holdfast drain"),
        (judge_queue(queue(depth=1, oldest_age_s=4000)), "holdfast serve"),
        (judgement.judge_absent_token(None, is_needed=True), "HOLDFAST_TOKEN"),
        (judgement.judge_absent_token("/token", is_needed=True), "into this file"),
        (judgement.judge_unwritable_folder("/data", OSError(errno.ENOSPC, "full")), "Free some space"),
        (judgement.judge_unwritable_folder("/data", OSError(errno.EROFS, "read-only")), "right to write"),
        (judgement.judge_token("me", "2026-11-16 00:00:00 UTC", NOW), "new one"),
        (judgement.judge_repository(record(can_write=False))[0], "contents: read and write"),
        (judgement.judge_repository(record(size_bytes=6 * GIGABYTE))[1], "squash-history"),
        (judge_branch(is_protected=True), "HOLDFAST_BRANCH"),
        (
            judge_branch("update"),
            "HOLDFAST_BRANCH",
        ),
        (
            judge_branch("creation", is_there=False),
            "HOLDFAST_BRANCH",
        ),
        (judgement.judge_graphql(is_there=False, write_mode="commit"), "HOLDFAST_WRITE_MODE=contents"),
        (judgement.judge_clock(3600.0), "NTP"),
        (judgement.judge_formats({"a": 1, "b": 2}, 1), "Upgrade"),
        (judgement.judge_failure("github", Missing("", "404")), "HOLDFAST_REPO"),
        (judgement.judge_failure("github", Unavailable("", "no answer")), "HOLDFAST_API_URL"),
        (
            judgement.judge_failure("github", Refused("", "no", "auth", "Renew the token.")),
            "Renew the token.",
        ),
    ],
    ids=str,
)
def test_these_must_be_mended_and_the_cure_is_named(check: Check, word: str) -> None:
    assert not check.ok
    assert word in check.advice


def test_keys_are_told_by_their_ids_and_a_file_for_all_must_be_mended() -> None:
    pair, shared = make_recipient_key(), make_shared_key()
    sealing = parse_keys(json.dumps(public_half(pair)), "encryption")
    signing = parse_keys(json.dumps(shared), "signing")
    check = judgement.judge_keys(sealing, signing, [])
    assert check.ok
    assert pair["kid"] in check.detail
    assert "cannot read" in check.detail
    assert f"signed with {shared['kid']}" in check.detail
    exposed = judgement.judge_keys(sealing, (), ["seal.key"])
    assert not exposed.ok
    assert "chmod 600" in exposed.advice
    assert not judgement.judge_unreadable_keys("no such file").ok


@pytest.mark.parametrize(
    ("viewer", "words"),
    [
        ("me", "of me,"),
        (Refused("", "no", "permission", ""), "of an app or a job,"),
        (Unavailable("", "no answer"), "whose it is was not told,"),
    ],
)
def test_whose_token_it_is_is_said_where_github_tells_it(viewer: str | GatewayError, words: str) -> None:
    assert words in judgement.judge_token(viewer, "", NOW).detail
