import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from holdfast.clock import SystemClock
from holdfast.drain.needs import least_need
from holdfast.errors import Throttled, ThrottleKind
from holdfast.github.calls import Answer, ReadHead
from holdfast.ratelimit.limits import Cost, Limits
from holdfast.ratelimit.shared_file import FileRateLimiter, rate_limiter_path
from tests.fakes.clock import VirtualClock

READ = Cost("core")
WRITE = Cost("core", is_mutation=True, creates_content=True)
ONE = WRITE.need
UNHURRIED = Limits(write_interval_s=0)
ROOMY = Limits(write_interval_s=0, content_per_minute=1000)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "budgets" / "budget"


def throttled(kind: ThrottleKind = "secondary", retry_after_s: float = 100.0) -> Throttled:
    return Throttled("a.json", "slow down", kind=kind, retry_after_s=retry_after_s)


def answer(clock: VirtualClock, remaining: int, status: int = 200) -> Answer:
    headers = {
        "x-ratelimit-limit": "5000",
        "x-ratelimit-remaining": str(remaining),
        "x-ratelimit-reset": str(int(clock.now()) + 600),
    }
    return Answer(ReadHead("main"), status, headers, clock.now())


def wait_s(rate_limiter: FileRateLimiter, cost: Cost, clock: VirtualClock) -> float:
    return rate_limiter.budget.delay(cost, clock.now()).seconds


SPEND_FIFTY = """
import sys
from pathlib import Path
from holdfast.clock import SystemClock
from holdfast.ratelimit.limits import Cost, Limits
from holdfast.ratelimit.shared_file import FileRateLimiter

limits = Limits(write_interval_s=0, content_per_minute=1000)
rate_limiter = FileRateLimiter(Path(sys.argv[1]), limits, SystemClock())
for _ in range(50):
    rate_limiter.take(Cost("core", is_mutation=True, creates_content=True))
"""


def spend_twenty_five(rate_limiter: FileRateLimiter) -> None:
    for _ in range(25):
        rate_limiter.take(WRITE)


# What is told


@pytest.mark.parametrize("status", [403, 429])
def test_a_refusal_is_on_disk_before_anyone_is_told_of_it(
    path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    limits = Limits(write_interval_s=0, content_per_minute=0, content_per_hour=0)
    rate_limiter = FileRateLimiter(path, limits, clock)
    rate_limiter.observe(answer(clock, 4000))

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("holdfast.ratelimit.limiter.log.warning", die)
    with pytest.raises(KeyboardInterrupt):
        rate_limiter.observe(answer(clock, 0, status))

    assert wait_s(FileRateLimiter(path, limits, clock), READ, clock) > 0


def test_a_low_budget_is_told_once_in_each_window_by_all_processes(path: Path, clock: VirtualClock) -> None:
    here, there = FileRateLimiter(path, UNHURRIED, clock), FileRateLimiter(path, UNHURRIED, clock)
    with capture_logs() as logs:
        here.observe(answer(clock, 100))
        assert logs == []
        here.observe(answer(clock, 99))
        here.observe(answer(clock, 98))
        there.observe(answer(clock, 97))
        clock.sleep(3600)
        there.observe(answer(clock, 50))

    told = [(each["event"], each["remaining"], each["limit"]) for each in logs]
    assert told == [("budget_low", 99, 5000), ("budget_low", 50, 5000)]
    assert logs[0]["reset"] < logs[1]["reset"]


# Across restarts


def test_budget_survives_a_restart(path: Path, clock: VirtualClock) -> None:
    before = FileRateLimiter(path, Limits(), clock)
    before.take(WRITE)
    before.observe(answer(clock, 77))
    before.block(throttled())

    after = FileRateLimiter(path, Limits(), clock)

    assert after.budget == before.budget
    assert wait_s(after, READ, clock) == 100.0
    assert after.budget.remaining("core", clock.now()) == 77


def test_wait_survives_a_restart_and_goes_on_where_it_was(path: Path, clock: VirtualClock) -> None:
    FileRateLimiter(path, Limits(), clock).block(throttled("primary", 1805))
    clock.sleep(1000)

    after = FileRateLimiter(path, Limits(), clock)

    assert wait_s(after, READ, clock) == 805.0
    assert after.blocked_by_urgency(ONE) == {True: True, False: True}
    clock.sleep(805)
    assert after.blocked_by_urgency(ONE) == {True: False, False: False}


def test_clock_that_was_set_back_in_between_does_not_lengthen_the_wait(
    path: Path, clock: VirtualClock
) -> None:
    FileRateLimiter(path, Limits(), clock).block(throttled("primary", 1805))
    clock.time -= 7200

    after = FileRateLimiter(path, Limits(), clock)

    assert wait_s(after, READ, clock) == 1805.0
    clock.sleep(1805)
    assert wait_s(after, READ, clock) == 0.0


def test_new_run_counts_its_calls_from_zero(path: Path, clock: VirtualClock) -> None:
    rate_limiter = FileRateLimiter(path, UNHURRIED, clock)
    rate_limiter.take(READ)
    rate_limiter.take(READ)
    assert FileRateLimiter(path, UNHURRIED, clock).report()["calls_this_run"] == 2

    rate_limiter.begin_run()
    rate_limiter.take(READ)

    assert rate_limiter.report(spool_depth=3)["calls_this_run"] == 1
    assert rate_limiter.report(spool_depth=3)["spool_depth"] == 3


def test_server_without_limits_is_stored_now_and_then_and_at_the_end(path: Path, clock: VirtualClock) -> None:
    open_limits = Limits(write_interval_s=0, content_per_minute=0, content_per_hour=0)
    rate_limiter = FileRateLimiter(path, open_limits, clock)

    def stored() -> object:
        return FileRateLimiter(path, open_limits, clock).report()["calls_this_run"]

    for _ in range(3):
        rate_limiter.take(READ)
    assert stored() == 1
    clock.sleep(1)
    rate_limiter.take(READ)
    assert stored() == 4
    rate_limiter.take(READ)
    rate_limiter.close()
    assert stored() == 5


# Taking


def test_take_spends_only_when_there_is_room(path: Path, clock: VirtualClock) -> None:
    rate_limiter = FileRateLimiter(path, Limits(), clock)

    assert rate_limiter.take(WRITE).seconds == 0.0
    refused = rate_limiter.take(WRITE)

    assert refused.seconds == 1.0
    assert rate_limiter.budget.content_spent(clock.now()) == 1
    clock.sleep(1)
    assert rate_limiter.take(WRITE).seconds == 0.0


def test_reserve_is_taken_only_for_critical_ones(path: Path, clock: VirtualClock) -> None:
    rate_limiter = FileRateLimiter(path, UNHURRIED, clock)
    while not rate_limiter.take(WRITE).seconds:
        pass

    assert rate_limiter.take(WRITE, is_critical=True).seconds == 0.0
    assert rate_limiter.blocked_by_urgency(ONE) == {True: False, False: True}


def test_exhausted_reserve_counts_as_blocked(path: Path, clock: VirtualClock) -> None:
    rate_limiter = FileRateLimiter(path, UNHURRIED, clock)
    while not rate_limiter.take(WRITE, is_critical=True).seconds:
        pass

    assert rate_limiter.blocked_by_urgency(ONE) == {True: True, False: True}


def test_room_for_a_call_is_no_room_for_a_checkpoint(path: Path, clock: VirtualClock) -> None:
    rate_limiter = FileRateLimiter(path, UNHURRIED, clock)
    rate_limiter.observe(answer(clock, 4))

    assert rate_limiter.take(READ, is_critical=True).seconds == 0.0
    assert rate_limiter.blocked_by_urgency(least_need("contents")) == {True: True, False: True}
    assert rate_limiter.blocked_by_urgency(least_need("commit")) == {
        True: False,
        False: False,
    }


def test_block_returns_the_wait_that_is_remembered(path: Path, clock: VirtualClock) -> None:
    rate_limiter = FileRateLimiter(path, Limits(), clock)

    assert rate_limiter.block(throttled(retry_after_s=60)) == 60.0
    clock.sleep(60)
    assert rate_limiter.block(throttled(retry_after_s=60)) == 120.0


# Together with others


def test_rate_limiters_of_one_file_know_of_each_other(path: Path, clock: VirtualClock) -> None:
    one, other = FileRateLimiter(path, UNHURRIED, clock), FileRateLimiter(path, UNHURRIED, clock)

    for _ in range(5):
        one.take(WRITE)
        other.take(WRITE)
    one.block(throttled())

    assert other.budget.content_spent(clock.now()) == 10
    assert wait_s(other, READ, clock) == 100.0


def test_threads_lose_no_count(path: Path, clock: VirtualClock) -> None:
    rate_limiter = FileRateLimiter(path, ROOMY, clock)
    threads = [threading.Thread(target=spend_twenty_five, args=(rate_limiter,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert rate_limiter.budget.content_spent(clock.now()) == 100


@pytest.mark.processes
def test_processes_lose_no_count(path: Path) -> None:
    command = [sys.executable, "-c", SPEND_FIFTY, str(path)]
    processes = [subprocess.Popen(command) for _ in range(2)]

    assert [process.wait(60) for process in processes] == [0, 0]
    clock = SystemClock()
    assert FileRateLimiter(path, ROOMY, clock).budget.content_spent(clock.now()) == 100


# Files that cannot be used


def test_damaged_file_is_a_fresh_budget(path: Path, clock: VirtualClock) -> None:
    path.parent.mkdir()
    path.write_bytes(b"\x00 torn")

    rate_limiter = FileRateLimiter(path, Limits(), clock)
    assert wait_s(rate_limiter, WRITE, clock) == 0.0
    rate_limiter.take(WRITE)

    assert wait_s(FileRateLimiter(path, Limits(), clock), WRITE, clock) == 1.0


def test_folder_that_cannot_be_made_is_reported_once_and_the_budget_kept_in_memory(
    tmp_path: Path, clock: VirtualClock
) -> None:
    (tmp_path / "file").write_text("not a folder")

    with capture_logs() as logs:
        rate_limiter = FileRateLimiter(tmp_path / "file" / "budget", Limits(), clock)
        rate_limiter.take(WRITE)
        rate_limiter.block(throttled())

    assert wait_s(rate_limiter, READ, clock) == 100.0
    assert rate_limiter.budget.content_spent(clock.now()) == 1
    assert [entry["event"] for entry in logs] == ["budget_not_stored"]


def test_file_that_cannot_be_written_does_not_count_a_call_twice(
    path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate_limiter = FileRateLimiter(path, Limits(), clock)

    def full_disk(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("holdfast.ratelimit.shared_file.os.open", full_disk)
    with capture_logs() as logs:
        monkeypatch.setattr(rate_limiter, "_shared", lambda: nullcontext(True))
        rate_limiter.take(WRITE)

    assert rate_limiter.budget.content_spent(clock.now()) == 1
    assert [entry["event"] for entry in logs] == ["budget_not_stored"]


def test_lock_that_someone_keeps_does_not_stop_us(
    path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.ratelimit.shared_file.LONGEST_LOCK_WAIT_S", 0.0)
    holder, rate_limiter = FileRateLimiter(path, Limits(), clock), FileRateLimiter(path, Limits(), clock)

    with capture_logs() as logs, holder._shared() as is_shared:
        assert is_shared
        rate_limiter.take(WRITE)

    assert wait_s(rate_limiter, WRITE, clock) == 1.0
    assert [entry["event"] for entry in logs] == ["budget_not_stored"]


def test_file_that_vanishes_leaves_the_memory(path: Path, clock: VirtualClock) -> None:
    rate_limiter = FileRateLimiter(path, Limits(), clock)
    rate_limiter.take(WRITE)
    path.unlink()

    assert wait_s(rate_limiter, WRITE, clock) == 1.0


def test_file_is_only_for_its_owner_and_leaves_no_remains(path: Path, clock: VirtualClock) -> None:
    rate_limiter = FileRateLimiter(path, Limits(), clock)
    rate_limiter.take(WRITE)
    rate_limiter.block(throttled())

    assert path.stat().st_mode & 0o777 == 0o600
    assert {file.name for file in path.parent.iterdir()} <= {"budget", "budget.lock"}


# Names


def test_each_api_and_token_has_its_own_file_and_its_name_tells_nothing(tmp_path: Path) -> None:
    one = rate_limiter_path(tmp_path, "https://api.github.com", "token-fingerprint")
    other = rate_limiter_path(tmp_path, "https://api.github.com", "other-fingerprint")

    assert one != other
    assert one == rate_limiter_path(tmp_path, "https://api.github.com", "token-fingerprint")
    assert one.parent == tmp_path
    assert "fingerprint" not in one.name
