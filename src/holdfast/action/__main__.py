"""The step as a program: `python -m holdfast.action`."""

import os
import signal
import sys

from holdfast.presentation.stopping import hold_signals

if __name__ == "__main__":
    hold_signals()
    if os.environ.get("HOLDFAST_CANCELLED"):
        signal.raise_signal(signal.SIGINT)
    # Not before: this takes most of a short step, and a signal would end it with nothing saved.
    from holdfast.action.entry import main

    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    code = main(os.environ)
    sys.stdout.flush()
    # A request that hangs must not keep a cancelled job waiting.
    os._exit(code)
