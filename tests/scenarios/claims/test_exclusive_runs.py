"""Claims through the library: several machines, each with its own spool, over one repository."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from holdfast import Claimed, Fenced, Holdfast
from holdfast.claims.second_look import SECOND_LOOK_AFTER_S
from holdfast.errors import Conflict, DecisionRefused, InvalidCheckpoint, Unavailable
from holdfast.format.receipt import Progress
from holdfast.github.calls import ReadFile
from holdfast.github.write_calls import CommitFiles, WriteFile
from tests.fakes.assembly import BRANCH, make_assembly
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway

Machine = Callable[[str], Holdfast]
TTL_S = 60.0


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def repository() -> MemoryGateway:
    return MemoryGateway()


@pytest.fixture(params=["contents", "commit"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def machine(tmp_path: Path, repository: MemoryGateway, clock: VirtualClock, mode: str) -> Iterator[Machine]:
    with ExitStack() as stack:

        def open_machine(name: str) -> Holdfast:
            assembly = make_assembly(tmp_path / name, repository, clock, write_mode=mode)
            return stack.enter_context(Holdfast(assembly.settings, assembly=assembly))

        yield open_machine


def stored(repository: MemoryGateway, name: str, run_id: str = "r") -> dict[str, object]:
    document: dict[str, object] = json.loads(repository.files(BRANCH)[f"checkpoints/{run_id}/{name}"])
    return document


@contextmanager
def away(repository: MemoryGateway, *, first_is_applied: bool = False) -> Iterator[None]:
    """Have every write fail meanwhile; of the first one perhaps only the answer is lost."""
    error = Unavailable("r", "no answer")
    is_away = [True]

    def is_meant(_: object) -> bool:
        return bool(is_away)

    for kind in (WriteFile, CommitFiles):
        repository.fail_next(kind, error, is_applied=first_is_applied, when=is_meant)
        repository.fail_next(kind, error, times=9, when=is_meant)
    yield
    is_away.clear()


def wait_for_second_look(clock: VirtualClock, holdfast: Holdfast) -> None:
    """Drain until a run that waits for a second look at its claim has got it."""
    for _ in range(2):
        clock.time += SECOND_LOOK_AFTER_S
        holdfast.drain()


def claim_writes(repository: MemoryGateway) -> int:
    calls = repository.calls
    return sum(isinstance(call, WriteFile) and call.path.endswith("claim.json") for call in calls)


def test_one_machine_drives_a_run_and_another_is_told_who_and_until_when(
    machine: Machine, repository: MemoryGateway, clock: VirtualClock
) -> None:
    a, b = machine("a"), machine("b")
    with a.claim("r", owner="worker-a", ttl_s=TTL_S) as claim:
        assert (claim.fence, claim.owner, claim.is_held) == (1, "worker-a", True)
        with pytest.raises(Claimed) as refused:
            b.claim("r", owner="worker-b", ttl_s=TTL_S)
        assert refused.value.owner == "worker-a"
        assert refused.value.expires_at == clock.now() + TTL_S
    with b.claim("r", owner="worker-b", ttl_s=TTL_S) as claim:
        assert claim.fence == 2
    assert stored(repository, "claim.json")["released"] is True
    assert claim_writes(repository) == 1 + 4  # two each, and one that found no branch


def test_checkpoints_carry_the_fence_in_file_and_index_and_others_look_as_before(
    machine: Machine, repository: MemoryGateway
) -> None:
    a = machine("a")
    a.save("r", {"n": 0})
    with a.claim("r"):
        a.save("r", {"n": 1})
        a.save("other", {"n": 1})
    a.save("r", {"n": 2})
    a.drain()
    fences = [entry.get("fence") for entry in stored(repository, "index.json")["checkpoints"]]  # type: ignore[attr-defined]
    assert fences == [None, 1, None]
    assert stored(repository, "cp_002_manual.json")["fence"] == 1
    assert "fence" not in stored(repository, "cp_001_manual.json")
    assert "fence" not in stored(repository, "latest.json", "other")
    assert a.resume("r").state == {"n": 2}
    assert a.validate("r").findings == []


def test_a_holder_that_was_frozen_past_its_lease_learns_of_it_at_its_next_save(
    machine: Machine, clock: VirtualClock, repository: MemoryGateway
) -> None:
    a, b = machine("a"), machine("b")
    frozen = a.claim("r", ttl_s=TTL_S)
    a.save("r", {"by": "a"})
    a.drain()
    clock.time += TTL_S - 1
    assert not frozen.is_held  # its holder lets go first
    with pytest.raises(Claimed):
        b.claim("r", ttl_s=TTL_S)
    clock.time += 2
    with b.claim("r", ttl_s=TTL_S):
        assert b.resume("r").state == {"by": "a"}
        b.save("r", {"by": "b"})
        with pytest.raises(Fenced, match="not yours any more"):
            a.save("r", {"by": "a again"})
        with pytest.raises(Fenced) as lost:
            frozen.renew()
        assert lost.value.current == 2
        b.drain()
    a.drain()
    assert stored(repository, "latest.json")["state_snapshot"] == {"by": "b"}
    assert a.resume("r").state == {"by": "b"}


def test_a_lapsed_claim_that_nobody_took_is_good_again_once_it_is_renewed(
    machine: Machine, clock: VirtualClock
) -> None:
    a = machine("a")
    claim = a.claim("r", ttl_s=TTL_S)
    clock.time += 10 * TTL_S
    with pytest.raises(Fenced, match="could not be renewed in time"):
        a.save("r", {})
    claim.renew()
    assert a.save("r", {}).status is Progress.SPOOLED
    assert claim.fence == 1


def test_what_a_dead_holder_left_in_the_spool_of_its_machine_is_the_past_of_the_next_one_there(
    machine: Machine, clock: VirtualClock, repository: MemoryGateway
) -> None:
    first = machine("a")
    first.claim("r", ttl_s=TTL_S)
    first.save("r", {"step": 1})  # and it dies before a drain
    clock.time += TTL_S + 1
    second = machine("a")
    with second.claim("r", ttl_s=TTL_S) as claim:
        assert claim.fence == 2
        assert second.resume("r").state == {"step": 1}
        second.save("r", {"step": 2})
        result = second.drain()
    assert (result.verified, result.left) == (2, 0)
    assert [entry["fence"] for entry in stored(repository, "index.json")["checkpoints"]] == [1, 2]  # type: ignore[attr-defined]
    assert second.resume("r").state == {"step": 2}


@pytest.mark.parametrize("has_saved", [True, False])
def test_what_comes_after_another_machine_took_over_is_set_aside_and_never_preferred(
    machine: Machine, clock: VirtualClock, repository: MemoryGateway, *, has_saved: bool
) -> None:
    a, b = machine("a"), machine("b")
    a.claim("r", ttl_s=TTL_S)
    a.save("r", {"step": 1})
    a.drain()
    late = a.save("r", {"step": 2})  # acknowledged, and then the machine is offline
    clock.time += TTL_S + 1
    with b.claim("r", owner="worker-b", ttl_s=TTL_S):
        if has_saved:
            b.save("r", {"step": "b"})
            b.drain()
        a.drain()
        receipt = a.receipt(late.checkpoint_id)
        assert receipt is not None
        assert receipt.status is Progress.REFUSED
        assert "fence" in (receipt.reason or "")
    assert a.status()["spool"]["set_aside"] == 1  # kept, with its bytes
    for reader in (a, b):
        assert reader.resume("r").state == ({"step": "b"} if has_saved else {"step": 1})


def test_a_checkpoint_of_an_older_fence_that_is_stored_later_is_never_the_newest(
    machine: Machine, clock: VirtualClock, repository: MemoryGateway
) -> None:
    a, b = machine("a"), machine("b")
    with b.claim("r"):
        b.save("r", {"by": "first"})
        b.drain()
    with b.claim("r"):
        b.save("r", {"by": "second"})
        b.drain()
    # A writer that knows of no claims, or was between its check and its write, stores one of the first.
    a.submit({"run_id": "r", "trigger": "manual", "state": {"by": "late"}, "fence": 1})
    worker = a._assembly.shards[0].worker
    worker.contents.admit = worker.commits.admit = lambda _snapshot, stamped: stamped
    a.drain()
    assert len(stored(repository, "index.json")["checkpoints"]) == 3  # type: ignore[arg-type]
    assert stored(repository, "latest.json")["state_snapshot"] == {"by": "second"}
    for reader in (a, b, machine("c")):
        assert reader.resume("r").state == {"by": "second"}
        assert reader.validate("r").findings == []
        for listed in (reader.checkpoints("r"), reader.checkpoints("r", limit=1)):
            late = [entry for entry in listed.entries if entry.checkpoint_id in listed.fenced]
            assert [(entry.sequence, entry.fence) for entry in late] == [(3, 1)]
    with b.claim("r") as claim:
        assert claim.fence == 3
        b.save("r", {"by": "third"})
        b.drain()
    assert stored(repository, "latest.json")["state_snapshot"] == {"by": "third"}
    assert machine("d").resume("r").state == {"by": "third"}


@pytest.mark.parametrize("is_applied", [True, False])
def test_a_lost_answer_is_settled_by_reading(
    machine: Machine, repository: MemoryGateway, *, is_applied: bool
) -> None:
    a = machine("a")
    a.save("r", {})
    a.drain()
    before = claim_writes(repository)
    repository.fail_next(WriteFile, Unavailable("claim", "no answer"), is_applied=is_applied)
    with a.claim("r") as claim:
        assert (claim.fence, claim.is_held) == (1, True)
        repository.fail_next(WriteFile, Unavailable("claim", "no answer"), is_applied=is_applied)
        claim.renew()
        assert claim.is_held
        repository.fail_next(WriteFile, Unavailable("claim", "no answer"), is_applied=is_applied)
    assert claim_writes(repository) - before == (4 if is_applied else 6)  # a renewal is made anew
    assert stored(repository, "claim.json")["released"] is True
    with machine("b").claim("r") as next_one:
        assert next_one.fence == 2


def test_a_branch_that_moves_on_is_no_reason_to_lose_a_claim(
    machine: Machine, repository: MemoryGateway
) -> None:
    a = machine("a")
    repository.fail_next(WriteFile, Conflict("claim", "moved", "head_moved"), times=2)
    with a.claim("r") as claim:
        repository.fail_next(WriteFile, Conflict("claim", "moved", "head_moved"), times=2)
        claim.renew()
        assert claim.is_held


def test_while_github_is_away_nothing_can_be_claimed_and_the_error_says_so(
    machine: Machine, repository: MemoryGateway
) -> None:
    a = machine("a")
    repository.fail_next(ReadFile, Unavailable("claim", "GitHub does not answer"), times=20)
    with pytest.raises(Unavailable, match="GitHub does not answer"):
        a.claim("r")
    repository.forget_failures()
    assert a.save("r", {}).status is Progress.SPOOLED  # saving without a claim goes on


def test_a_repetition_of_what_was_accepted_is_answered_as_it_was_even_if_the_run_was_taken_over(
    machine: Machine, clock: VirtualClock
) -> None:
    a = machine("a")
    checkpoint = {
        "checkpoint_id": "5f0c1f6e-8f7a-4b9e-9d53-3f1f3f0d1c11",
        "run_id": "r",
        "trigger": "manual",
        "state": {"n": 1},
    }
    a.claim("r", ttl_s=TTL_S)
    first = a.submit(checkpoint)
    clock.time += TTL_S
    again = a.submit(checkpoint)
    assert (again.checkpoint_id, again.sequence_number) == (first.checkpoint_id, first.sequence_number)


def test_an_exclusive_run_of_the_recorder_claims_releases_and_stops_once_it_is_fenced(
    machine: Machine, clock: VirtualClock, repository: MemoryGateway
) -> None:
    a, b = machine("a"), machine("b")
    with a.run("r", style="tasks", exclusive=True, owner="nightly", autosave_s=None) as run:
        with pytest.raises(Claimed, match="nightly"), b.run("r", style="tasks", exclusive=True):
            pass
        with run.task("one"):
            pass
    assert stored(repository, "claim.json")["released"] is True
    with (
        pytest.raises(Fenced),
        b.run("r", style="tasks", exclusive=True, autosave_s=None) as run,
        run.task("two"),
    ):
        clock.time += 1000


def test_what_is_saved_with_a_fence_by_hand_is_checked_by_what_this_machine_knows(
    machine: Machine, clock: VirtualClock
) -> None:
    a = machine("a")

    def save(fence: int) -> Progress:
        return a.submit({"run_id": "r", "trigger": "manual", "state": {}, "fence": fence}).status

    assert save(4) is Progress.SPOOLED  # a claim of elsewhere: only the writer can ask
    with pytest.raises(Fenced):
        save(3)
    taken = a.take_claim("s", owner="x", ttl_s=TTL_S)
    mine = {"run_id": "s", "trigger": "manual", "state": {}, "fence": taken.claim.fence}
    a.submit(mine)
    clock.time += TTL_S
    with pytest.raises(Fenced, match="run out"):
        a.submit(mine)
    a.renew_claim("s", taken.token)
    a.submit(mine)
    assert a.release_claim("s", taken.token) is True
    with pytest.raises(Fenced, match="released"):
        a.submit(mine)
    assert a.release_claim("s", "another") is False


@pytest.mark.parametrize("place", ["here", "elsewhere"])
def test_a_fence_that_no_claim_has_locks_nobody_out(
    machine: Machine, clock: VirtualClock, place: str
) -> None:
    a, b = machine("a"), machine("b")
    taken = a.take_claim("r", owner="x", ttl_s=TTL_S)

    def save(holdfast: Holdfast, fence: int) -> str:
        checkpoint = {"run_id": "r", "trigger": "manual", "state": {"fence": fence}, "fence": fence}
        return holdfast.submit(checkpoint).checkpoint_id

    stranger = a if place == "here" else b
    made_up = save(stranger, 9)
    others = stranger.save("other", {"n": 1}).checkpoint_id
    stranger.drain()
    waiting, other = stranger.receipt(made_up), stranger.receipt(others)
    assert waiting is not None
    assert other is not None
    assert waiting.status is Progress.SPOOLED  # GitHub may show an old claim for a moment
    assert "no claim with fence 9 is shown yet" in (waiting.reason or "")
    assert other.status is Progress.VERIFIED
    mine = save(a, taken.claim.fence)
    wait_for_second_look(clock, stranger)
    a.drain()

    refused, kept = stranger.receipt(made_up), a.receipt(mine)
    assert refused is not None
    assert kept is not None
    assert refused.status is Progress.REFUSED
    assert "no claim has that fence: 'x' drives it, with fence 1" in (refused.reason or "")
    assert kept.status is Progress.VERIFIED
    assert b.resume("r").state == {"fence": 1}


def test_a_new_fence_is_not_refused_because_github_shows_an_old_claim_for_a_moment(
    machine: Machine, repository: MemoryGateway, clock: VirtualClock
) -> None:
    """It was claimed by one machine, and its checkpoint comes through the spool of another."""
    a, b, path = machine("a"), machine("b"), "checkpoints/r/claim.json"
    first = a.take_claim("r", owner="x", ttl_s=TTL_S)
    before = repository.files(BRANCH)[path]
    a.release_claim("r", first.token)
    a.take_claim("r", owner="y", ttl_s=TTL_S)
    newest = repository.files(BRANCH)[path]
    saved = b.submit({"run_id": "r", "trigger": "manual", "state": {"n": 2}, "fence": 2})

    repository.write_as_someone_else(BRANCH, {path: before})  # what a server that lags behind shows
    b.drain()
    clock.time += 5
    repository.write_as_someone_else(BRANCH, {path: newest})
    clock.time += SECOND_LOOK_AFTER_S
    b.drain()

    receipt = b.receipt(saved.checkpoint_id)
    assert receipt is not None
    assert receipt.status is Progress.VERIFIED
    assert b.status()["spool"]["set_aside"] == 0


def test_what_could_not_be_written_before_another_machine_took_over_is_not_written_after(
    machine: Machine, clock: VirtualClock, repository: MemoryGateway
) -> None:
    a, b = machine("a"), machine("b")
    a.claim("r", ttl_s=TTL_S)
    late = [a.save("r", {"step": step}).checkpoint_id for step in (1, 2)]
    with away(repository):
        a.drain()
    clock.time += 100 * TTL_S
    with b.claim("r", owner="worker-b", ttl_s=TTL_S):
        a.drain()
    receipts = [a.receipt(each) for each in late]
    assert [receipt.status for receipt in receipts if receipt] == [Progress.REFUSED] * 2
    assert [path for path in repository.files(BRANCH) if "/r/" in path] == ["checkpoints/r/claim.json"]


def test_what_was_stored_before_another_machine_took_over_is_verified_though_its_answer_was_lost(
    machine: Machine, clock: VirtualClock, repository: MemoryGateway
) -> None:
    a, b = machine("a"), machine("b")
    a.claim("r", ttl_s=TTL_S)
    saved = a.save("r", {"step": 1})
    with away(repository, first_is_applied=True):
        a.drain()
    clock.time += 100 * TTL_S
    with b.claim("r", owner="worker-b", ttl_s=TTL_S):
        a.drain()
        assert b.resume("r").state == {"step": 1}
    receipt = a.receipt(saved.checkpoint_id)
    assert receipt is not None
    assert receipt.status is Progress.VERIFIED


def test_what_a_frozen_holder_puts_into_the_spool_behind_the_next_one_there_is_set_aside(
    machine: Machine, clock: VirtualClock, repository: MemoryGateway
) -> None:
    first, second = machine("a"), machine("a")
    claim = first.claim("r", ttl_s=TTL_S)
    first.save("r", {"step": 1})
    clock.time += TTL_S + 1
    with second.claim("r", ttl_s=TTL_S):
        second.save("r", {"step": 2})
        claim.check = lambda: None  # type: ignore[method-assign]  # frozen after it had looked
        late = first.save("r", {"step": "late"})
        assert second.resume("r").state == {"step": 2}
        second.drain()
        assert second.resume("r").state == {"step": 2}
    assert [entry["fence"] for entry in stored(repository, "index.json")["checkpoints"]] == [1, 2]  # type: ignore[attr-defined]
    receipt = first.receipt(late.checkpoint_id)
    assert receipt is not None
    assert receipt.status is Progress.REFUSED


def test_a_run_that_someone_drives_is_deleted_only_by_force_and_its_claim_stays(
    machine: Machine, repository: MemoryGateway, clock: VirtualClock
) -> None:
    a, b = machine("a"), machine("b")
    with a.claim("r", owner="worker-a", ttl_s=TTL_S) as held:
        a.save("r", {"n": 1})
        a.drain()
        with pytest.raises(Claimed, match="worker-a"):
            b.delete("r")
        assert b.resume("r").state == {"n": 1}

        b.delete("r", force=True)

        # Without it the next one would have the same fence, and both would hold the run.
        assert [path for path in repository.files(BRANCH) if "/r/" in path] == ["checkpoints/r/claim.json"]
        with pytest.raises(Claimed):
            b.claim("r")
        assert held.is_held
    with b.claim("r") as next_one:
        assert next_one.fence == 2


def test_a_run_that_nobody_drives_any_more_is_deleted_with_its_claim(
    machine: Machine, repository: MemoryGateway, clock: VirtualClock
) -> None:
    a, b = machine("a"), machine("b")
    for has_ended in ("released", "run out", "damaged"):
        taken = a.take_claim("r", ttl_s=TTL_S)
        a.save("r", {"n": 1})
        a.drain()
        if has_ended == "released":
            a.release_claim("r", taken.token)
        elif has_ended == "run out":
            clock.time += TTL_S + 2
        else:
            repository.write_as_someone_else(BRANCH, {"checkpoints/r/claim.json": b"{}"})
        b.delete("r")
        assert not [path for path in repository.files(BRANCH) if "/r/" in path], has_ended


@pytest.mark.parametrize("token", [None, 3, b"bytes", "\ud800", "", "guessed"])
def test_whatever_is_no_token_of_the_claim_is_refused_with_an_error_of_ours(
    machine: Machine, token: str
) -> None:
    a = machine("a")
    taken = a.take_claim("r")
    with pytest.raises((InvalidCheckpoint, Fenced)):
        a.renew_claim("r", token)
    with suppress(InvalidCheckpoint):
        assert a.release_claim("r", token) is False
    assert a.renew_claim("r", taken.token).claim.fence == 1


def test_a_run_whose_fences_are_used_up_cannot_be_claimed_and_the_error_says_what_to_do(
    machine: Machine,
) -> None:
    a = machine("a")
    made_up = {"run_id": "r", "trigger": "manual", "state": {"n": 1}, "fence": 999_999_999}
    a.submit(made_up)
    a.drain()
    for each in (a, machine("b")):  # one that knows of it, and one that learns of it from the index
        with pytest.raises(DecisionRefused, match="fork it"):
            each.claim("r")
    a.fork("r", 1, "r-2")
    with a.claim("r-2") as claim:
        assert claim.fence == 1
