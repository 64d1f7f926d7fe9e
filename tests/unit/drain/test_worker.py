"""The drain loop: limits, outages, refusals, restarts, and what is left when it ends."""

from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from holdfast.drain.notes import OUTAGE_NOTE
from holdfast.drain.outage import parse_outage
from holdfast.drain.pending import LONGEST_REQUEST_S, PendingWrite
from holdfast.drain.worker import LONGEST_SLEEP_S, DrainState, PassResult
from holdfast.errors import Conflict, GatewayError, Refused, SpoolBusy, Throttled, Unavailable
from holdfast.format.receipt import Progress
from holdfast.github.calls import Answer, Call, ListFolder, ResultT
from holdfast.github.write_calls import CommitFiles, WriteFile
from holdfast.jsontext.members import sha256_hex
from holdfast.ratelimit.limits import Limits
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, check_run, open_workshop, stored_run

DOWN = Unavailable("x", "502 Bad Gateway")
NO_AUTH = Refused("x", "Bad credentials", "auth", "Give a token that is valid.")


class Frugal:
    """A gateway whose answers tell that few calls are left."""

    def __init__(self, inner: MemoryGateway, clock: VirtualClock) -> None:
        self._inner = inner
        self._clock = clock
        self.observe: Callable[[Answer], None] = lambda _: None

    def perform(self, call: Call[ResultT]) -> ResultT:
        now = self._clock.now()
        headers = {
            "x-ratelimit-limit": "5000",
            "x-ratelimit-remaining": "90",
            "x-ratelimit-reset": str(int(now) + 3600),
        }
        self.observe(Answer(call, 200, headers, now))
        return self._inner.perform(call)


def halt(repository: MemoryGateway, error: GatewayError, times: int = 999) -> None:
    repository.fail_next(Call, error, times=times)


def heal(repository: MemoryGateway) -> None:
    repository._failures.clear()


def test_empty_spool_asks_nothing_of_github(workshop: Workshop, repository: MemoryGateway) -> None:
    result = workshop.worker.drain()

    assert (result.verified, result.left, result.reason) == (0, 0, "")
    assert repository.calls == []


def test_only_one_drains_a_spool(workshop: Workshop) -> None:
    with workshop.spool.drainer(), pytest.raises(SpoolBusy):
        workshop.worker.drain()


@pytest.mark.parametrize(
    ("timeout_s", "longest_s"), [(-1.0, 2.0), (60.0, 60.0), (0.0, inf)], ids=["over", "some time", "no end"]
)
def test_answers_are_waited_for_as_long_as_there_is_time(
    workshop: Workshop, timeout_s: float, longest_s: float
) -> None:
    waits: list[float] = []

    def is_done() -> bool:
        waits.append(workshop.worker.deadline.longest_wait_s())
        return True

    workshop.worker.drain(timeout_s=timeout_s, is_done=is_done)

    assert waits == [longest_s]


def test_throttled_drain_ends_at_once_without_a_timeout_and_says_why(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save()
    halt(repository, Throttled("x", "API rate limit exceeded", kind="primary", retry_after_s=1800))

    result = workshop.worker.drain()

    assert (result.verified, result.left) == (0, 1)
    assert "rate limit" in result.reason
    assert workshop.clock.slept == []


def test_limit_is_waited_for_within_the_timeout_five_minutes_at_a_time_and_without_a_call(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    clock = VirtualClock()
    with open_workshop(tmp_path, repository, clock=clock) as workshop:
        workshop.save()
        limit = Throttled("x", "API rate limit exceeded", kind="primary", retry_after_s=1800)
        repository.fail_next(WriteFile, limit)
        calls_at_limit = []
        sleep = clock.sleep

        def sleep_and_count(seconds: float) -> None:
            calls_at_limit.append(len(repository.calls))
            sleep(seconds)

        clock.sleep = sleep_and_count  # type: ignore[method-assign]

        result = workshop.worker.drain(timeout_s=3600)

        assert result.left == 0
        assert max(clock.slept) == 300
        assert sum(clock.slept) >= 1800
        assert len(set(calls_at_limit)) == 1, "someone called GitHub while it was off limits"


@pytest.mark.slow
def test_outage_is_met_with_growing_pauses_and_then_drained(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save()
    halt(repository, DOWN, times=40)

    result = workshop.worker.drain(timeout_s=3600)

    assert (result.verified, result.left) == (1, 0)
    assert parse_outage(workshop.spool.notes().get(OUTAGE_NOTE)) is None
    check_run(repository)


def test_what_nobody_can_place_is_an_outage_until_it_is_handed_on(workshop: Workshop) -> None:
    workshop.save()
    workshop.worker.sort_out = lambda _: ([], "nobody knows where it belongs")

    result = workshop.worker.drain(is_paced=True)

    outage = parse_outage(workshop.spool.notes().get(OUTAGE_NOTE))
    assert outage
    assert "nobody knows where it belongs" in outage.sentence
    assert result.reason == outage.sentence

    workshop.clock.sleep(outage.retry_at - workshop.clock.now())
    workshop.worker.sort_out = lambda _: ([], "")
    workshop.worker.drain(is_paced=True)

    assert OUTAGE_NOTE not in workshop.spool.notes()


@pytest.mark.slow
@pytest.mark.parametrize("error", [DOWN, NO_AUTH, Conflict("x", "again and again", "stale_file")])
def test_drain_goes_on_after_the_clock_was_ahead_and_set_back(
    workshop: Workshop, repository: MemoryGateway, error: GatewayError
) -> None:
    workshop.save()
    workshop.clock.sleep(400 * 86_400)
    halt(repository, error)
    workshop.worker.drain(is_paced=True)
    workshop.clock.sleep(-400 * 86_400)
    heal(repository)

    assert workshop.worker.drain(is_paced=True).left == 0


@pytest.mark.slow
def test_long_outage_is_looked_at_once_in_half_a_minute(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save()
    halt(repository, DOWN)
    workshop.worker.drain(timeout_s=600)
    calls, began = len(repository.calls), workshop.clock.now()

    workshop.worker.drain(timeout_s=600)

    assert len(repository.calls) - calls <= (workshop.clock.now() - began) / 30 + 1


def test_what_a_person_must_mend_is_remembered_in_one_sentence(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save()
    halt(repository, NO_AUTH)

    result = workshop.worker.drain()

    outage = parse_outage(workshop.spool.notes()[OUTAGE_NOTE])
    assert outage is not None
    assert outage.sentence == "x: Bad credentials. Give a token that is valid."
    assert result.reason == outage.sentence
    assert result.left == 1


def test_refusal_is_retried_slowly(workshop: Workshop, repository: MemoryGateway) -> None:
    workshop.save()
    halt(repository, NO_AUTH)

    workshop.worker.drain(timeout_s=300)

    assert len(repository.calls) <= 6


def test_new_token_is_tried_at_once(workshop: Workshop, repository: MemoryGateway) -> None:
    workshop.save()
    halt(repository, NO_AUTH)
    workshop.worker.drain(is_paced=True)
    heal(repository)
    began = workshop.clock.now()

    assert workshop.worker.drain(timeout_s=1, is_paced=True).left == 1
    workshop.token[0] = "renewed"
    assert workshop.worker.drain(timeout_s=1, is_paced=True).verified == 1
    assert workshop.clock.now() - began <= 10


def test_new_token_in_a_new_process_is_tried_at_once(tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path, repository) as workshop:
        workshop.save()
        halt(repository, NO_AUTH)
        workshop.worker.drain()
        heal(repository)
    with open_workshop(tmp_path, repository) as workshop:
        workshop.token[0] = "renewed"

        assert workshop.worker.drain(is_paced=True).verified == 1


def test_who_asks_by_hand_is_not_told_yesterdays_trouble(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save()
    halt(repository, NO_AUTH)
    workshop.worker.drain()
    heal(repository)

    assert workshop.worker.drain().verified == 1


def test_a_worker_that_never_ends_retries_a_refusal_slowly(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save()
    halt(repository, NO_AUTH)
    for _ in range(10):
        workshop.worker.drain(timeout_s=1, is_paced=True)

    assert len(repository.calls) == 1


def test_one_run_in_conflict_does_not_hold_up_the_others(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save("bad")
    workshop.save("good")
    conflict = Conflict("x", "does not match", kind="stale_file")
    repository.fail_next(WriteFile, conflict, times=99, when=lambda call: "/bad/" in call.path)

    result = workshop.worker.drain()

    assert (result.verified, result.left) == (1, 1)
    check_run(repository, "good")


def test_run_in_conflict_keeps_its_order(workshop: Workshop, repository: MemoryGateway) -> None:
    first = workshop.save("r")
    conflict = Conflict("x", "does not match", kind="stale_file")
    repository.fail_next(WriteFile, conflict, times=3, when=lambda call: "cp_001" in call.path)
    workshop.worker.drain()
    workshop.save("r", trigger="error")

    workshop.worker.drain()
    assert "cp_002_error.json" not in stored_run(repository)
    workshop.worker.drain(timeout_s=60)

    assert check_run(repository)[1] == first.checkpoint_id


def test_critical_goes_first(workshop: Workshop, repository: MemoryGateway) -> None:
    workshop.save("medium")
    workshop.save("high", trigger="phase_complete")
    workshop.save("critical", trigger="circuit_breaker")

    workshop.worker.drain()

    order = [
        call.path.split("/")[1]
        for call in repository.calls
        if isinstance(call, WriteFile) and "/cp_" in call.path
    ]
    assert list(dict.fromkeys(order)) == ["critical", "high", "medium"]


def test_part_of_a_step_that_finds_no_room_is_not_tried_again_until_there_is_some(tmp_path: Path) -> None:
    repository = MemoryGateway()
    limits = Limits(write_interval_s=0, content_per_hour=4)
    with open_workshop(tmp_path, repository, mode="commit", limits=limits) as workshop:
        workshop.save()
        halt(repository, DOWN, times=4)

        result = workshop.worker.drain(timeout_s=3 * 3600)

        assert (result.verified, result.left) == (1, 0)
        assert len(repository.calls) < 30


def test_first_drain_learns_how_many_calls_are_left_before_it_plans_the_rest(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    clock = VirtualClock()
    frugal = Frugal(repository, clock)
    with open_workshop(tmp_path, frugal, clock=clock) as workshop:
        frugal.observe = workshop.worker.rate_limiter.observe
        for _ in range(30):
            workshop.save()

        assert workshop.worker.drain().left == 0

    assert {name for name in stored_run(repository) if "cp_" in name} == {"cp_001_manual.json"}
    assert len(check_run(repository)) == 30


def test_limit_after_an_outage_is_what_stands_in_the_way_now(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save()
    halt(repository, DOWN)
    workshop.worker.drain()
    heal(repository)
    halt(repository, Throttled("x", "API rate limit exceeded", kind="primary", retry_after_s=1800))

    result = workshop.worker.drain()

    assert parse_outage(workshop.spool.notes().get(OUTAGE_NOTE)) is None
    assert (result.reason, result.retry_in_s >= 1800) == ("API rate limit exceeded", True)


def test_low_budget_writes_a_batch(tmp_path: Path, repository: MemoryGateway) -> None:
    limits = Limits(write_interval_s=0, content_per_hour=30)
    with open_workshop(tmp_path, repository, limits=limits) as workshop:
        receipts = [workshop.save() for _ in range(20)]

        workshop.worker.drain(timeout_s=7200)

        final = workshop.spool.receipt(receipts[0].checkpoint_id)
        assert workshop.reader.read_checkpoint("r", 7).checkpoint_id == receipts[6].checkpoint_id
    assert "batch_1_20.json" in stored_run(repository)
    assert len(check_run(repository)) == 20
    assert final is not None
    assert final.file_path == "checkpoints/r/batch_1_20.json"


@pytest.mark.slow
def test_batch_that_landed_before_a_crash_is_finished_not_doubled(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    few = Limits(write_interval_s=0, content_per_hour=30)
    with open_workshop(tmp_path, repository, limits=few) as workshop:
        for _ in range(20):
            workshop.save()
        down_after_batch = Unavailable("x", "cut")
        repository.fail_next(
            WriteFile,
            down_after_batch,
            times=999,
            when=lambda call: call.path.endswith(("index.json", "latest.json")),
        )
        workshop.worker.drain()
    heal(repository)
    assert "batch_1_20.json" in stored_run(repository)

    with open_workshop(tmp_path, repository) as workshop:
        for _ in range(3):
            workshop.save()
        result = workshop.worker.drain(timeout_s=600)

    assert result.left == 0
    assert len(check_run(repository)) == 23


@pytest.mark.slow
def test_batch_that_landed_before_a_refusal_is_deleted_once_nothing_is_under_way(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    few = Limits(write_interval_s=0, content_per_hour=30)
    with open_workshop(tmp_path, repository, limits=few) as workshop:
        for _ in range(20):
            workshop.save()
        refusal = Refused("checkpoints/r/index.json", "a rule refuses it", "rules", "Ask its owner.")
        repository.fail_next(WriteFile, refusal, when=lambda call: call.path.endswith("index.json"))

        workshop.worker.drain()
        assert "batch_1_20.json" in stored_run(repository)
        workshop.clock.sleep(LONGEST_REQUEST_S)
        workshop.worker.drain()

    assert "batch_1_20.json" not in stored_run(repository)
    assert list(check_run(repository)) == list(range(1, 21))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_culprit_among_many_is_found_by_halves(tmp_path: Path, repository: MemoryGateway, mode: str) -> None:
    few = Limits(write_interval_s=0, content_per_hour=60)
    with open_workshop(tmp_path, repository, limits=few, mode=mode) as workshop:
        receipts = [workshop.save(state={"n": number}) for number in range(64)]
        repository.secret = b'"n":40}'

        workshop.worker.drain()

        aside = [entry.item.checkpoint_id for entry in workshop.spool.set_aside_entries()]
    assert aside == [receipts[40].checkpoint_id]
    assert len(check_run(repository)) == 63
    assert repository.count(WriteFile) + repository.count(CommitFiles) < 40


def test_refused_checkpoint_that_was_renumbered_meanwhile_is_set_aside_at_once(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path / "rival", repository) as rival:
        rival.save()
        rival.worker.drain()
    with open_workshop(tmp_path / "ours", repository) as workshop:
        refused, taken = workshop.save(state={"n": 40}), workshop.save()
        repository.secret = b'"n":40}'

        assert workshop.worker.drain().left == 0

        assert workshop.spool.is_kept_aside(refused.checkpoint_id)
    assert taken.checkpoint_id in check_run(repository).values()


def test_what_was_written_beside_a_refused_checkpoint_is_not_stored_again_in_another_file(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path, repository) as workshop:
        workshop.save(trigger="error", state={"n": 40})
        workshop.save()
        workshop.save(state={"n": 40})
        repository.secret = b'"n":40}'

        assert workshop.worker.drain().left == 0

    assert len(check_run(repository)) == 1


def test_file_of_an_abandoned_write_stays_if_the_index_has_come_to_need_it(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    receipt = workshop.save()
    workshop.worker.drain()
    stored = workshop.spool.receipt(receipt.checkpoint_id)
    assert stored is not None
    files = {stored.file_path: stored.blob_sha or ""}
    workshop.worker.contents.orphans.abandon(
        PendingWrite("r", (receipt.checkpoint_id,), is_batch=False, files=files)
    )
    workshop.clock.sleep(LONGEST_REQUEST_S)

    workshop.worker.drain()

    assert len(check_run(repository)) == 1


def test_stopping_leaves_the_rest_in_the_spool(workshop: Workshop, repository: MemoryGateway) -> None:
    for run in range(5):
        workshop.save(f"run-{run}")
    workshop.worker.on_progress(lambda verified, left: workshop.stop.set())

    result = workshop.worker.drain(timeout_s=600)

    assert result.verified == 1
    assert result.left == 4


def test_progress_tells_verified_and_left(workshop: Workshop) -> None:
    seen: list[tuple[int, int]] = []
    workshop.worker.on_progress(lambda verified, left: seen.append((verified, left)))
    for run in range(3):
        workshop.save(f"run-{run}")

    workshop.worker.drain()

    assert seen == [(1, 2), (2, 1), (3, 0)]


def test_refusal_of_a_read_is_no_fault_of_any_checkpoint(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    receipt = workshop.save()
    refusal = Refused("checkpoints/r", "redirected to another host", "invalid", "Check HOLDFAST_API_URL.")
    repository.fail_next(ListFolder, refusal, times=9)

    result = workshop.worker.drain()

    assert result.left == 1
    assert "Check HOLDFAST_API_URL." in result.reason
    known = workshop.spool.receipt(receipt.checkpoint_id)
    assert known is not None
    assert known.status is Progress.SPOOLED


def test_refused_part_sets_aside_only_the_checkpoint_that_has_it(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path, repository, max_file_bytes=20_000) as workshop:
        workshop.save(state={"output": "x" * 30_000})
        workshop.save(state={"small": 1})
        repository.fail_next(
            WriteFile, refused_part(repository), times=9, when=lambda call: "/parts/" in call.path
        )

        result = workshop.worker.drain(timeout_s=60)

        assert (result.verified, result.left) == (1, 0)
        assert workshop.spool.status(0).set_aside == 1


def refused_part(repository: MemoryGateway) -> Refused:
    content = b'"' + b"x" * 30_000 + b'"'
    path = f"checkpoints/r/parts/{sha256_hex(content)}.json"
    return Refused(path, "a secret was found", "secret_detected", "Remove it.")


def test_set_aside_checkpoint_can_be_put_back(workshop: Workshop, repository: MemoryGateway) -> None:
    receipt = workshop.save()
    refusal = Refused("checkpoints/r/cp_001_manual.json", "a rule", "rules", "Change it.")
    repository.fail_next(WriteFile, refusal, when=lambda call: "cp_001" in call.path)
    workshop.worker.drain()
    assert workshop.spool.status(0).set_aside == 1

    workshop.spool.restore(receipt.checkpoint_id)

    assert workshop.worker.drain().verified == 1
    check_run(repository)


@pytest.mark.slow
def test_what_cannot_be_stored_is_tried_less_and_less_often(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save()
    conflict = Conflict("x", "does not match", kind="stale_file")
    repository.fail_next(WriteFile, conflict, times=9999)

    workshop.worker.drain(timeout_s=7200)

    tries = repository.count(WriteFile) / 3
    assert tries <= 16


def test_pass_over_an_empty_spool_says_that_nothing_is_left(workshop: Workshop) -> None:
    before = DrainState(has_looked=True)

    assert workshop.worker.once(before) == PassResult(before, wait_s=None)


def test_pass_is_a_value_in_and_a_value_out(workshop: Workshop, repository: MemoryGateway) -> None:
    workshop.save("a")
    workshop.save("b")
    before = DrainState(verified=5, written_runs=frozenset({"z"}), ignores_outage=True)

    first = workshop.worker.once(before)

    assert first.wait_s == 0.0
    assert first.state == DrainState(verified=7, written_runs=frozenset({"a", "b", "z"}), has_looked=True)
    assert workshop.worker.once(first.state) == PassResult(first.state, wait_s=None)


def test_pass_that_finds_no_room_remembers_until_when(workshop: Workshop, repository: MemoryGateway) -> None:
    workshop.save()
    halt(repository, Throttled("x", "API rate limit exceeded", kind="primary", retry_after_s=1800))

    limited = workshop.worker.once(DrainState())
    calls = len(repository.calls)
    again = workshop.worker.once(limited.state)

    assert limited.state.block is not None
    assert limited.wait_s == again.wait_s == pytest.approx(1800)
    assert (again.reason, len(repository.calls)) == ("API rate limit exceeded", calls)


def test_pass_asks_nothing_while_an_outage_lasts_unless_it_is_told_to(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save()
    halt(repository, NO_AUTH)
    refused = workshop.worker.once(DrainState())
    heal(repository)
    calls = len(repository.calls)

    assert workshop.worker.once(refused.state).reason == refused.reason
    assert len(repository.calls) == calls
    assert workshop.worker.once(replace(refused.state, ignores_outage=True)).state.verified == 1


def test_pass_begins_no_step_once_it_is_over(workshop: Workshop, repository: MemoryGateway) -> None:
    workshop.save()

    result = workshop.worker.once(DrainState(), is_over=lambda: True)

    assert (result.state.verified, repository.count(WriteFile)) == (0, 0)


def test_drain_ends_when_its_caller_has_what_it_waits_for(workshop: Workshop) -> None:
    receipts = [workshop.save(f"run-{number}") for number in range(3)]

    def is_first_verified() -> bool:
        known = workshop.spool.receipt(receipts[0].checkpoint_id)
        return known is not None and known.status is Progress.VERIFIED

    result = workshop.worker.drain(timeout_s=600, is_done=is_first_verified)

    assert (result.verified, result.left) == (1, 2)


def test_drain_waits_between_passes_as_it_is_told(workshop: Workshop, repository: MemoryGateway) -> None:
    workshop.save()
    limit = Throttled("x", "API rate limit exceeded", kind="primary", retry_after_s=1800)
    repository.fail_next(WriteFile, limit)
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        workshop.clock.sleep(seconds)

    assert workshop.worker.drain(timeout_s=3600, wait=wait).verified == 1
    assert waits[0] == LONGEST_SLEEP_S
    assert sum(waits) == pytest.approx(1800, abs=1)
