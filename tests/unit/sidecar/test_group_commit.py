"""Commits that are shared: what arrives while one runs goes together into the next."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from holdfast.errors import HoldfastError, SpoolFull, SpoolUnwritable
from holdfast.format.checkpoint import Draft, draft_from_mapping
from holdfast.format.receipt import Persistence, Progress, Receipt
from holdfast.format.triggers import Priority
from holdfast.sidecar.group_commit import GroupCommit, Outcome
from tests.fakes.heard import heard_events
from tests.fakes.spooling import new_id


def draft(state: object = 1, trigger: str = "manual") -> Draft:
    checkpoint = {"run_id": "r", "trigger": trigger, "state": state}
    return draft_from_mapping(checkpoint, now="2026-11-16T10:00:00Z", new_id=new_id)


def receipt(each: Draft) -> Receipt:
    return Receipt(each.checkpoint_id, each.run_id, 1, Progress.SPOOLED, Persistence.NORMAL, "path")


class Disk:
    """A disk that takes as long as it is told to, and writes down what came together."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.is_begun = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def commit(self, drafts: Sequence[Draft]) -> list[Receipt | HoldfastError]:
        self.batches.append(len(drafts))
        self.is_begun.set()
        self.may_go_on.wait(60)
        return [receipt(each) for each in drafts]


def test_a_lone_checkpoint_is_committed_at_once() -> None:
    disk = Disk()

    async def scene() -> Receipt:
        intake = GroupCommit(disk.commit, on_committed=lambda *_: None)
        intake.start()
        answer = await intake.submit(draft())
        intake.close()
        return answer

    assert asyncio.run(scene()).status is Progress.SPOOLED
    assert disk.batches == [1]


def test_what_arrives_during_a_commit_shares_the_next_one() -> None:
    disk = Disk()

    async def scene() -> None:
        intake = GroupCommit(disk.commit, on_committed=lambda *_: None)
        intake.start()
        disk.may_go_on.clear()
        first = asyncio.create_task(intake.submit(draft()))
        await asyncio.to_thread(disk.is_begun.wait)
        others = [asyncio.create_task(intake.submit(draft())) for _ in range(20)]
        await asyncio.sleep(0)
        disk.may_go_on.set()
        await asyncio.gather(first, *others)
        intake.close()

    asyncio.run(scene())

    assert disk.batches == [1, 20]


def test_one_that_is_refused_does_not_spoil_the_others() -> None:
    def commit(drafts: Sequence[Draft]) -> list[Receipt | HoldfastError]:
        return [SpoolFull("full") if each.trigger == "error" else receipt(each) for each in drafts]

    async def scene() -> tuple[Receipt | BaseException, ...]:
        intake = GroupCommit(commit, on_committed=lambda *_: None)
        intake.start()
        answers = await asyncio.gather(
            intake.submit(draft()), intake.submit(draft(trigger="error")), return_exceptions=True
        )
        intake.close()
        return answers

    good, bad = asyncio.run(scene())

    assert isinstance(good, Receipt)
    assert isinstance(bad, SpoolFull)


def test_a_disk_that_refuses_is_told_to_everyone() -> None:
    def commit(_: Sequence[Draft]) -> list[Receipt | HoldfastError]:
        raise SpoolUnwritable("read-only")

    async def scene() -> None:
        intake = GroupCommit(commit, on_committed=lambda *_: None)
        intake.start()
        with pytest.raises(SpoolUnwritable, match="read-only"):
            await intake.submit(draft())
        intake.close()

    asyncio.run(scene())


def test_whoever_commits_hears_of_the_outcomes_and_the_priorities() -> None:
    heard: list[tuple[Sequence[Outcome], Sequence[Priority]]] = []

    async def scene() -> None:
        intake = GroupCommit(Disk().commit, on_committed=lambda *told: heard.append(told))
        intake.start()
        await intake.submit(draft(trigger="error"))
        intake.close()

    asyncio.run(scene())

    ((outcomes, priorities),) = heard
    assert [isinstance(each, Receipt) for each in outcomes] == [True]
    assert list(priorities) == [Priority.CRITICAL]


def test_a_client_that_has_gone_does_not_disturb_the_others() -> None:
    disk = Disk()

    async def scene() -> Receipt:
        intake = GroupCommit(disk.commit, on_committed=lambda *_: None)
        intake.start()
        disk.may_go_on.clear()
        gone = asyncio.create_task(intake.submit(draft()))
        other = asyncio.create_task(intake.submit(draft()))
        await asyncio.to_thread(disk.is_begun.wait)
        gone.cancel()
        disk.may_go_on.set()
        answer = await other
        intake.close()
        return answer

    assert asyncio.run(scene()).status is Progress.SPOOLED


def test_one_that_cannot_be_told_does_not_keep_the_others_from_being_told() -> None:
    def break_down(_: Outcome) -> None:
        raise RuntimeError("its connection is in an odd state")

    async def scene() -> Receipt:
        intake = GroupCommit(Disk().commit, on_committed=lambda *_: None)
        intake.start()
        intake.hand_in(draft(), break_down)
        answer = await intake.submit(draft())
        intake.close()
        return answer

    with heard_events() as heard:
        assert asyncio.run(scene()).status is Progress.SPOOLED
        heard.wait_for("answer_failed")


def test_closing_commits_what_waits() -> None:
    disk = Disk()

    async def scene() -> Receipt:
        intake = GroupCommit(disk.commit, on_committed=lambda *_: None)
        intake.start()
        waiting = asyncio.create_task(intake.submit(draft()))
        await asyncio.sleep(0)
        await asyncio.to_thread(intake.close)
        return await waiting

    assert asyncio.run(scene()).status is Progress.SPOOLED


def test_who_was_just_answered_is_waited_for() -> None:
    disk = Disk()

    async def be_client(intake: GroupCommit) -> None:
        for _ in range(3):
            await intake.submit(draft())

    async def scene() -> None:
        intake = GroupCommit(disk.commit, on_committed=lambda *_: None, gathering_s=60)
        intake.start()
        disk.may_go_on.clear()
        clients = [asyncio.create_task(be_client(intake)) for _ in range(5)]
        await asyncio.to_thread(disk.is_begun.wait)
        disk.may_go_on.set()
        await asyncio.gather(*clients)
        intake.close()

    asyncio.run(scene())

    assert disk.batches == [5, 5, 5]


def test_who_does_not_come_again_is_not_waited_for_long() -> None:
    disk = Disk()

    async def scene() -> Receipt:
        intake = GroupCommit(disk.commit, on_committed=lambda *_: None)
        intake.start()
        await asyncio.gather(*(intake.submit(draft()) for _ in range(5)))
        answer = await intake.submit(draft())
        intake.close()
        return answer

    assert asyncio.run(scene()).status is Progress.SPOOLED
    assert disk.batches == [5, 1]


def test_closing_ends_the_wait_for_others() -> None:
    disk = Disk()

    async def scene() -> Receipt:
        intake = GroupCommit(disk.commit, on_committed=lambda *_: None, gathering_s=60)
        intake.start()
        await asyncio.gather(*(intake.submit(draft()) for _ in range(5)))
        waiting = asyncio.create_task(intake.submit(draft()))
        await asyncio.sleep(0)
        await asyncio.to_thread(intake.close)
        return await waiting

    assert asyncio.run(scene()).status is Progress.SPOOLED
    assert disk.batches == [5, 1]
