"""A program that is forked: the child uses and closes what it has inherited, and the parent goes on."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from holdfast import Holdfast
from holdfast.settings import Settings


def open_holdfast(folder: Path) -> Holdfast:
    return Holdfast(Settings.from_environment({"HOLDFAST_DATA_DIR": str(folder)}))


def run_in_child(work: Callable[[], object]) -> int:
    """Return the exit code of a forked process that does `work`."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_child_saves_with_what_it_inherited_and_closes_it_and_the_parent_goes_on(tmp_path: Path) -> None:
    with closing(open_holdfast(tmp_path)) as holdfast:
        holdfast.save("r", {"n": 1})
        assert holdfast.drain().verified == 1

        def save_and_close() -> None:
            holdfast.save("r", {"n": 2})
            holdfast.close()

        assert run_in_child(save_and_close) == 0
        holdfast.save("r", {"n": 3})

        assert holdfast.drain().verified == 2
        numbers = [entry.sequence for entry in holdfast.checkpoints("r").entries]
        assert numbers == [1, 2, 3]


def test_child_lists_drains_and_closes_with_what_it_inherited(tmp_path: Path) -> None:
    with closing(open_holdfast(tmp_path)) as holdfast:
        holdfast.save("r", {"n": 1})
        holdfast.drain()
        holdfast.save("r", {"n": 2})

        def use_and_close() -> None:
            assert [run.run_id for run in holdfast.runs()] == ["r"]
            assert holdfast.drain().verified == 1
            holdfast.close()

        assert run_in_child(use_and_close) == 0
        holdfast.save("r", {"n": 3})
        assert holdfast.drain().verified == 1
        assert [entry.sequence for entry in holdfast.checkpoints("r").entries] == [1, 2, 3]


def test_child_asks_for_the_status_and_the_budget_with_what_it_inherited(tmp_path: Path) -> None:
    with closing(open_holdfast(tmp_path)) as holdfast:
        holdfast.save("r", {"n": 1})
        holdfast.status()

        assert run_in_child(holdfast.status) == 0
