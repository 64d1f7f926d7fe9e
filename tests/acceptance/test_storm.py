"""Many writers at once on one branch, over HTTP, and folders larger than a listing."""

import threading
import time
from pathlib import Path

import pytest

from holdfast.assembly import Assembly
from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from holdfast.format.receipt import Progress
from holdfast.github import rest
from holdfast.library import Holdfast
from holdfast.repository import sources
from holdfast.settings import Settings
from tests.fakes.repository import check_files, read_branch

WRITERS = 8
CHECKPOINTS = 12


class HastyClock:
    """Goes like the machine's, but skips what others would sleep."""

    def __init__(self) -> None:
        self._skipped_s = 0.0

    def now(self) -> float:
        return time.time() + self._skipped_s

    def sleep(self, seconds: float) -> None:
        self._skipped_s += seconds


def open_holdfast(config: Settings) -> Holdfast:
    return Holdfast(config, assembly=Assembly(config, clock=HastyClock()))


def settings(url: str, folder: Path, mode: str) -> Settings:
    return Settings.from_environment(
        {
            "HOLDFAST_REPO": "holdfast/checkpoints",
            "HOLDFAST_API_URL": url,
            "HOLDFAST_DATA_DIR": str(folder),
            "HOLDFAST_WRITE_MODE": mode,
            "HOLDFAST_WRITE_INTERVAL_S": "0",
            "HOLDFAST_CONTENT_PER_MINUTE": "0",
            "HOLDFAST_CONTENT_PER_HOUR": "0",
        }
    )


@pytest.mark.parametrize("modes", [["contents"], ["commit"], ["contents", "commit"]], ids="-".join)
def test_eight_writers_of_one_run_lose_nothing_and_agree_on_every_number(
    tmp_path: Path, modes: list[str]
) -> None:
    acknowledged: list[str] = []
    receipts: dict[str, tuple[int, str]] = {}

    def write(number: int, url: str) -> None:
        config = settings(url, tmp_path / f"writer-{number}", modes[number % len(modes)])
        with open_holdfast(config) as holdfast:
            for _ in range(CHECKPOINTS // 3):
                ids = [holdfast.save("r", {"writer": number}).checkpoint_id for _ in range(3)]
                acknowledged.extend(ids)
                holdfast.drain()
            assert holdfast.drain(timeout_s=10_000).left == 0
            for checkpoint_id in acknowledged:
                if receipt := holdfast.receipt(checkpoint_id):
                    assert receipt.status is Progress.VERIFIED
                    receipts[checkpoint_id] = (receipt.sequence_number, receipt.file_path)

    with EmulatorServer(Emulator(EmulatorOptions(root=tmp_path / "github"))) as server:
        threads = [threading.Thread(target=write, args=(number, server.url)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    files = read_branch(tmp_path / "github" / "holdfast" / "checkpoints.git")
    stored = check_files(files, "r")
    assert sorted(stored.values()) == sorted(acknowledged)
    assert len(stored) == WRITERS * CHECKPOINTS
    assert {identity: number for number, identity in stored.items()} == {
        identity: number for identity, (number, _) in receipts.items()
    }


@pytest.mark.parametrize("listed", [120, pytest.param(1_000, marks=pytest.mark.long)])
def test_run_with_more_files_than_a_listing_shows_is_verified_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: int
) -> None:
    monkeypatch.setattr(rest, "FOLDER_LIMIT", listed)
    monkeypatch.setattr(sources, "MOST_LISTED_FILES", listed)
    options = EmulatorOptions(root=tmp_path / "github", directory_limit=listed)
    with EmulatorServer(Emulator(options)) as server:
        with open_holdfast(settings(server.url, tmp_path / "one", "commit")) as holdfast:
            for _ in range(listed):
                holdfast.save("r", {})
            assert holdfast.drain().left == 0
        with open_holdfast(settings(server.url, tmp_path / "other", "contents")) as holdfast:
            for _ in range(3):
                holdfast.save("r", {}, trigger="error")
            assert holdfast.drain().left == 0
            assert len(holdfast.checkpoints("r").entries) == listed + 3
            assert holdfast.checkpoint("r", listed + 2).header.trigger == "error"

    files = read_branch(tmp_path / "github" / "holdfast" / "checkpoints.git")
    assert sorted(check_files(files, "r")) == list(range(1, listed + 4))
