"""LangGraph's conformance suite against HoldfastSaver, on an embedded GitHub; exit 0 if every test passes."""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator

from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.report import ProgressCallbacks

from holdfast.langgraph import HoldfastSaver


async def holdfast_saver() -> AsyncIterator[HoldfastSaver]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOLDFAST_DATA_DIR"] = folder
        with HoldfastSaver.from_env() as saver:
            yield saver


def main() -> int:
    tested = checkpointer_test(name="HoldfastSaver")(holdfast_saver)
    report = asyncio.run(validate(tested, progress=ProgressCallbacks.verbose()))
    results = report.results
    failures = [failure for result in results.values() for failure in result.failures or ()]
    passed = sum(result.tests_passed or 0 for result in results.values())
    missing = [name for name, result in results.items() if not result.detected]
    print(f"{passed} passed, {len(failures)} failed, not offered: {', '.join(missing) or 'nothing'}")
    for failure in failures:
        print(f"  {failure}")
    return 1 if failures or missing else 0


if __name__ == "__main__":
    sys.exit(main())
