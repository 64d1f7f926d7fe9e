"""What one token carries in an hour of GitHub's real limits, in virtual time."""

import time
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

from github import GithubException
from githubkit.exception import RequestFailed

from benchmarks.contestants import COMMIT, CONTENTS, GITHUBKIT, PYGITHUB, holdfast_settings
from benchmarks.peers.githubkit_loop import GithubkitLoop
from benchmarks.peers.pygithub_loop import PyGithubLoop
from benchmarks.report import Bar, Report
from benchmarks.states import make_state
from benchmarks.virtual_time import Arrival, ArrivalClock
from benchmarks.workshop import REPOSITORY, TOKEN, Workshop
from holdfast import Holdfast
from holdfast.assembly import Assembly
from holdfast.emulator import Delay, Emulator, EmulatorOptions, EmulatorServer, EmulatorTransport, Rule
from holdfast.github.client import GitHubClient
from holdfast.settings import Settings

NAME = "hour"
WORK = "5 KB, 10 runs, evenly over an hour"
HOUR_S = 3600.0
GRACE_S = 600.0
NETWORK_S = 0.1
RUNS = 10
LIMITS: dict[str, Any] = {
    "primary_limit": 5000,
    "content_per_minute": 80,
    "content_per_hour": 500,
    "points_per_minute": 900,
    "graphql_points_per_minute": 2000,
}


class _Joined(Assembly):
    """Holdfast as it is, with the emulator in its own process and in its own time."""

    def __init__(self, settings: Settings, clock: ArrivalClock, emulator: Emulator) -> None:
        super().__init__(settings, clock=clock)
        self._emulator = emulator
        self._virtual = clock

    @cached_property
    def client(self) -> GitHubClient:
        return GitHubClient(
            self.repository,
            token=self.tokens.token,
            api_url="http://github.invalid",
            clock=self.clock,
            observe=self.rate_limiter.observe,
            transport=EmulatorTransport(self._emulator, sleep=self._virtual.sleep),
        )


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Let checkpoints come in for an hour; Holdfast has ten minutes more, a loop ends when it is refused."""
    offered = 2_000 if is_quick else 10_000
    carried: dict[str, float] = {
        PYGITHUB: _loop(workshop.memory_folder(), PYGITHUB),
        GITHUBKIT: _loop(workshop.memory_folder(), GITHUBKIT),
    }
    for name in (CONTENTS, COMMIT):
        carried[name] = _holdfast(workshop.memory_folder(), name, offered, report)
    report.add_values(
        carried, section=NAME, work=WORK, name="checkpoints an hour", unit="", baseline=PYGITHUB
    )
    if is_quick:
        report.notes.append(f"--quick offered {offered:,} checkpoints in the hour, not 10,000")
        return
    for name in (CONTENTS, COMMIT):
        ratio = carried[name] / carried[PYGITHUB]
        promise = f"checkpoints an hour on one token, beside the PyGithub loop's, {name.split()[1]} mode"
        report.bars.append(Bar(NAME, promise, ratio, 60, "times", is_minimum=True))


def _loop(root: Path, name: str) -> int:
    """Return how many checkpoints a plain loop stores before it is refused one, coming every 7.2 seconds."""
    clock = ArrivalClock()
    emulator = Emulator(EmulatorOptions(root=root, repo=REPOSITORY, clock=clock.now, **LIMITS))
    emulator.faults.add(Rule(Delay(NETWORK_S)))
    state = make_state("5 KB")
    stored = 0
    with EmulatorServer(emulator, sleep=clock.sleep) as server:
        make = PyGithubLoop if name == PYGITHUB else GithubkitLoop
        peer = make(server.url, REPOSITORY, TOKEN)
        try:
            for number in range(500):
                clock.sleep(number * HOUR_S / 500 - clock.elapsed_s)
                peer.save(f"run-{number % RUNS}", 1 + number // RUNS, state)
                stored += 1
        except (GithubException, RequestFailed):
            pass
        finally:
            peer.close()
    emulator.close()
    return stored


def _holdfast(folder: Path, name: str, offered: int, report: Report) -> int:
    """Return how many checkpoints Holdfast has verified ten minutes after the hour, if none was refused."""
    clock = ArrivalClock()
    options = EmulatorOptions(root=folder / "github", repo=REPOSITORY, clock=clock.now, **LIMITS)
    emulator = Emulator(options)
    emulator.faults.add(Rule(Delay(NETWORK_S)))
    real_limits = {"write_interval_s": 1.0, "content_per_minute": 80, "content_per_hour": 500}
    settings = holdfast_settings(name, "http://github.invalid", folder / "data", **real_limits)
    assembly = _Joined(settings, clock, emulator)
    started = time.perf_counter()
    with Holdfast(settings, assembly=assembly) as holdfast:
        acknowledged, verified, last_s = _drain_as_they_come(holdfast, assembly, clock, offered)
    statuses = Counter(emulator.journal.by_status)
    emulator.close()
    # GraphQL says in a 200 that a limit is reached, so the emulator's own count decides.
    limited = emulator.limits.primary_refusals + emulator.limits.secondary_refusals
    refusals = max(limited, statuses[403] + statuses[429])
    promise = f"{offered:,} in an hour, {name.split()[1]} mode"
    report.bars += [
        Bar(NAME, f"{promise}: acknowledged at once", acknowledged, offered, is_minimum=True),
        Bar(NAME, f"{promise}: verified ten minutes later", verified, offered, is_minimum=True),
        Bar(NAME, f"{promise}: refusals (403, 429)", refusals, 0),
    ]
    figures = {
        "requests": statuses.total() / offered,
        "last verified after the hour": last_s - HOUR_S,
        "real time it took": time.perf_counter() - started,
    }
    units = {"requests": ""}
    for figure, value in figures.items():
        report.add_values(
            {name: value}, section=NAME, work=WORK, name=figure, unit=units.get(figure, "s"), baseline=""
        )
    return verified if not refusals else 0


def _drain_as_they_come(
    holdfast: Holdfast, assembly: Assembly, clock: ArrivalClock, offered: int
) -> tuple[int, int, float]:
    """Return how many were acknowledged, how many verified in time, and when the last one was."""
    state = make_state("5 KB")
    acknowledged: list[str] = []

    def arrive(number: int) -> Arrival:
        def save() -> None:
            receipt = holdfast.save(f"run-{number % RUNS}", state, phase="phase_1_plan")
            acknowledged.append(receipt.checkpoint_id)

        return Arrival(number * HOUR_S / offered, save)

    clock.expect(arrive(number) for number in range(offered))
    verified = 0
    while not clock.is_quiet:
        clock.sleep_to_arrival()
        timeout_s = HOUR_S + GRACE_S - clock.elapsed_s
        verified += assembly.worker.drain(timeout_s=timeout_s, is_paced=True).verified
    return len(acknowledged), verified, clock.elapsed_s
