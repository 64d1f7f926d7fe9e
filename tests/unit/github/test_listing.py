from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.errors import Silent, Throttled
from holdfast.github.calls import Call, ReadBlob, ReadPage
from holdfast.github.listing import read_snapshot
from holdfast.github.results import File, Page
from holdfast.github.wrappers.budgeted import BudgetedGateway
from holdfast.ratelimit.limits import Cost, Wait
from holdfast.ratelimit.shared_file import FileRateLimiter
from tests.fakes.clock import VirtualClock

PATHS = tuple(f"{number}.json" for number in range(201))


@dataclass
class GitHub:
    """Gives every file but `7.json` and `150.json` whole; the branch moves on with every query."""

    calls: list[Call[Any]] = field(default_factory=list)

    def perform(self, call: Call[Any]) -> Any:
        self.calls.append(call)
        if isinstance(call, ReadPage):
            truncated = {path: path for path in call.paths if path in ("7.json", "150.json")}
            whole = [path for path in call.paths if path not in truncated]
            files: dict[str, File | None] = {path: File(b"small", path) for path in whole}
            return Page(call.commit_sha or f"head {len(self.calls)}", files, truncated, folders={})
        return b"large" if isinstance(call, ReadBlob) else "abc"


@dataclass
class Limiter(FileRateLimiter):
    """Has room for so many calls."""

    room: int
    spent: list[str] = field(default_factory=list)

    def take(self, cost: Cost, *, is_critical: bool = False) -> Wait:
        del is_critical
        if len(self.spent) == self.room:
            return Wait(60.0, "nothing is left", "own_budget")
        self.spent.append(cost.resource)
        return Wait(0.0, "")

    def block(self, throttled: Throttled) -> float:
        raise AssertionError(throttled)


def open_gateway(room: int = 99) -> tuple[BudgetedGateway, GitHub, Limiter]:
    github, limiter = GitHub(), Limiter(room)
    return BudgetedGateway(github, limiter, VirtualClock().sleep), github, limiter


def test_every_request_of_a_snapshot_spends_budget() -> None:
    gateway, github, limiter = open_gateway()

    snapshot = read_snapshot(gateway, "main", PATHS)

    assert [type(call).__name__ for call in github.calls] == [
        "ReadPage",
        "ReadBlob",
        "ReadPage",
        "ReadBlob",
        "ReadPage",
    ]
    assert limiter.spent == ["graphql", "core", "graphql", "core", "graphql"]
    assert list(snapshot.files) == list(PATHS)
    assert snapshot.files["7.json"] == File(b"large", "7.json")
    assert snapshot.files["8.json"] == File(b"small", "8.json")


def test_all_files_are_read_at_the_commit_of_the_first() -> None:
    gateway, github, _ = open_gateway()

    assert read_snapshot(gateway, "main", PATHS).head_sha == "head 1"
    pages = [call for call in github.calls if isinstance(call, ReadPage)]
    assert [page.commit_sha for page in pages] == ["", "head 1", "head 1"]


def test_budget_that_ends_half_way_ends_the_snapshot() -> None:
    gateway, github, _ = open_gateway(room=2)

    with pytest.raises(Throttled, match="nothing is left"):
        read_snapshot(gateway, "main", PATHS)
    assert len(github.calls) == 2


def test_snapshot_of_no_files_asks_for_the_head() -> None:
    gateway, github, _ = open_gateway()

    assert read_snapshot(gateway, "main", ()).files == {}
    assert github.calls == [ReadPage("main", ())]


def test_path_that_is_asked_for_twice_is_read_once() -> None:
    gateway, github, _ = open_gateway()

    assert list(read_snapshot(gateway, "main", ("1.json", "2.json", "1.json")).files) == ["1.json", "2.json"]
    assert github.calls == [ReadPage("main", ("1.json", "2.json"))]


def test_a_github_that_is_silent_is_not_asked_which_path_is_at_fault() -> None:
    asked: list[Call[Any]] = []

    class SilentGitHub:
        def perform(self, call: Call[Any]) -> Any:
            asked.append(call)
            raise Silent(call.subject, "GitHub did not answer in time")

    with pytest.raises(Silent):
        read_snapshot(SilentGitHub(), "main", ["a.json", "b.json"])

    assert len(asked) == 1
