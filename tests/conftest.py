"""What holds for every test: the same random examples each time, and nothing of the caller's settings."""

import gc
import os
import re
import signal
import sys
from collections import Counter

import pytest
import structlog
from hypothesis import HealthCheck, settings

# A slow machine is no failure, and a test that fails must fail again.
settings.register_profile(
    "holdfast", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
# For `scripts/test --quick`, which is run often.
settings.register_profile("quick", settings.get_profile("holdfast"), max_examples=15)
settings.load_profile("holdfast")

for _variable in list(os.environ):
    if _variable.startswith(("HOLDFAST_", "GITHUB_")) and _variable != "HOLDFAST_GITHUB_SCHEMA":
        del os.environ[_variable]

# A suite that is started in the background ignores SIGINT, with nohup SIGHUP, and so would all that its tests
# send these to.
for _signal, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, _handler)


_USUAL_FILE = structlog.PrintLogger()._file


def _print_to_its_file(logger: structlog.PrintLogger, message: str) -> None:
    file = sys.stdout if logger._file is _USUAL_FILE else logger._file
    with logger._lock:
        print(message, file=file, flush=True)


# Where structlog is not set up it prints without naming a file, and `print` does not hold on to `sys.stdout`:
# a thread that logs while a test's captured output is put away would crash the process
# (https://github.com/python/cpython/issues/130163).
for _name in [
    name for name, method in vars(structlog.PrintLogger).items() if method is structlog.PrintLogger.msg
]:
    setattr(structlog.PrintLogger, _name, _print_to_its_file)


def pytest_collection_finish() -> None:
    """Have no collection of garbage look through thousands of tests, and all that they import, again."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly, as one of the last things, what this machine lacks and what was not tested without it."""
    reasons = [str(each.longrepr) for each in terminalreporter.getreports("skipped")]
    told = Counter(found[0].rstrip("')") for each in reasons if (found := re.search("NOT TESTED: .*", each)))
    for sentence, count in told.items():
        terminalreporter.section(f"{count} skipped, {sentence}", red=True, bold=True)


@pytest.fixture
def on_a_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the doctor take the folders of tests to be on a disk, also where they are in memory."""
    monkeypatch.setattr("holdfast.doctor.examination._file_system", lambda _folder: "ext4")
