"""A program that saves, and forks while it does so, in every way that programs do.

Whatever was acknowledged is written to a file, line by line. Whoever is alive holds a lock on another file.
"""

import faulthandler
import fcntl
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from holdfast.errors import SpoolBusy
from holdfast.library import Holdfast
from tests.soak.kills import make_settings

KINDS = ("inherited", "fresh", "daemon", "prefork", "spawn", "threads")
LONGEST_LIFE_S = 120
SAVES = 10
LARGEST_BYTES = 300_000


def run(kind: str, folder: Path, url: str, seed: int) -> None:
    """Be one program of this kind, from its start to its end."""
    Program(folder, url, random.Random(seed)).play(kind)


class Program:
    """One process of the program: the first one, or one that came of it."""

    def __init__(self, folder: Path, url: str, chance: random.Random) -> None:
        self._folder = folder
        self._url = url
        self._chance = chance
        self._acknowledged = os.open(folder / "acknowledged", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self._begin()

    def play(self, kind: str) -> None:
        """Save and fork until everyone who was waited for has ended."""
        with self._open() as holdfast:
            self._save(holdfast, saves=2)
            getattr(self, f"_play_{kind}")(holdfast)

    def _play_inherited(self, holdfast: Holdfast) -> None:
        children = [self._fork(lambda: self._use(holdfast)) for _ in range(2)]
        self._end_in_any_order(holdfast, children)

    def _play_fresh(self, holdfast: Holdfast) -> None:
        children = [self._fork(self._use_own) for _ in range(2)]
        self._end_in_any_order(holdfast, children)

    def _play_prefork(self, holdfast: Holdfast) -> None:
        uses: list[Callable[[], None]] = [lambda: self._use(holdfast), self._use_own, self._drain]
        children = [self._fork(self._chance.choice(uses)) for _ in range(self._chance.randint(2, 4))]
        self._end_in_any_order(holdfast, children)

    def _play_daemon(self, holdfast: Holdfast) -> None:
        """Become a daemon, which saves, while others drain now and then, as from cron."""

        def leave() -> None:
            os.setsid()
            self._fork(lambda: self._use(holdfast))

        middle = self._fork(leave)
        os.waitpid(middle, 0)
        self._end_in_any_order(holdfast, [self._fork(self._drain) for _ in range(2)])

    def _play_spawn(self, holdfast: Holdfast) -> None:
        context = multiprocessing.get_context("spawn")
        children = [
            context.Process(target=_spawned, args=(self._folder, self._url, self._chance.random()))
            for _ in range(2)
        ]
        for child in children:
            child.start()
        self._save(holdfast)
        for child in children:
            child.join()

    def _play_threads(self, holdfast: Holdfast) -> None:
        threads = [threading.Thread(target=self._save, args=(holdfast,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        children = [self._fork(lambda: self._use(holdfast)) for _ in range(3)]
        for thread in threads:
            thread.join()
        self._end_in_any_order(holdfast, children)

    def _end_in_any_order(self, holdfast: Holdfast, children: list[int]) -> None:
        """Save, and close before the children have ended or after it."""
        self._save(holdfast)
        if self._chance.random() < 0.5:
            holdfast.close()
        for child in children:
            os.waitpid(child, 0)
        if self._chance.random() < 0.5:
            self._use_own()

    def _begin(self) -> None:
        signal.alarm(LONGEST_LIFE_S)
        faulthandler.register(signal.SIGALRM, chain=True)  # whoever hangs until then says where
        self._alive = os.open(self._folder / "alive", os.O_CREAT | os.O_RDWR)
        fcntl.flock(self._alive, fcntl.LOCK_SH)
        processes = os.open(self._folder / "processes", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        os.write(processes, b"%d\n" % os.getpid())
        os.close(processes)

    def _fork(self, work: Callable[[], None]) -> int:
        seed = self._chance.random()
        process = os.fork()
        if process:
            return process
        self._chance = random.Random(seed)
        code = 1
        try:
            self._begin()
            work()
            code = 0
        except BaseException as error:
            os.write(2, f"a process failed: {error!r}\n".encode())
        finally:
            os._exit(code)

    def _use(self, holdfast: Holdfast) -> None:
        self._save(holdfast)
        if self._chance.random() < 0.3:
            self._fork(lambda: self._save(holdfast))
        if self._chance.random() < 0.6:
            holdfast.close()

    def _use_own(self) -> None:
        with self._open() as holdfast:
            self._save(holdfast)

    def _drain(self) -> None:
        with self._open() as holdfast:
            for _ in range(3):
                with suppress(SpoolBusy):
                    holdfast.drain(timeout_s=5)
                time.sleep(self._chance.uniform(0.0, 0.05))

    def _save(self, holdfast: Holdfast, saves: int = SAVES) -> None:
        for _ in range(saves):
            identity, size_bytes = str(uuid4()), int(LARGEST_BYTES * self._chance.random() ** 4)
            said = f"{self._chance.getrandbits(64):016x}"
            state = {"said": said, "ballast": "x" * size_bytes}
            run_id = self._chance.choice(("run-a", "run-b"))
            holdfast.save(f"{self._folder.name}-{run_id}", state, checkpoint_id=identity)
            os.write(self._acknowledged, f"{identity} {said}\n".encode())
            time.sleep(self._chance.uniform(0.0, 0.01))

    def _open(self) -> Holdfast:
        return Holdfast(make_settings(self._url, self._folder / "machine", "commit"))


def _spawned(folder: Path, url: str, seed: float) -> None:
    Program(folder, url, random.Random(seed))._use_own()


if __name__ == "__main__":
    run(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
