"""Runs `holdfast`, or a script, as a process of its own that does not have to load everything first.

Most of what a command takes is the start of Python. Here each is a fork of one process that has loaded the
package, and done nothing else: its arguments, environment, files, signals and exit code are real.
"""

import multiprocessing
import os
import pkgutil
import runpy
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from subprocess import CompletedProcess

import holdfast

ROOT = Path(__file__).parents[2]
LONGEST_S = 120
# What nothing here needs.
_LEFT_OUT = ("holdfast.langgraph", "holdfast.mcp", "holdfast.sidecar")
_OTHERS = ("encodings.idna", "httpcore", "joserfc.jwe", "joserfc.jws", "re2", "rich.traceback", "structlog")
_OF_TESTS = ("tests.fakes.commands", "tests.fakes.spooling")

Ended = CompletedProcess[bytes]


def run_command(
    *words: str, environment: Mapping[str, str], stdin: bytes = b"", folder: Path = ROOT
) -> Ended:
    """Run `holdfast` with these words, and nothing but this environment; return how it ended."""
    return _run(_call_main, ["holdfast", *words], dict(environment), stdin, folder)


def run_step(environment: Mapping[str, str]) -> Ended:
    """Run a step of the Action with nothing but this environment; return how it ended."""
    return _run(_run_action, ["holdfast.action"], dict(environment), b"", ROOT)


def run_script(script: str, *arguments: str) -> Ended:
    """Run a script as `python -c` does, where `holdfast` and `tests` can be imported."""
    return _run(_execute, [script, *arguments], dict(os.environ), b"", ROOT)


def _run(
    work: Callable[[], None], words: list[str], environment: dict[str, str], stdin: bytes, folder: Path
) -> Ended:
    with tempfile.TemporaryDirectory() as place:
        given, out, err = files = [Path(place) / name for name in ("in", "out", "err")]
        given.write_bytes(stdin)
        process = _server().Process(target=_begin, args=(work, words, environment, folder, files))
        process.start()
        process.join(LONGEST_S)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise AssertionError(f"{words} did not end: {err.read_text()}")
        return CompletedProcess(words, process.exitcode, out.read_bytes(), err.read_bytes())


@cache
def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    ours = (each.name for each in pkgutil.walk_packages(holdfast.__path__, "holdfast."))
    loaded = [name for name in ours if not name.startswith(_LEFT_OUT)]
    context.set_forkserver_preload([*loaded, *_OTHERS, *_OF_TESTS])
    return context


def _begin(
    work: Callable[[], None], words: list[str], environment: dict[str, str], folder: Path, files: list[Path]
) -> None:
    """Become the process that was asked for."""
    for number, file in enumerate(files):
        opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = words
    work()


def _call_main() -> None:
    from holdfast.cli import main

    sys.exit(main())


def _run_action() -> None:
    runpy.run_module("holdfast.action", run_name="__main__")


def _execute() -> None:
    exec(compile(sys.argv[0], "<script>", "exec"), {"__name__": "__main__"})
