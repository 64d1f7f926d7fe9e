"""Commands with a GitHub that takes every request and answers none: they say so, in time."""

import pytest

from holdfast.clock import SystemClock
from holdfast.errors import Unavailable
from holdfast.github.calls import Call, ResultT
from holdfast.github.client import GitHubClient
from holdfast.github.light_client import LightClient
from holdfast.github.patience import longest_wait_s
from tests.fakes.clock import VirtualClock

from .conftest import Holdfast

GIVEN_UP_S = 31.0


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    """The machine's clock, which only waits move on: those for GitHub, too."""
    clock = VirtualClock()
    for name, instead in (("now", clock.now), ("monotonic", clock.now), ("sleep", clock.sleep)):
        monkeypatch.setattr(SystemClock, name, lambda _self, *given, instead=instead: instead(*given))

    def hang(_client: object, call: Call[ResultT]) -> ResultT:
        clock.sleep(longest_wait_s(30.0))
        raise Unavailable(call.subject, "GitHub did not answer in time", is_late=True)

    monkeypatch.setattr(GitHubClient, "perform", hang)
    monkeypatch.setattr(LightClient, "perform", hang)
    monkeypatch.setenv("HOLDFAST_REPO", "acme/one")
    monkeypatch.setenv("HOLDFAST_TOKEN", "token")
    monkeypatch.setenv("HOLDFAST_API_URL", "http://127.0.0.1:9")
    return clock


@pytest.mark.parametrize("shards", ["", "acme/one,acme/two,umbrella/three"], ids=["one repository", "shards"])
@pytest.mark.parametrize(
    "words",
    [
        ("runs",),
        ("runs", "--archived"),
        ("list", "unknown"),
        ("show", "unknown"),
        ("show", "7d9a7e0e-3f6f-4c0e-9f1c-2a5b7c1d3e4f"),
        ("resume", "unknown"),
        ("validate", "unknown"),
        ("replay", "unknown"),
        ("diff", "unknown", "1", "2"),
        ("stats",),
    ],
    ids=" ".join,
)
def test_what_reads_gives_up_after_half_a_minute(
    holdfast: Holdfast,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    shards: str,
) -> None:
    if shards:
        monkeypatch.delenv("HOLDFAST_REPO")
        monkeypatch.setenv("HOLDFAST_SHARDS", shards)
    begun = clock.now()

    ended = holdfast(*words)

    assert clock.now() - begun <= GIVEN_UP_S
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("holdfast: ")
    assert "GitHub did not answer" in ended.err
    assert ended.err.endswith("; try again later, or see holdfast doctor\n")


@pytest.mark.parametrize(
    "words", [("runs",), ("list", "run-1"), ("resume", "run-1"), ("validate", "run-1")], ids=" ".join
)
def test_what_is_spooled_here_is_told_all_the_same(
    holdfast: Holdfast, clock: VirtualClock, words: tuple[str, ...]
) -> None:
    holdfast("submit", "-", "--run-id", "run-1", stdin="{}")
    begun = clock.now()

    ended = holdfast(*words)

    assert clock.now() - begun <= GIVEN_UP_S
    assert "run-1" in ended.out
    assert ended.code == (1 if words[0] == "validate" else 0)  # it says what could not be checked


@pytest.mark.parametrize(
    ("options", "longest_s"), [(("--timeout", "3"), 5.0), ((), GIVEN_UP_S)], ids=["with a time", "without"]
)
def test_a_drain_ends_in_its_time_and_keeps_everything(
    holdfast: Holdfast, clock: VirtualClock, options: tuple[str, ...], longest_s: float
) -> None:
    for run_id in ("r", "s", "t"):
        holdfast("submit", "-", "--run-id", run_id, stdin="{}")
    begun = clock.now()

    ended = holdfast("drain", *options)

    assert clock.now() - begun <= longest_s
    assert ended.code == 75
    assert ended.out == "0 checkpoints verified, 3 left in the spool.\n"
    assert "GitHub did not answer in time" in ended.err
    assert holdfast("status", "--json").document["spool"]["depth"] == 3
