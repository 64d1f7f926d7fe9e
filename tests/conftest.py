"""What holds for every test: the same random examples each time, and nothing of the caller's settings."""

import gc
import os
import signal

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


def pytest_collection_finish() -> None:
    """Have no collection of garbage look through thousands of tests, and all that they import, again."""
    gc.collect()
    gc.freeze()
