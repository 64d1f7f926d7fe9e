"""Client and emulator agree on what goes wrong, each by itself: neither imports the other."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.emulator.app import Emulator
from holdfast.emulator.faults import (
    AnswerWith,
    Cut,
    Delay,
    Effect,
    HeadMoves,
    Malform,
    Rule,
    Stale,
    Truncate,
    WrongLength,
)
from holdfast.emulator.server import EmulatorServer
from holdfast.errors import Conflict, Missing, Refused, Throttled, Unavailable
from holdfast.format.git_ids import blob_sha
from holdfast.github.calls import NO_GRAPHQL, Call, ReadFile, ReadHead, ReadPage
from holdfast.github.client import GitHubClient
from holdfast.github.wrappers.retrying import RetryingGateway
from holdfast.github.write_calls import CommitFiles, Revision, WriteFile
from tests.fakes.clock import VirtualClock

REPOSITORY = "holdfast/checkpoints"


@pytest.fixture
def head(client: GitHubClient) -> str:
    """The head of main in a repository with one commit."""
    return client.perform(WriteFile("README.md", b"hello\n", "First", branch="")).commit_sha


@pytest.fixture(params=["contents", "commit"])
def write(request: pytest.FixtureRequest, head: str) -> Call[Revision]:
    """One write of `a.json`, in either mode."""
    if request.param == "commit":
        return CommitFiles("main", head, "Headline", "", {"a.json": b"content"})
    return WriteFile("a.json", b"content", "Message", "main")


def is_written(client: GitHubClient) -> bool:
    try:
        return client.perform(ReadFile("a.json", "main")).blob_sha == blob_sha(b"content")
    except Missing:
        return False


LOST_BEFORE: list[Effect] = [Cut(), AnswerWith(502), AnswerWith(500)]
LOST_AFTER: list[Effect] = [
    Cut(after_write=True),
    AnswerWith(502, after_write=True),
    AnswerWith(504, after_write=True),
    Delay(31),
    Truncate(),
    WrongLength(-1),
    WrongLength(5),
    Malform(),
]


@pytest.mark.parametrize("effect", [*LOST_BEFORE, *LOST_AFTER], ids=repr)
def test_lost_answer_to_a_write_is_unavailable_and_a_read_tells(
    emulator: Emulator, client: GitHubClient, write: Call[Revision], effect: Effect
) -> None:
    emulator.faults.add(Rule(effect, target="write", times=1))

    with pytest.raises(Unavailable):
        client.perform(write)

    assert is_written(client) == (effect in LOST_AFTER)


@pytest.mark.parametrize("effect", [Cut(), Truncate(), AnswerWith(502), AnswerWith(503), Delay(31)], ids=repr)
def test_read_survives_a_short_fault(
    emulator: Emulator, client: GitHubClient, head: str, clock: VirtualClock, effect: Effect
) -> None:
    emulator.faults.add(Rule(effect, target="read", times=3))

    assert RetryingGateway(client, sleep=clock.sleep).perform(ReadHead("main")) == head


def test_file_that_is_not_visible_yet_is_found_in_the_end(
    emulator: Emulator, client: GitHubClient, clock: VirtualClock, head: str
) -> None:
    commit_sha = client.perform(WriteFile("a.json", b"1", "m", "main")).commit_sha
    emulator.faults.add(Rule(Stale(hidden=True), target="read", times=2))

    with pytest.raises(Missing):
        client.perform(ReadFile("a.json", commit_sha))
    file = RetryingGateway(client, sleep=clock.sleep).perform(ReadFile("a.json", commit_sha, is_fresh=True))

    assert file.content == b"1"


def test_head_that_moves_during_a_write_is_a_conflict(
    emulator: Emulator, client: GitHubClient, write: Call[Revision]
) -> None:
    emulator.faults.add(Rule(HeadMoves(), target="write", times=1))

    with pytest.raises(Conflict) as caught:
        client.perform(write)

    assert caught.value.kind == "head_moved"
    assert not is_written(client)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"protected_branches": frozenset({"main"})}, "protected_branch"),
        ({"ruled_branches": frozenset({"main"})}, "protected_branch"),
        ({"secret_marker": "content"}, "secret_detected"),
        ({"read_only": True}, "permission"),
        ({"token_revoked": True}, "auth"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_what_a_person_must_mend_is_refused_with_advice(
    emulator: Emulator, client: GitHubClient, write: Call[Revision], fault: dict[str, Any], kind: str
) -> None:
    emulator.switch(**fault)

    with pytest.raises(Refused) as caught:
        client.perform(write)

    assert caught.value.kind == kind
    assert re.fullmatch(r"[A-Z][^.]+(: [^.]+)?\.", caught.value.advice)
    assert sum(entry.status >= 400 or entry.resource == "graphql" for entry in emulator.journal.entries) == 1


def test_repository_that_is_gone_is_missing(
    emulator: Emulator, client: GitHubClient, write: Call[Revision]
) -> None:
    emulator.switch(repository_gone=True)

    with pytest.raises(Missing) as caught:
        client.perform(write)

    assert caught.value.path != NO_GRAPHQL


def test_renamed_repository_is_still_written_and_read(
    emulator: Emulator, client: GitHubClient, head: str
) -> None:
    emulator.switch(renamed={REPOSITORY: "holdfast/renamed"})

    client.perform(WriteFile("ü b.json", b"1", "m", "main"))

    assert client.perform(ReadFile("ü b.json", "main")).content == b"1"


def test_exhausted_budget_is_primary_and_waits_by_the_server_s_clock(
    emulator: Emulator, client: GitHubClient, write: Call[Revision], clock: VirtualClock
) -> None:
    emulator.change_options(primary_limit=0, clock_offset_s=7200)

    with pytest.raises(Throttled) as caught:
        client.perform(write)

    assert caught.value.kind == "primary"
    assert caught.value.resource == write.resource
    assert 5 <= caught.value.retry_after_s <= 3605


@pytest.mark.parametrize("has_header", [True, False])
@pytest.mark.parametrize("status", [403, 429])
def test_too_much_content_is_a_secondary_limit(
    emulator: Emulator, client: GitHubClient, write: Call[Revision], status: int, has_header: bool
) -> None:
    emulator.change_options(
        content_per_minute=1, secondary_status=status, secondary_with_retry_after=has_header
    )

    with pytest.raises(Throttled) as caught:
        client.perform(write)

    assert (caught.value.kind, caught.value.resource) == ("secondary", write.resource)
    assert caught.value.retry_after_s >= (1 if has_header else 60)


def test_server_without_graphql_says_so(emulator: Emulator, client: GitHubClient, head: str) -> None:
    emulator.change_options(graphql=False)

    for call in (CommitFiles("main", head, "Headline", "", {"a.json": b"1"}), ReadPage("main", ())):
        with pytest.raises(Missing) as caught:
            client.perform(call)
        assert caught.value.path == NO_GRAPHQL


@pytest.fixture
def remote(emulator: Emulator, clock: VirtualClock) -> Iterator[GitHubClient]:
    """A client that reaches the emulator over a socket."""
    with (
        EmulatorServer(emulator, sleep=clock.sleep) as server,
        GitHubClient(REPOSITORY, token=lambda: "t", api_url=server.url, clock=clock) as client,
    ):
        yield client


@pytest.mark.parametrize(
    "effect", [Cut(after_write=True), Truncate(), WrongLength(-1), WrongLength(5)], ids=repr
)
def test_answer_torn_on_the_wire_is_unavailable_and_the_next_call_works(
    emulator: Emulator, remote: GitHubClient, effect: Effect
) -> None:
    remote.perform(WriteFile("README.md", b"hello\n", "First", branch=""))
    emulator.faults.add(Rule(effect, target="write", times=1))

    with pytest.raises(Unavailable):
        remote.perform(WriteFile("a.json", b"content", "Message", "main"))

    assert is_written(remote)
