"""RE2's patterns beside forks."""

import os
import random
import signal
import threading

import pytest

from holdfast.security.credential_shapes import RULES
from holdfast.security.patterns import ForkGate, Pattern

FORKS = 4
LONGEST_LIFE_S = 20
CHANCE = random.Random(1)
TEXTS = [bytes(CHANCE.choices(range(32, 127), k=100_000)) for _ in range(4)]


def all_rules() -> Pattern:
    return Pattern("|".join(f"(?:{rule.anchor or rule.pattern})" for rule in RULES))


def search_in_child(pattern: Pattern) -> int:
    """Search in a process that is forked just now; return how it ended."""
    process = os.fork()
    if not process:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LONGEST_LIFE_S)
        pattern.finditer(TEXTS[0][::-1])
        os._exit(0)
    return os.waitpid(process, 0)[1]


@pytest.mark.slow
def test_a_process_forked_while_threads_search_can_search_itself() -> None:
    is_over = threading.Event()
    shared = [all_rules()]

    def search() -> None:
        while not is_over.is_set():
            shared[0] = all_rules()  # what it learns while it searches is what it holds locks for
            for text in TEXTS:
                shared[0].finditer(text)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        endings = [search_in_child(shared[0]) for _ in range(FORKS)]
    finally:
        is_over.set()
        for thread in threads:
            thread.join()

    assert endings == [0] * FORKS


def test_a_thread_inside_the_gate_can_come_in_again_and_close_it() -> None:
    gate = ForkGate()

    with gate, gate:
        gate.close()
        with gate:
            pass
        gate.open()


@pytest.mark.parametrize("count", [1, 3])
def test_closing_the_gate_waits_for_all_who_are_inside(count: int) -> None:
    gate, order = ForkGate(), []
    inside = threading.Barrier(count + 1)
    may_leave = threading.Event()

    def stay() -> None:
        with gate:
            inside.wait()
            may_leave.wait()
            order.append("left")

    def close() -> None:
        gate.close()
        order.append("closed")
        gate.open()

    threads = [threading.Thread(target=stay) for _ in range(count)]
    for thread in threads:
        thread.start()
    inside.wait()
    closing = threading.Thread(target=close)
    closing.start()
    may_leave.set()
    for thread in (*threads, closing):
        thread.join()

    assert order == ["left"] * count + ["closed"]
