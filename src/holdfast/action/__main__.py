"""The step as a program: `python -m holdfast.action`."""

import os
import sys

from holdfast.action.entry import main

if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    code = main(os.environ)
    sys.stdout.flush()
    # A request that hangs must not keep a cancelled job waiting.
    os._exit(code)
