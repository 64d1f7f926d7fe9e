"""What it costs that nothing secret is stored: a save with credentials taken out, sealed, or neither."""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.contestants import CONTENTS, holdfast_settings
from benchmarks.report import Bar, Report
from benchmarks.sampling import Sample, interleave
from benchmarks.states import State, make_checkpoint, make_state
from benchmarks.workshop import Workshop
from holdfast import Holdfast
from holdfast.security.jose import make_shared_key

NAME = "security"
OFF, KNOWN, STRICT, SEALED = "off", "known", "strict", "sealed"
_SIZE = "50 KB"
_NOWHERE = "http://127.0.0.1:9"


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Measure a save of 50 KB in each way, by turns."""
    rounds, repeats = (9, 5) if is_quick else (45, 6)
    samples = measure(workshop.disk_folder, rounds, repeats)
    report.add_samples(samples, section=NAME, work=_SIZE, name="median", unit="ms", baseline=OFF, scale=1000)
    known, sealed = (samples[way].ratio_to(samples[OFF]) for way in (KNOWN, SEALED))
    report.bars += [
        Bar(NAME, "a save of 50 KB with credentials taken out, in saves without", known, 1.3, "times"),
        Bar(NAME, "a save of 50 KB that is sealed, in saves without", sealed, 3.0, "times"),
    ]


def measure(new_folder: Callable[[], Path], rounds: int, repeats: int) -> dict[str, Sample]:
    """Return how long saves take in each way."""
    ways: dict[str, dict[str, Any]] = {
        OFF: {"redact": "off"},
        KNOWN: {"redact": "known"},
        STRICT: {"redact": "strict"},
        SEALED: {"redact": "off", "encryption_key": json.dumps(make_shared_key())},
    }
    state = make_state(_SIZE)
    with ExitStack() as opened:
        timers: dict[str, Callable[[], float]] = {}
        for way, changes in ways.items():
            holdfast = Holdfast(holdfast_settings(CONTENTS, _NOWHERE, new_folder(), **changes))
            opened.callback(holdfast.close)
            timers[way] = _timer(holdfast, state)
            timers[way]()
        return interleave(timers, rounds=rounds, repeats=repeats)


def _timer(holdfast: Holdfast, state: State) -> Callable[[], float]:
    numbers = iter(range(1, 1_000_000))

    def save_once() -> float:
        checkpoint = make_checkpoint(
            state, checkpoint_id=str(uuid4()), run_id="run-1", sequence=next(numbers)
        )
        before = time.perf_counter()
        holdfast.submit(checkpoint)
        return time.perf_counter() - before

    return save_once
