"""Schedules that once ended badly, as small as they could be made, each with what it broke."""

import pytest

from tests.soak.schedules import Death, Drain, Exhaust, Machine, Schedule, Stranger, Submit, Transfer
from tests.soak.share import play_in_memory

IDLE = Machine()

SCHEDULES = {
    "the first index of a run was never written when the process died before it": Schedule(
        machines=(IDLE, Machine((Drain(after_s=0.1, dies=Death("event", 1)),))),
        calls=(Submit(machine=1, checkpoint=0),),
    ),
    "two files under one number were both indexed when no index was there yet": Schedule(
        machines=(
            Machine((Drain(after_s=0.1, dies=Death("after_request", 2)),)),
            Machine((Drain(after_s=0.2, dies=Death("after_request", 2)),)),
        ),
        calls=(Submit(machine=0, checkpoint=0), Submit(machine=1, checkpoint=3)),
        faults=("get:404:nth=2:times=1",),
    ),
    "the file of a checkpoint that had lost its number kept the next one from taking that name": Schedule(
        machines=(Machine((Drain(),)), IDLE, IDLE),
        calls=(Submit(0, 0), Submit(1, 18), Submit(1, 30), Submit(2, 1)),
        faults=("any:500:nth=1:times=1",),
    ),
    "a request that GitHub carried out late brought back a file under a number that was lost": Schedule(
        machines=(Machine((Drain(timeout_s=100.0, after_s=0.1),)), Machine((Drain(after_s=0.3),))),
        calls=(Submit(machine=0, checkpoint=0), Submit(machine=1, checkpoint=3)),
        faults=("put:late=100:nth=1",),
    ),
    "the late request came after the file had been deleted": Schedule(
        machines=(Machine((Drain(timeout_s=100.0, after_s=0.1),)), Machine((Drain(after_s=2.0),))),
        calls=(Submit(machine=0, checkpoint=0), Submit(machine=1, checkpoint=3)),
        faults=("put:late=100:nth=1:times=1", "put:500:path=index.json:nth=1:times=2"),
    ),
    "a refusal without a readable reason had a checkpoint set aside that was stored already": Schedule(
        machines=(Machine((Drain(after_s=0.1),)), Machine((Drain(after_s=0.5),))),
        calls=(Submit(0, 0), Transfer(0, 1)),
        faults=("put:malformed:nth=1:times=2",),
    ),
    "the receipt of a checkpoint that was stored already named a stale commit without it": Schedule(
        machines=(Machine((Drain(after_s=0.1),)), Machine((Drain(after_s=20.0),))),
        calls=(Submit(0, 0), Submit(0, 1), Submit(1, 1)),
        faults=("get:stale=3:path=heads",),
    ),
    "the latest was written under the number that it had on the machine that came second": Schedule(
        machines=(Machine((Drain("commit", 5.0, 0.1),)), IDLE, IDLE),
        calls=(
            Submit(0, 14),
            Submit(1, 12, 5, 0.5),
            Submit(1, 6, 2),
            Exhaust(),
            Submit(1, 27),
            Submit(1, 20, after_s=0.5),
            Transfer(1, 2, 0.5),
            Submit(1, 17),
            Submit(0, 0),
            Submit(1, 10, 1),
            Submit(0, 34, after_s=0.1),
            Submit(0, 4, after_s=0.5),
        ),
        faults=("any:500:nth=1:times=1",),
        pace=875,
    ),
    "a checkpoint that had to take a later number was left behind by the next one": Schedule(
        machines=(
            Machine((Drain(timeout_s=5.0, after_s=0.1), Drain(timeout_s=5.0, after_s=0.1))),
            Machine(
                (
                    Drain("commit", 5.0, 0.1, Death("before_request", 5)),
                    Drain("contents", 5.0, 0.5),
                )
            ),
        ),
        calls=(Submit(0, 0), Submit(0, 0), Submit(0, 0), Submit(1, 1), Submit(1, 15), Submit(1, 6)),
        faults=("any:500:nth=1:times=1", "any:500:nth=1:times=3"),
        pace=1,
    ),
    "a checkpoint that lost its number before there was an index was left behind by the next one": Schedule(
        machines=(
            Machine((Drain(timeout_s=5.0, after_s=0.1), Drain(timeout_s=5.0, after_s=0.1))),
            Machine((Drain(timeout_s=5.0, after_s=0.1), Drain(timeout_s=5.0, after_s=0.1))),
        ),
        calls=(Submit(0, 0), Submit(0, 7), Submit(0, 9), Submit(1, 6), Submit(0, 1), Submit(1, 3)),
        faults=("any:500:nth=1:times=1", "any:500:nth=1:times=1"),
    ),
    "a checkpoint was moved behind one that came in later, and that another machine had indexed": Schedule(
        machines=(
            Machine((Drain(timeout_s=5.0, after_s=0.1),) * 2),
            Machine((Drain(timeout_s=5.0, after_s=0.1),) * 4),
        ),
        calls=(Submit(0, 0), Submit(1, 1), Exhaust(remaining=2), Submit(0, 0), Submit(1, 9), Submit(1, 3)),
        faults=("any:500:nth=1:times=1", "any:500:nth=1:times=1"),
        pace=978,
    ),
    "a file was deleted as litter while GitHub did not show the index that names it": Schedule(
        machines=(
            Machine((Drain(timeout_s=5.0, after_s=0.1),) * 2),
            Machine((*(Drain(timeout_s=5.0, after_s=0.1),) * 2, Drain(timeout_s=5.0, after_s=400.0))),
        ),
        calls=(
            *(Submit(0, 0), Submit(0, 0), Submit(0, 1), Submit(0, 26, after_s=0.1), Submit(1, 33)),
            *(Submit(1, 27), Transfer(0, 1), *(Submit(0, 0),) * 5, Submit(0, 0, after_s=20.0)),
            *(Submit(0, 0, after_s=400.0), Exhaust(remaining=0)),
        ),
        faults=("any:500:nth=1:times=1", "read:404:p=0.05:seed=2"),
    ),
    "a checkpoint written beside a refused one was stored again in a batch": Schedule(
        machines=(Machine(budget="few"), Machine((Drain(timeout_s=5.0, after_s=3.0),))),
        calls=(
            Submit(0, 0),
            Submit(1, 40),
            Submit(0, 1),
            Transfer(0, 1),
            Submit(0, 4),
            Submit(0, 3),
            Transfer(1, 0),
        ),
    ),
    "a step that found no room for a part of its work asked GitHub again every few seconds": Schedule(
        (
            Machine(
                (
                    Drain("commit", 5.0, 0.1),
                    Drain("commit", 5.0, 0.1),
                    Drain(timeout_s=5.0, after_s=400.0, dies=Death("after_spool", 15)),
                    Drain(timeout_s=5.0, after_s=0.1),
                    Drain(timeout_s=5.0, after_s=0.1),
                )
            ),
            Machine(
                (
                    Drain(timeout_s=5.0, after_s=0.1),
                    Drain(timeout_s=5.0, after_s=0.1),
                    Drain(timeout_s=5.0, after_s=0.1),
                    Drain(after_s=0.2),
                    Drain("commit", 100.0, 20.0),
                    Drain(timeout_s=5.0, after_s=0.1, dies=Death("before_spool", 4)),
                    Drain("commit", 4000.0, 20.0),
                    Drain("commit", 4000.0, 20.0),
                ),
                "few",
            ),
            Machine((Drain(after_s=0.2), Drain("commit", 5.0, 20.0), Drain(after_s=0.5))),
        ),
        (
            Submit(0, 26, 12),
            Submit(1, 17, after_s=20.0),
            Submit(2, 5, 11, 2.0, Death("after_spool")),
            Submit(0, 16),
            Submit(1, 23, 9),
            Submit(1, 4),
            Submit(1, 5, 4, 400.0, Death("before_spool")),
            Submit(0, 19, after_s=20.0),
            Submit(1, 34, after_s=0.1, dies=Death("after_spool")),
            Submit(0, 9, 11, 0.1, Death("before_spool")),
            Submit(2, 24),
            Submit(0, 0),
            Submit(0, 38, 3, 400.0),
        ),
        (
            "read:delay=1:nth=2:times=1",
            "get:delay=1:p=0.2:seed=24",
            "read:delay=40:nth=12:times=2",
            "mutation:500:nth=9:times=6",
            "put:delay=40:p=0.05:seed=64",
            "delete:500:nth=11:times=1",
            "graphql:delay=40:nth=2:times=1",
            "any:500:p=0.5:seed=60",
        ),
        977,
    ),
    "a second copy stayed where GitHub twice did not find it to delete": Schedule(
        (
            Machine(
                (
                    Drain("commit", 5.0, 20.0),
                    Drain(timeout_s=5.0, after_s=0.1, dies=Death("after_request", 3)),
                    Drain(timeout_s=5.0, after_s=400.0),
                    Drain(timeout_s=100.0, after_s=0.1),
                    Drain(timeout_s=100.0, after_s=3.0),
                    Drain(timeout_s=4000.0, after_s=1.0),
                    Drain(timeout_s=5.0, after_s=0.1),
                ),
                "real",
            ),
            Machine(
                (
                    Drain(timeout_s=5.0, after_s=20.0, dies=Death("after_request", 3)),
                    Drain(timeout_s=5.0, after_s=0.1, dies=Death("before_request", 4)),
                    Drain(timeout_s=5.0, after_s=0.1),
                    Drain(timeout_s=4000.0, after_s=0.1),
                    Drain(timeout_s=5.0, after_s=0.1),
                    Drain("commit", 5.0, 400.0),
                    Drain(timeout_s=5.0, after_s=0.1),
                )
            ),
            Machine(
                (
                    Drain(timeout_s=5.0, after_s=0.1),
                    Drain(timeout_s=5.0, after_s=0.1),
                    Drain(timeout_s=5.0, after_s=0.2),
                    Drain(timeout_s=5.0, after_s=0.2),
                    Drain(timeout_s=5.0, after_s=0.1),
                    Drain(timeout_s=5.0, after_s=0.1),
                    Drain(timeout_s=5.0, after_s=0.1),
                    Drain(timeout_s=5.0, after_s=0.1),
                )
            ),
        ),
        (
            Submit(0, 15),
            Submit(1, 1),
            Transfer(1, 2),
            Submit(1, 21, dies=Death("after_spool")),
            Submit(1, 36, 9, 20.0, Death("after_spool")),
            Submit(2, 6, 2),
            Submit(0, 8, 6),
            Transfer(2, 0),
            Submit(0, 32, 5, 400.0),
            Submit(1, 8, after_s=2.0),
            Exhaust(remaining=8, after_s=20.0),
        ),
        (
            "put:late=100:nth=9:times=6",
            "delete:404:p=0.5:seed=33",
            "read:late=100:nth=4:times=2",
            "any:404:p=0.5:seed=94",
            "post:late=100:p=0.5:seed=29",
            "mutation:late=100:nth=5:times=1",
        ),
        243,
    ),
    "an unfinished write is taken up again in the order of its numbers, not of its urgency": Schedule(
        (
            Machine((Drain(timeout_s=5.0, after_s=20.0), Drain(timeout_s=5.0, after_s=0.1))),
            Machine(
                (
                    Drain(timeout_s=5.0, after_s=0.2),
                    Drain(timeout_s=5.0, after_s=1.0),
                    Drain(timeout_s=5.0, after_s=1.0),
                )
            ),
        ),
        (
            Submit(0, 0),
            Submit(0, 0),
            Submit(0, 0),
            Submit(0, 32),
            Submit(1, 11),
            Stranger(),
            Submit(1, 5),
        ),
        ("any:500:p=0.2:seed=1", "any:500:p=0.5:seed=79"),
    ),
    "an unfinished write that is refused is halved in the order of its numbers": Schedule(
        (
            Machine((Drain(timeout_s=5.0, after_s=0.1),) * 4),
            Machine((Drain(timeout_s=5.0, after_s=0.1), Drain(timeout_s=5.0, after_s=0.2))),
        ),
        (
            Submit(0, 0),
            Submit(1, 0),
            Submit(0, 0, after_s=20.0),
            Submit(0, 27),
            Transfer(0, 1),
            Submit(0, 0),
            Exhaust(),
            Exhaust(),
            Submit(0, 0),
            Submit(0, 0),
            Submit(0, 0),
            Submit(0, 6),
            Submit(0, 15),
            Submit(1, 3),
        ),
        ("any:500:nth=1:times=1", "any:500:nth=1:times=1"),
    ),
    "who dies between two new numbers leaves the order in the numbers": Schedule(
        (
            Machine(
                (
                    Drain(timeout_s=5.0, after_s=400.0),
                    Drain(timeout_s=5.0, after_s=0.1, dies=Death("before_spool", 14)),
                )
            ),
            Machine((Drain(timeout_s=5.0, after_s=0.1), Drain(timeout_s=5.0, after_s=0.1))),
        ),
        (
            Submit(0, 0, dies=Death("before_spool")),
            Submit(1, 0, 2),
            Submit(0, 30, after_s=400.0),
            Submit(0, 3),
            Submit(0, 1),
            Submit(0, 1),
        ),
        ("any:500:nth=1:times=1", "any:500:nth=1:times=1"),
    ),
    "no checkpoint waits for what is to be deleted, however little may be written": Schedule(
        machines=(
            Machine(
                (
                    Drain(mode="contents", timeout_s=5.0, after_s=0.1, dies=None),
                    Drain(mode="contents", timeout_s=4000.0, after_s=1.0, dies=Death(moment="event", nth=15)),
                    Drain(mode="contents", timeout_s=100.0, after_s=400.0, dies=None),
                    Drain(mode="contents", timeout_s=4000.0, after_s=20.0, dies=None),
                    Drain(mode="commit", timeout_s=5.0, after_s=0.2, dies=None),
                    Drain(mode="commit", timeout_s=4000.0, after_s=3.0, dies=None),
                    Drain(mode="contents", timeout_s=4000.0, after_s=3.0, dies=None),
                    Drain(mode="contents", timeout_s=4000.0, after_s=0.5, dies=Death(moment="event", nth=3)),
                ),
                "open",
            ),
            Machine(
                (
                    Drain(mode="commit", timeout_s=100.0, after_s=0.2, dies=None),
                    Drain(
                        mode="contents",
                        timeout_s=4000.0,
                        after_s=20.0,
                        dies=Death(moment="after_spool", nth=16),
                    ),
                    Drain(mode="contents", timeout_s=0.0, after_s=0.2, dies=None),
                ),
                "open",
            ),
            Machine(
                (
                    Drain(
                        mode="commit", timeout_s=100.0, after_s=0.5, dies=Death(moment="after_spool", nth=4)
                    ),
                    Drain(mode="contents", timeout_s=4000.0, after_s=400.0, dies=None),
                    Drain(
                        mode="commit",
                        timeout_s=0.0,
                        after_s=0.2,
                        dies=Death(moment="before_request", nth=12),
                    ),
                    Drain(mode="contents", timeout_s=4000.0, after_s=3.0, dies=None),
                    Drain(mode="contents", timeout_s=5.0, after_s=3.0, dies=None),
                    Drain(mode="contents", timeout_s=5.0, after_s=0.5, dies=None),
                    Drain(
                        mode="contents",
                        timeout_s=4000.0,
                        after_s=0.2,
                        dies=Death(moment="before_request", nth=6),
                    ),
                ),
                "few",
            ),
        ),
        calls=(
            Submit(machine=2, checkpoint=15, number=None, after_s=0.0, dies=None),
            Submit(machine=1, checkpoint=28, number=None, after_s=20.0, dies=None),
            Transfer(source=2, target=0, after_s=0.5),
            Submit(machine=2, checkpoint=2, number=None, after_s=20.0, dies=None),
            Submit(machine=1, checkpoint=13, number=None, after_s=2.0, dies=None),
            Submit(machine=2, checkpoint=25, number=None, after_s=0.0, dies=Death("after_spool")),
            Submit(machine=1, checkpoint=1, number=None, after_s=0.1, dies=None),
            Submit(machine=2, checkpoint=3, number=None, after_s=2.0, dies=None),
            Submit(machine=2, checkpoint=23, number=6, after_s=20.0, dies=Death("after_spool")),
            Submit(machine=0, checkpoint=32, number=9, after_s=0.0, dies=None),
            Submit(machine=1, checkpoint=33, number=None, after_s=0.0, dies=None),
            Submit(machine=1, checkpoint=5, number=12, after_s=0.0, dies=None),
        ),
        faults=(
            "read:404:p=0.05:seed=58",
            "any:503:p=0.5:seed=15",
            "write:stale-hidden=3:nth=7:times=1",
            "delete:404:nth=12:times=2",
            "read:503:nth=9:times=1",
            "delete:503:nth=4:times=3",
            "delete:404:nth=1:times=1",
            "read:503:p=0.5:seed=24",
        ),
        pace=88,
    ),
    "a later one took the number that a refused one had left, below an earlier one": Schedule(
        machines=(Machine((Drain(timeout_s=5.0, after_s=0.1),)),) * 2,
        calls=(
            Submit(machine=0, checkpoint=0, number=10),
            Submit(machine=0, checkpoint=4),
            Submit(machine=1, checkpoint=16),
            Submit(machine=1, checkpoint=1, number=12),
            Submit(machine=1, checkpoint=15),
            Submit(machine=1, checkpoint=6),
            Submit(machine=1, checkpoint=3, number=11),
        ),
        faults=("any:500:nth=1:times=1", "any:500:nth=1:times=1"),
    ),
    "a process that died before it understood a refusal asked again at once, through GraphQL": Schedule(
        machines=(
            Machine((Drain(timeout_s=5.0, after_s=0.1),) * 2),
            Machine(
                (
                    Drain(timeout_s=5.0, after_s=0.1),
                    Drain("commit", timeout_s=5.0, after_s=0.1, dies=Death("event", 1)),
                )
            ),
        ),
        calls=(
            Submit(machine=0, checkpoint=0),
            Exhaust(),
            Submit(machine=0, checkpoint=0),
            Submit(machine=0, checkpoint=0),
            Submit(machine=0, checkpoint=0, after_s=0.1),
            Submit(machine=1, checkpoint=0),
        ),
        faults=("any:500:nth=1:times=1", "any:500:nth=1:times=1"),
    ),
}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=[*SCHEDULES])
def test_schedule_that_ended_badly_once_ends_well(schedule: Schedule) -> None:
    assert play_in_memory(schedule).schedules == 1
