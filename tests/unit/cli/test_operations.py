"""What docs/operations.md tells of troubles, through the commands: each is made, told, and cured as it says.

`tests/docs/test_operations.py` names, for every trouble of that page, the test in which it is made.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest

from holdfast.emulator import AnswerWith, Rule
from holdfast.errors import RefusalKind

from .conftest import GitHub, Holdfast

RUN = "build-42"
# No real one; it is put together so that no scanner takes it for one.
SECRET = "ghp_" + "k3Vb9Qx7Lm2Tz8Rw4Yc6Nd1Hs5Pf0Ja3Ue9g"


def save(holdfast: Holdfast, github: GitHub, state: str = '{"answer": 42}', run_id: str = RUN) -> None:
    ended = holdfast("submit", "-", "--run-id", run_id, "--json", *github.options, stdin=state)
    assert (ended.code, ended.document["status"]) == (0, "spooled")


def drain(holdfast: Holdfast, github: GitHub) -> tuple[int, int]:
    """Return how a drain by hand ended, and what it left."""
    ended = holdfast("drain", "--json", *github.options)
    return ended.code, ended.document["left"]


@dataclass(frozen=True)
class Trouble:
    """How GitHub is made to refuse, what is told then, and how that is mended."""

    kind: str
    make: Callable[[GitHub], None]
    told: str
    mend: Callable[[GitHub], None]
    is_set_aside: bool = False


def refuse(message: str, status: int = 422) -> Callable[[GitHub], None]:
    def make(github: GitHub) -> None:
        answer = AnswerWith(status, json.dumps({"message": message, "status": str(status)}))
        github.emulator.faults.add(Rule(answer, "put", path=f"{RUN}/cp_"))

    return make


def obey(github: GitHub) -> None:
    github.emulator.faults.clear()


def switched(**changes: object) -> Callable[[GitHub], None]:
    return lambda github: github.emulator.switch(**changes)


TROUBLES = [
    Trouble(
        "auth", switched(token_revoked=True), "a valid token in HOLDFAST_TOKEN", switched(token_revoked=False)
    ),
    Trouble("permission", switched(read_only=True), "contents: write", switched(read_only=False)),
    Trouble(
        "not_found_or_no_access",
        switched(repository_gone=True),
        "HOLDFAST_REPO",
        switched(repository_gone=False),
    ),
    Trouble(
        "protected_branch",
        switched(protected_branches=frozenset({"checkpoints"})),
        "HOLDFAST_BRANCH",
        switched(protected_branches=frozenset()),
    ),
    Trouble(
        "rules",
        refuse("Repository rule violations found: file path is restricted"),
        "rule",
        obey,
        is_set_aside=True,
    ),
    Trouble("invalid", refuse("This will never do"), "This will never do", obey, is_set_aside=True),
]


@pytest.mark.slow
@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.kind)
def test_refusal_is_told_and_the_cure_of_the_page_helps(
    trouble: Trouble, holdfast: Holdfast, github: GitHub
) -> None:
    save(holdfast, github)
    trouble.make(github)
    assert drain(holdfast, github) == ((0, 0) if trouble.is_set_aside else (75, 1))
    status = holdfast("status", "--json", *github.options).document
    told = status["set_aside"][0]["reason"] if trouble.is_set_aside else status["last_error"]
    assert trouble.told in told

    trouble.mend(github)
    if trouble.is_set_aside:
        assert drain(holdfast, github) == (0, 0)
        assert "1 checkpoint put back" in holdfast("spool", "restore", *github.options).out
    assert drain(holdfast, github) == (0, 0)

    assert holdfast("validate", RUN, *github.options).code == 0
    assert holdfast("status", "--json", *github.options).document["last_error"] is None


@pytest.mark.slow
def test_what_lies_in_the_place_of_a_run_is_told_with_what_to_do(holdfast: Holdfast, github: GitHub) -> None:
    """`tests/scenarios/drain/test_one_bad_run.py` moves it away, and waits for the next try."""
    save(holdfast, github, run_id="other")
    assert drain(holdfast, github) == (0, 0)
    url = f"{github.url}/repos/holdfast/checkpoints/contents/checkpoints/{RUN}"
    body = {"message": "Be in the way", "branch": "checkpoints", "content": ""}
    httpx.put(url, json=body, headers={"authorization": "Bearer the-good-token"}).raise_for_status()
    save(holdfast, github)
    assert drain(holdfast, github) == (75, 1)

    ended = holdfast("drain", *github.options)

    assert "move that away. Only this run waits until then; the next try is in 15 s" in ended.err


@pytest.mark.slow
def test_secret_that_push_protection_found_is_taken_out_and_the_rest_is_stored(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    github.emulator.switch(secret_marker=SECRET)
    monkeypatch.setenv("HOLDFAST_REDACT", "off")
    save(holdfast, github, json.dumps({"answer": 42, "note": SECRET}))
    assert drain(holdfast, github) == (0, 0)
    (aside,) = holdfast("status", "--json", *github.options).document["set_aside"]
    assert "holdfast spool restore" in aside["reason"]

    assert "1 checkpoint put back" in holdfast("spool", "restore", "--redact", *github.options).out
    assert drain(holdfast, github) == (0, 0)

    shown = holdfast("show", RUN, "--json", *github.options)
    assert SECRET not in shown.out
    assert shown.document["state_snapshot"]["answer"] == 42


def test_every_kind_of_refusal_is_tried_here() -> None:
    tried = {trouble.kind for trouble in TROUBLES} | {"obstructed", "secret_detected"}

    assert tried == set(get_args(RefusalKind))


def test_full_spool_takes_more_once_its_limit_is_raised(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(holdfast, github)
    monkeypatch.setenv("HOLDFAST_MAX_SPOOL_ITEMS", "1")
    refused = holdfast("submit", "-", "--run-id", RUN, *github.options, stdin="{}")
    assert (refused.code, "raise its limit" in refused.err) == (1, True)

    monkeypatch.setenv("HOLDFAST_MAX_SPOOL_ITEMS", "2")
    save(holdfast, github)


@pytest.mark.slow
def test_damaged_spool_is_moved_away_and_what_can_be_read_is_saved_and_reported(
    holdfast: Holdfast, github: GitHub, data_dir: Path
) -> None:
    save(holdfast, github)
    save(holdfast, github)
    (database,) = data_dir.glob("targets/*/spool/queue/queue.db")
    database.write_bytes(bytes(16) + database.read_bytes()[16:])

    assert drain(holdfast, github) == (0, 0)

    spool = holdfast("status", "--json", *github.options).document["spool"]
    assert (spool["salvaged"], spool["lost"], spool["depth"]) == (2, 0, 0)
    (kept,) = database.parent.parent.glob("damaged-*")
    (report,) = kept.glob("*.json")
    assert json.loads(report.read_text("utf-8"))["salvaged"] == 2
    assert [each["sequence"] for each in stored(holdfast, github)] == [1, 2]


@pytest.mark.slow
def test_everything_beside_the_spool_is_made_anew_when_it_is_missing(
    holdfast: Holdfast, github: GitHub, data_dir: Path
) -> None:
    save(holdfast, github)
    assert drain(holdfast, github) == (0, 0)
    save(holdfast, github)
    (spool,) = data_dir.glob("targets/*/spool")
    for other in [*data_dir.iterdir(), *spool.parent.iterdir()]:
        if other.is_dir() and other not in (spool, spool.parent.parent):
            shutil.rmtree(other)

    assert drain(holdfast, github) == (0, 0)

    assert [each["sequence"] for each in stored(holdfast, github)] == [1, 2]


def stored(holdfast: Holdfast, github: GitHub) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = holdfast("list", RUN, "--json", *github.options).document["checkpoints"]
    return found
