"""An App in two organizations and a shard in each: no token and no budget is taken for the other's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.emulator import AppRegistration
from holdfast.format.receipt import Progress
from holdfast.library import Holdfast
from tests.fakes.app import APP_ID, key_pair
from tests.fakes.postgres import postgres_url
from tests.fakes.shards import ShardedGitHub, run_of, sharded_github

SMALL, LARGE = SHARDS = ("acme/state", "umbrella/state")
APP = AppRegistration(APP_ID, key_pair()[1], {"acme": 77, "umbrella": 78}, limits={78: 12_500})
CALLERS = {SMALL: "installation ID 77", LARGE: "installation ID 78"}
RUNS = {shard: [run_of(shard, SHARDS, nth=nth) for nth in range(3)] for shard in SHARDS}


@pytest.fixture
def github(tmp_path: Path) -> Iterator[ShardedGitHub]:
    with sharded_github(tmp_path / "github", SHARDS, app=APP) as github:
        yield github


@pytest.fixture(params=["files", "postgres"])
def holdfast(request: pytest.FixtureRequest, github: ShardedGitHub, tmp_path: Path) -> Iterator[Holdfast]:
    """The library with the App, and with the budgets in files or in a database."""
    (tmp_path / "app.pem").write_text(key_pair()[0])
    more = {
        "HOLDFAST_APP_ID": str(APP_ID),
        "HOLDFAST_APP_PRIVATE_KEY_FILE": str(tmp_path / "app.pem"),
        "HOLDFAST_WRITE_MODE": "contents",
    }
    if request.param == "postgres":
        more["HOLDFAST_DATABASE_URL"] = postgres_url(tmp_path)
    with github.open(tmp_path / "data", SHARDS, HOLDFAST_TOKEN="", **more) as holdfast:
        yield holdfast


def save_and_drain(holdfast: Holdfast) -> dict[str, set[Progress]]:
    """Save every run once, and return how far the checkpoints of each shard have come."""
    receipts = {shard: [holdfast.save(run_id, {}) for run_id in RUNS[shard]] for shard in SHARDS}
    holdfast.drain()
    return {
        shard: {found.status for each in receipts[shard] if (found := holdfast.receipt(each.checkpoint_id))}
        for shard in SHARDS
    }


@pytest.mark.slow
def test_each_shard_is_written_with_its_own_token_and_from_its_own_budget(
    github: ShardedGitHub, holdfast: Holdfast
) -> None:
    assert save_and_drain(holdfast) == {shard: {Progress.VERIFIED} for shard in SHARDS}

    calls = dict.fromkeys(SHARDS, 0)
    for entry in github.emulator.journal.entries:
        of = [shard for shard in SHARDS if entry.path.startswith(f"/repos/{shard}/contents")]
        assert all(entry.caller == CALLERS[shard] for shard in of), entry
        assert entry.status not in (401, 403, 404) or entry.method == "GET", entry
        calls |= {shard: calls[shard] + 1 for shard in SHARDS if entry.caller == CALLERS[shard]}
    for shard, told in zip(SHARDS, holdfast.status()["shards"], strict=True):
        budget = told["budget"]
        assert (told["repository"], budget["limit"]) == (shard, 12_500 if shard == LARGE else 5_000)
        assert budget["last_remaining"] == budget["limit"] - calls[shard], "no call of the other is in it"


@pytest.mark.slow
def test_an_installation_that_has_nothing_left_does_not_hold_up_the_other(
    github: ShardedGitHub, holdfast: Holdfast
) -> None:
    save_and_drain(holdfast)  # from now on it is known where each run is
    emulator = github.emulator
    small = next(each for each in APP.callers if each.account == "acme")
    emulator.limits.spend_primary(emulator.options, emulator.options.now(), "core", 0, small)

    far = save_and_drain(holdfast)

    assert far == {SMALL: {Progress.SPOOLED}, LARGE: {Progress.VERIFIED}}
    left = [shard["budget"]["last_remaining"] for shard in holdfast.status()["shards"]]
    assert left[0] == 0
    assert left[1] > 12_000
