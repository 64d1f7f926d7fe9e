"""A draining process dies by SIGKILL at every step of the write protocol; the next one finishes its work.

The process is a fork of this one, so that it can be told where to die without a word about it in the product:
at its n-th request, before GitHub sees it or after GitHub has done it, or when it has logged its n-th event.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from holdfast.format.receipt import Progress
from holdfast.library import Holdfast
from holdfast.settings import Settings
from tests.fakes.repository import check_files, read_branch

CHECKPOINTS = 3

# How many requests and events a drain has, by the way it writes. One more does not happen, and so kills
# nobody: that case shows that the others covered all of it.
REQUESTS = {"contents": 7, "new-branch": 13, "batch": 5, "commit": 2}
EVENTS = {"contents": 7, "new-branch": 8, "batch": 5, "commit": 2}
SETTINGS = {
    "contents": {},
    "new-branch": {},
    "batch": {"HOLDFAST_CONTENT_PER_HOUR": "20"},
    "commit": {"HOLDFAST_WRITE_MODE": "commit"},
}

_SERVER = """
import sys
from pathlib import Path
from holdfast.emulator import EmulatorOptions, serve
serve(EmulatorOptions(root=Path(sys.argv[1])), on_ready=lambda url: print(url, flush=True))
"""


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    root = tmp_path_factory.mktemp("github")
    server = subprocess.Popen([sys.executable, "-c", _SERVER, str(root)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        url = server.stdout.readline().strip()
        with Holdfast(settings(url, root / "first", "contents")) as holdfast:
            holdfast.save("first", {})
            assert holdfast.drain().verified == 1
        yield url, root / "holdfast" / "checkpoints.git"
    finally:
        server.terminate()
        server.wait(timeout=60)
        server.stdout.close()


def settings(url: str, folder: Path, way: str, branch: str = "checkpoints") -> Settings:
    return Settings.from_environment(
        {
            "HOLDFAST_REPO": "holdfast/checkpoints",
            "HOLDFAST_API_URL": url,
            "HOLDFAST_TOKEN": "token",
            "HOLDFAST_DATA_DIR": str(folder),
            "HOLDFAST_BRANCH": branch,
            "HOLDFAST_WRITE_INTERVAL_S": "0",
            "HOLDFAST_CONTENT_PER_MINUTE": "0",
            "HOLDFAST_CONTENT_PER_HOUR": "0",
            **SETTINGS[way],
        }
    )


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_request(number: int, *, is_done: bool) -> None:
    """Have this process die at its n-th request."""
    count = 0
    send = httpx.HTTPTransport.handle_request

    def send_or_die(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        nonlocal count
        count += 1
        if count == number and not is_done:
            die()
        response = send(transport, request)
        if count == number:
            response.read()
            die()
        return response

    httpx.HTTPTransport.handle_request = send_or_die  # type: ignore[method-assign, assignment]


def die_at_event(number: int) -> None:
    """Have this process die when it has logged its n-th event."""
    count = 0

    def count_or_die(logger: Any, method: str, event: Any) -> Any:
        nonlocal count
        count += 1
        if count == number:
            die()
        raise structlog.DropEvent

    structlog.configure(processors=[count_or_die])


def drain_in_a_child(config: Settings, arm: Callable[[], None]) -> int:
    """Drain in a process that is armed to die; return the signal that ended it, 0 if none did."""
    child = os.fork()
    if child == 0:
        try:
            threading.Timer(60, die).start()
            arm()
            with Holdfast(config) as holdfast:
                holdfast.drain(timeout_s=30)
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def cases() -> Iterator[Any]:
    for way in SETTINGS:
        for number in range(1, REQUESTS[way] + 2):
            for is_done in (False, True):
                when = "after" if is_done else "before"
                yield pytest.param(way, "request", number, is_done, id=f"{way}-{when}-request-{number}")
        for number in range(1, EVENTS[way] + 2):
            yield pytest.param(way, "event", number, False, id=f"{way}-event-{number}")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(("way", "kind", "number", "is_done"), list(cases()))
def test_killed_drain_is_finished_by_the_next_with_everything_exactly_once(
    github: tuple[str, Path],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    way: str,
    kind: str,
    number: int,
    is_done: bool,
) -> None:
    url, repository = github
    run_id = request.node.callspec.id
    branch = run_id if way == "new-branch" else "checkpoints"
    config = settings(url, tmp_path, way, branch)

    def save(count: int) -> list[str]:
        with Holdfast(config) as holdfast:
            return [holdfast.save(run_id, {"n": n}, trigger="manual").checkpoint_id for n in range(count)]

    def arm() -> None:
        if kind == "request":
            die_at_request(number, is_done=is_done)
        else:
            die_at_event(number)

    acknowledged = save(CHECKPOINTS)
    ended_by = drain_in_a_child(config, arm)
    survives = number > (REQUESTS if kind == "request" else EVENTS)[way]
    assert ended_by == (0 if survives else signal.SIGKILL)

    acknowledged += save(1)
    without_limits = settings(url, tmp_path, "commit" if way == "commit" else "contents", branch)
    with Holdfast(without_limits) as holdfast:
        result = holdfast.drain(timeout_s=30)
        receipts = [holdfast.receipt(checkpoint_id) for checkpoint_id in acknowledged]

    assert result.left == 0
    stored = check_files(read_branch(repository, branch), run_id)
    assert stored == {number + 1: checkpoint_id for number, checkpoint_id in enumerate(acknowledged)}
    assert {receipt.status for receipt in receipts if receipt} == {Progress.VERIFIED}
