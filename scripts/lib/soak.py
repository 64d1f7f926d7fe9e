"""Plays random fault schedules on all cores, then kills processes at work, and says what was survived."""

import argparse
import logging
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TypeVar

import structlog

from tests.soak.cleaning import Seen
from tests.soak.forks import fork_often
from tests.soak.kills import kill_often
from tests.soak.limits import Held, try_limits
from tests.soak.parts import play_parts
from tests.soak.play import Tally
from tests.soak.rotations import CHECKPOINTS, RUNS, play_rotation
from tests.soak.share import Share, TallyT, play_cleaning_share, play_share

SCHEDULES_PER_SHARE = 25
_ROUNDS_PER_SHARE = 20

_PLAYED_BY_DEFAULT = ("schedules", "sweeps", "parts", "limits", "kills", "forks")

ResultT = TypeVar("ResultT")
PlayShare = Callable[[int, int], Share[TallyT]]


def main() -> int:
    arguments = _parse_arguments()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    print(f"soak: seed {arguments.seed}, {os.cpu_count()} cores", flush=True)
    began = time.monotonic()
    deadline = began + arguments.minutes * 60 if arguments.minutes else float("inf")
    written, failures = _play("schedules", play_share, Tally(), arguments, deadline)
    cleaned, more = _play("sweeps", play_cleaning_share, Seen(), arguments, deadline)
    failures += more
    if written.schedules:
        print(_describe_written(written), flush=True)
    if cleaned.schedules:
        print(_describe_cleaned(cleaned), flush=True)
    failures += _play_shared(arguments, deadline)
    failures += _play_parts(arguments.parts, arguments.seed)
    failures += _play_limits(arguments.limits, arguments.seed)
    survived, failure = _survive(kill_often, arguments.kills, arguments.seed, "kills")
    if failure:
        failures.append(_repeatable(failure, kills=arguments.kills, seed=arguments.seed))
    if survived:
        print(
            f"{survived.kills} SIGKILLs with {len(survived.acknowledged)} acknowledged checkpoints survived"
        )
    forked, failure = _survive(fork_often, arguments.forks, arguments.seed, "forks")
    if failure:
        failures.append(_repeatable(failure, forks=arguments.forks, seed=arguments.seed))
    if forked:
        print(
            f"{forked.plays} programs that fork survived, with {forked.kills} SIGKILLs and "
            f"{len(forked.acknowledged)} acknowledged checkpoints"
        )
    if arguments.claims:
        failures += _play_claims(arguments.claims, arguments.seed, arguments.judge)
    if arguments.claim_kills:
        failures += _kill_claimers(arguments.claim_kills, arguments.seed, arguments.judge)
    failures += _rotate(arguments.rotations, arguments.seed)
    if arguments.replicas:
        failures += _kill_replicas(arguments.replicas, arguments.seed)
    for failure in failures:
        print(f"\nFAILED\n{failure}")
    return 1 if failures else 0


def _describe_written(total: Tally) -> str:
    return (
        f"{total.schedules} schedules survived, with {total.submits} submits, {total.requests} requests, "
        f"{total.faults} faults, {total.crashes} crashes, and {total.commits} commits looked into"
    )


def _describe_cleaned(total: Seen) -> str:
    return (
        f"{total.schedules} schedules of cleanup survived, with {total.submits} submits, {total.resumes} "
        f"resumes, {total.crashes} crashes, {total.sweeps} commits of retention, {total.squashes} squashes, "
        f"and {total.states} states of the branch looked into"
    )


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--schedules", type=int, default=5000, help="how many schedules (default: 5000)")
    parser.add_argument("--sweeps", type=int, default=500, help="how many with cleanup (default: 500)")
    parser.add_argument("--parts", type=int, default=200, help="how many with parts (default: 200)")
    parser.add_argument(
        "--limits", type=int, default=100, help="how many with clocks apart and limits (default: 100)"
    )
    parser.add_argument(
        "--shared", type=int, default=0, help="how many schedules over one PostgreSQL queue (default: 0)"
    )
    parser.add_argument("--minutes", type=float, help="begin no more schedules after this long")
    parser.add_argument("--kills", type=int, default=200, help="how many SIGKILLs (default: 200)")
    parser.add_argument("--forks", type=int, default=60, help="how many programs that fork (default: 60)")
    parser.add_argument("--claims", type=int, default=0, help="how many rounds of 8 claimers (default: 0)")
    parser.add_argument(
        "--claim-kills", type=int, default=0, help="how many rounds of 8 processes that claim (default: 0)"
    )
    parser.add_argument(
        "--judge", choices=("github", "postgres"), default="github", help="who decides about claims"
    )
    parser.add_argument("--replicas", type=int, default=0, help="how many SIGKILLs of replicas (default: 0)")
    parser.add_argument("--rotations", type=int, default=0, help="how many new keys, with kills (default: 0)")
    parser.add_argument("--seed", type=int, help="where the random numbers begin (default: anywhere)")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(1_000_000_000)
    return arguments


def _play(
    kind: str, play: PlayShare[TallyT], total: TallyT, arguments: argparse.Namespace, deadline: float
) -> tuple[TallyT, list[str]]:
    """Play all schedules of a kind; return what they had in them, and the failures: the first ends it."""
    failures = []
    wanted, began = getattr(arguments, kind), time.monotonic()
    for share in _shares(play, wanted, arguments.seed, deadline):
        total += share.tally
        if share.failure:
            wanted_again = {kind: SCHEDULES_PER_SHARE, "seed": share.seed}
            failures.append(_repeatable(share.failure, **wanted_again))
        _show(f"{total.schedules} of {wanted} {kind}, {time.monotonic() - began:.0f} s")
    _show("\n")
    return total, failures


def _shares(play: PlayShare[TallyT], schedules: int, seed: int, deadline: float) -> Iterator[Share[TallyT]]:
    """Yield the shares as they are done; after the deadline, or a failure, no more are begun."""
    sizes = [SCHEDULES_PER_SHARE] * (schedules // SCHEDULES_PER_SHARE)
    sizes += [schedules % SCHEDULES_PER_SHARE] if schedules % SCHEDULES_PER_SHARE else []
    waiting = [(seed + number, size) for number, size in enumerate(sizes)][::-1]
    cores = os.cpu_count() or 1
    has_failed = False
    # A spawned process has nothing of ours in it, and a share has threads of its own.
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        running: set[Future[Share[TallyT]]] = set()
        while True:
            while waiting and len(running) < cores and time.monotonic() < deadline and not has_failed:
                running.add(pool.submit(play, *waiting.pop()))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                share = future.result()
                has_failed = has_failed or bool(share.failure)
                yield share


def _play_shared(arguments: argparse.Namespace, deadline: float) -> list[str]:
    """Play schedules over one queue in a PostgreSQL of their own, and say what was survived."""
    from tests.fakes.postgres import PostgresServer
    from tests.soak.share import play_shared_share

    if not arguments.shared:
        return []
    server = PostgresServer()
    try:
        play = partial(play_shared_share, server.url)
        total, failures = _play("shared", play, Tally(), arguments, deadline)
    finally:
        server.close()
    print(f"over one PostgreSQL queue, {total.freezes} freezes: {_describe_written(total)}", flush=True)
    return failures


def _play_parts(schedules: int, seed: int) -> list[str]:
    """Play schedules with members that are stored once; return how the first failed, if one did."""
    left = 0
    for number in range(seed, seed + schedules):
        try:
            left += play_parts(number)
        except AssertionError as error:
            return [_repeatable(error, parts=1, seed=number)]
        _show(f"{number - seed + 1} of {schedules} schedules with parts")
    if schedules:
        print(f"\n{schedules} schedules with parts survived, and {left} checkpoints of them were whole")
    return []


def _play_limits(schedules: int, seed: int) -> list[str]:
    """Play schedules of machines whose clocks are apart on all cores; return how some failed, if any did."""
    total, failures = Held(), []
    with ProcessPoolExecutor(os.cpu_count() or 1, mp_context=get_context("spawn")) as pool:
        for number, held, failure in pool.map(try_limits, range(seed, seed + schedules)):
            total.add(held)
            if failure:
                failures.append(_repeatable(failure, limits=1, seed=number))
            _show(f"{number - seed + 1} of {schedules} schedules with clocks apart")
    if total.schedules:
        print(
            f"\n{total.schedules} schedules with clocks apart survived, with {total.submits} submits, "
            f"{total.crashes} crashes and {total.sweeps} commits of retention; after the last clean-up a run "
            f"held {total.most_after} checkpoints at most"
        )
    return failures


def _play_claims(rounds: int, seed: int, judge: str) -> list[str]:
    """Play rounds of claimers of one run on all cores, say what was survived; return how some failed."""
    from tests.soak.claims import ClaimTally, try_claims

    sizes = [min(_ROUNDS_PER_SHARE, rounds - done) for done in range(0, rounds, _ROUNDS_PER_SHARE)]
    seeds = range(seed, seed + len(sizes))
    total, failures = ClaimTally(), []
    cores = os.cpu_count() or 1
    with _judging(judge) as database, ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        play = partial(try_claims, database=database)
        for number, size, (tally, failure) in zip(seeds, sizes, pool.map(play, seeds, sizes), strict=True):
            total += tally
            if failure:
                failures.append(_repeatable(failure, claims=size, judge=judge, seed=number))
            _show(f"{total.rounds} of {rounds} rounds of claimers")
    print(
        f"\n{total.rounds} rounds of claimers survived: {total.tenures} claims, {total.kills} kills, "
        f"{total.freezes} freezes, {total.faults} faults, {total.saves} saves, {total.fenced} fenced, "
        f"{total.set_aside} set aside; never two at a time, nobody for {total.longest_gap_s:.1f} s at most"
    )
    return failures


def _kill_claimers(rounds: int, seed: int, judge: str) -> list[str]:
    """Play rounds of processes that claim one run and say what was survived; return how it failed."""
    from tests.soak.claim_kills import TTL_S, kill_claimers

    try:
        with _judging(judge) as database:
            tally = kill_claimers(rounds, seed, _show, database=database)
    except AssertionError as error:
        return [_repeatable(error, claim_kills=rounds, judge=judge, seed=seed)]
    print(
        f"\n{tally.rounds} rounds of processes survived: {tally.tenures} claims, {tally.kills} SIGKILLs, "
        f"{tally.stops} SIGSTOPs, {tally.saves} saves, {tally.fenced} fenced, {tally.set_aside} set aside; "
        f"never two at a time, nobody for {tally.longest_gap_s:.1f} s at most, with claims of {TTL_S:.0f} s; "
        f"the machine itself came to a halt for {tally.longest_halt_s:.1f} s at most, "
        f"for {tally.most_lost_s:.1f} s in a gap that was too long"
    )
    return []


@contextmanager
def _judging(judge: str) -> Iterator[str]:
    """Yield the address of the database that judges; none if GitHub does."""
    if judge == "github":
        yield ""
        return
    from tests.fakes.postgres import PostgresServer

    server = PostgresServer()
    try:
        yield server.url
    finally:
        server.close()


def _survive(
    play: Callable[[Path, int, int, Callable[[], None]], ResultT], rounds: int, seed: int, what: str
) -> tuple[ResultT | None, str]:
    """Play so many rounds and return what was survived, if it was, and how it failed."""
    if not rounds:
        return None, ""
    counted = count(1)
    # On a real disk, if the temporary folder is on one: this is about processes, not about speed.
    with TemporaryDirectory() as folder:
        try:
            return play(Path(folder), rounds, seed, lambda: _show(f"{next(counted)} of {rounds} {what}")), ""
        except AssertionError as error:
            return None, str(error)
        finally:
            print()


def _rotate(plays: int, seed: int) -> list[str]:
    """Seal runs with a new key, killed over and over, and say what was survived; return how it failed."""
    kills = 0
    for number in range(seed, seed + plays):
        with TemporaryDirectory() as folder:
            try:
                kills += play_rotation(Path(folder), number)
            except AssertionError as error:
                return [_repeatable(error, rotations=1, seed=number)]
        _show(f"{number - seed + 1} of {plays} rotations, {kills} kills")
    if plays:
        kept = plays * RUNS * CHECKPOINTS
        print(
            f"\n{plays} rotations of keys survived, with {kills} SIGKILLs: of {kept} checkpoints none is lost"
        )
    return []


def _kill_replicas(kills: int, seed: int) -> list[str]:
    """Kill replicas of a shared queue and say what was survived; return how it failed."""
    from tests.fakes.postgres import PostgresServer
    from tests.soak.replica_kills import kill_replicas

    counted, server = count(1), PostgresServer(is_durable=True)
    try:
        with TemporaryDirectory() as folder:
            result = kill_replicas(
                Path(folder),
                server.url,
                kills,
                seed,
                lambda: _show(f"{next(counted)} hits, {kills} kills wanted"),
            )
    except AssertionError as error:
        return [_repeatable(error, replicas=kills, seed=seed)]
    finally:
        server.close()
    acknowledged = sum(map(len, result.acknowledged.values()))
    took_s = sorted(result.take_overs) or [0.0]
    print(
        f"{result.kills} SIGKILLs and {result.freezes} SIGSTOPs of replicas with {acknowledged} acknowledged "
        f"checkpoints survived, {len(result.take_overs)} take-overs of {median(took_s):.1f} s, "
        f"{took_s[-1]:.1f} s at most"
    )
    return []


def _repeatable(failure: object, **wanted: object) -> str:
    """Return how it failed, and the command that plays this again and nothing else."""
    options = dict.fromkeys(_PLAYED_BY_DEFAULT, 0) | wanted
    again = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in options.items())
    return f"{failure}\nRepeat it with: scripts/soak {again}"


def _show(text: str) -> None:
    """Show how far it is, on a line that is written over."""
    if sys.stdout.isatty():
        print(f"\r{text}", end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
