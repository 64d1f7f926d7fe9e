"""What arrives while one group is carried out shares the next."""

import threading
from collections.abc import Sequence

import pytest

from holdfast.queue.postgres.together import MOST_TOGETHER, Together

LONGEST_S = 60


class Desk:
    """Doubles numbers; the first group waits until the others have queued up."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.may_go_on = threading.Event()
        self.has_begun = threading.Event()
        self.together: Together[int, int] = Together(self.carry_out)
        self.answers: dict[int, int | str] = {}

    def carry_out(self, works: Sequence[int]) -> list[int]:
        self.groups.append(list(works))
        self.has_begun.set()
        assert self.may_go_on.wait(LONGEST_S)
        if 13 in works:
            raise ValueError("thirteen")
        return [2 * each for each in works]

    def start(self, number: int) -> threading.Thread:
        def do() -> None:
            try:
                self.answers[number] = self.together.do(number)
            except ValueError as error:
                self.answers[number] = str(error)

        thread = threading.Thread(target=do)
        thread.start()
        return thread

    def queue_up(self, numbers: Sequence[int]) -> None:
        threads = [self.start(0)]
        assert self.has_begun.wait(LONGEST_S)
        for count, number in enumerate(numbers, start=1):
            threads.append(self.start(number))
            while len(self.together._waiting) < count:
                pass
        self.may_go_on.set()
        for thread in threads:
            thread.join(LONGEST_S)


def test_each_gets_its_own_answer_and_those_who_wait_share_a_group() -> None:
    desk = Desk()

    desk.queue_up([1, 2, 3])

    assert desk.groups == [[0], [1, 2, 3]]
    assert desk.answers == {0: 0, 1: 2, 2: 4, 3: 6}


def test_group_is_not_larger_than_it_may_be() -> None:
    desk = Desk()

    desk.queue_up(range(100, 100 + MOST_TOGETHER + 2))

    assert [len(group) for group in desk.groups] == [1, MOST_TOGETHER, 2]
    assert len(desk.answers) == MOST_TOGETHER + 3


def test_failure_is_told_to_all_of_its_group_and_the_next_goes_on() -> None:
    desk = Desk()

    desk.queue_up([12, 13])

    assert desk.answers == {0: 0, 12: "thirteen", 13: "thirteen"}
    assert desk.together.do(4) == 8


def test_failure_is_raised_where_it_was_asked() -> None:
    desk = Desk()
    desk.may_go_on.set()

    with pytest.raises(ValueError, match="thirteen"):
        desk.together.do(13)
