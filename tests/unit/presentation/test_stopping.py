"""Signals wait until someone heeds them; the first asks for an end, and the process ends in time."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from holdfast.presentation.stopping import stop_on_signals

LONGEST_S = 60
HOLD = """
import os, signal
from holdfast.presentation.stopping import hold_signals, release_signals
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
hold_signals()
os.kill(os.getpid(), signal.SIGINT)
os.kill(os.getpid(), signal.SIGTERM)
heard = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _frame: heard.append(number))
assert not heard
release_signals()
assert sorted(heard) == [signal.SIGINT, signal.SIGTERM]
"""
HANGS = """
import os, signal, threading
from holdfast.presentation import stopping
stopping.GRACE_S = 0.0
words = stopping.LastWords(75, lambda: print("what is left is told"))
with stopping.stop_on_signals(words):
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait()
"""


@pytest.mark.processes
def test_signals_wait_until_someone_heeds_them_also_if_they_were_ignored() -> None:
    subprocess.run([sys.executable, "-I", "-c", HOLD], check=True, timeout=LONGEST_S)


def test_the_first_signal_sets_the_event_and_the_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGTERM)

    with stop_on_signals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)

        assert stop.wait(LONGEST_S)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is before
    assert isinstance(stop, threading.Event)


@pytest.mark.processes
def test_work_that_does_not_stop_is_ended_after_its_last_words() -> None:
    ended = subprocess.run(
        [sys.executable, "-I", "-c", HANGS], capture_output=True, text=True, check=False, timeout=LONGEST_S
    )

    assert (ended.returncode, ended.stdout) == (75, "what is left is told\n")
