"""A process that saves 50 KB whenever it is asked to, and prints each time how many seconds that took."""

import sys
import time
from pathlib import Path
from uuid import uuid4

WITHOUT_EXTRA = "without the extra"
"""What stands among the arguments where nothing of OpenTelemetry is to be found."""


def main() -> None:
    """Save into a folder, once for each line of input."""
    if WITHOUT_EXTRA in sys.argv:
        sys.modules["opentelemetry"] = None  # type: ignore[assignment]  # it cannot be imported any more
    import os

    from benchmarks.contestants import CONTENTS, holdfast_settings
    from benchmarks.states import make_checkpoint, make_state
    from holdfast import Holdfast
    from holdfast.logs import configure_traces

    configure_traces(os.environ)
    state = make_state("50 KB")
    with Holdfast(holdfast_settings(CONTENTS, "http://127.0.0.1:9", Path(sys.argv[1]))) as holdfast:
        for number, _ in enumerate(sys.stdin, start=1):
            checkpoint = make_checkpoint(state, checkpoint_id=str(uuid4()), run_id="run-1", sequence=number)
            before = time.perf_counter()
            holdfast.submit(checkpoint)
            print(time.perf_counter() - before, flush=True)


if __name__ == "__main__":
    main()
