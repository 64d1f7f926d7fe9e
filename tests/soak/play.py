"""Plays a schedule in a world of its own and judges the outcome."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import structlog

from holdfast.emulator import Emulator, EmulatorOptions, Request, parse_fault
from holdfast.format.checkpoint import Draft, draft_from_mapping, draft_from_text
from holdfast.format.moments import format_moment
from holdfast.queue import Queue
from holdfast.queue.postgres import lease
from holdfast.queue.transfer import export_spool, import_spool
from tests.soak.machines import (
    BRANCH,
    MAX_FILE_BYTES,
    Doom,
    DoomedDatabase,
    Killed,
    Workplace,
    count_event,
    open_shared_spool,
    open_spool,
)
from tests.soak.schedules import Call, Drain, Exhaust, Machine, Schedule, Stranger, Submit, Transfer
from tests.soak.simulation import Simulation
from tests.soak.verdict import (
    Acknowledged,
    check_history,
    check_order,
    check_receipts,
    check_repository,
)

TRIGGERS = ("manual", "error", "phase_complete", "iteration")
TICK_S = 0.001
LONG_S = 4000.0  # an hour and more: a deletion may have waited for the limits of this one
ENOUGH_S = 30 * 24 * 3600.0
REPOSITORY = "holdfast/checkpoints"
SECRET = "a-secret-that-github-knows"


@dataclass(frozen=True)
class Tally:
    """How much a play had in it."""

    schedules: int = 0
    submits: int = 0
    requests: int = 0
    faults: int = 0
    crashes: int = 0
    commits: int = 0
    freezes: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.schedules + other.schedules,
            self.submits + other.submits,
            self.requests + other.requests,
            self.faults + other.faults,
            self.crashes + other.crashes,
            self.commits + other.commits,
            self.freezes + other.freezes,
        )


def play(schedule: Schedule, folder: Path, *, database_url: str | None = None) -> Tally:
    """Play a schedule in `folder` to its end and return what it had in it. Raises AssertionError.

    With `database_url`, an empty schema of a PostgreSQL, all machines share the queue and the budget there.
    """
    configured = structlog.get_config()
    structlog.configure(processors=[count_event])
    stage = _Stage(schedule, folder, database_url)
    try:
        # A lease goes by the clock of the server, which knows nothing of ours: only a freeze ends it here.
        with patch.multiple(lease, LEASE_S=1e6, RENEW_EVERY_S=1e6):
            stage.play()
        return stage.judge()
    finally:
        stage.close()
        structlog.configure(**configured)


class _Stage:
    def __init__(self, schedule: Schedule, folder: Path, database_url: str | None) -> None:
        self._schedule = schedule
        self._folder = folder
        self._world = Simulation()
        self._emulator = Emulator(
            EmulatorOptions(root=folder / "github", repo=REPOSITORY, clock=self._world.now)
        )
        self._emulator.switch(secret_marker=SECRET)
        self._workplaces = [
            Workplace(
                folder / f"machine-{number}",
                self._emulator,
                self._world,
                machine.budget,
                schedule.pace + number,
                database_url,
            )
            for number, machine in enumerate(schedule.machines)
        ]
        self._database = DoomedDatabase(database_url) if database_url else None
        self._spools: list[Queue] = [self._open_spool(place.folder) for place in self._workplaces]
        self._acknowledged: list[Acknowledged] = []
        self._crashes = 0
        self._strangers = 0
        self._exports = 0

    @property
    def _repository(self) -> Path:
        return self._folder / "github" / f"{REPOSITORY}.git"

    def _open_spool(self, folder: Path) -> Queue:
        if self._database:
            return open_shared_spool(folder, self._world, self._database)
        return open_spool(folder, self._world)

    def close(self) -> None:
        for workplace in self._workplaces:
            workplace.end()
        for spool in self._spools:
            spool.close()
        if self._database:
            self._database.close()
        self._emulator.close()

    def play(self) -> None:
        """Play what the schedule says; then, without faults, let everyone finish."""
        for fault in self._schedule.faults:
            self._emulator.faults.add(parse_fault(fault))
        programs: dict[str, Callable[[], None]] = {"callers": self._call_all}
        for number, machine in enumerate(self._schedule.machines):
            programs[f"machine-{number}"] = self._program(number, machine)
        self._world.run(programs)
        self._faults = sum(armed.fired for armed in self._emulator.faults.rules)
        self._emulator.faults.clear()
        self._finish()
        self._world.sleep(LONG_S)  # whatever GitHub still had under way lands with the next request
        self._write_as_stranger()
        self._finish()

    def _program(self, number: int, machine: Machine) -> Callable[[], None]:
        def program() -> None:
            for drain in machine.drains:
                self._world.sleep(drain.after_s)
                self._workplaces[number].drain(drain)

        return program

    def _finish(self) -> None:
        modes = [
            machine.drains[-1].mode if machine.drains else "contents" for machine in self._schedule.machines
        ]
        last = [Machine(drains=(Drain(mode, timeout_s=ENOUGH_S),)) for mode in modes]
        self._world.run(
            {f"machine-{number}": self._program(number, machine) for number, machine in enumerate(last)}
        )

    def _call_all(self) -> None:
        for call in self._schedule.calls:
            self._world.sleep(call.after_s + TICK_S)
            self._call(call)

    def _call(self, call: Call) -> None:
        match call:
            case Submit():
                self._submit(call)
            case Transfer():
                self._transfer(call)
            case Stranger():
                self._write_as_stranger()
            case Exhaust():
                options, now = self._emulator.options, self._world.now()
                self._emulator.limits.spend_primary(options, now, call.resource, call.remaining)

    def _submit(self, call: Submit) -> None:
        draft, state = self._draft(call)
        is_certain = True
        Doom(call.dies)
        try:
            self._spools[call.machine].put(draft)
        except Killed:
            self._crashes += 1
            is_certain = False
        finally:
            Doom(None)
        self._acknowledged.append(
            Acknowledged(
                self._keeper(call.machine),
                draft.run_id,
                draft.checkpoint_id,
                state,
                call.number is None,
                is_certain,
                is_refused=SECRET in state["text"],
            )
        )

    def _keeper(self, machine: int) -> int:
        """Return whose queue it is: a shared one keeps the order of what came to any of the machines."""
        return 0 if self._database else machine

    def _draft(self, call: Submit) -> tuple[Draft, dict[str, Any]]:
        number = call.checkpoint
        state = {"checkpoint": number, "text": _text_of(number)}
        checkpoint = {
            "checkpoint_id": str(UUID(int=random.Random(number).getrandbits(128), version=4)),
            "run_id": "run-b" if number % 3 == 2 else "run-a",
            "trigger": TRIGGERS[number // 3 % len(TRIGGERS)],
            "sequence_number": call.number,
            "state": state,
        }
        return draft_from_mapping(checkpoint, now=format_moment(self._world.now()), new_id=str), state

    def _transfer(self, call: Transfer) -> None:
        self._exports += 1
        folder = self._folder / f"export-{self._exports}"
        now = format_moment(self._world.now())
        export_spool(self._spools[call.source], folder)
        report = import_spool(
            self._spools[call.target], folder, lambda body: draft_from_text(body, now=now, new_id=str)
        )
        assert not report.damaged
        assert not report.refused
        known = {each.checkpoint_id: each for each in self._acknowledged}
        self._acknowledged += [
            replace(known[identity], machine=self._keeper(call.target), is_automatic=True, is_certain=True)
            for identity in (*report.taken, *report.known)
        ]

    def _write_as_stranger(self) -> None:
        self._strangers += 1
        body = b'{"message":"A note","content":"bm90ZQ==","branch":"%s"}' % BRANCH.encode()
        target = f"/repos/{REPOSITORY}/contents/notes/{self._strangers}.txt"
        headers = {"user-agent": "someone-else", "authorization": "token theirs"}
        self._emulator.handle(Request.from_target("PUT", target, headers, body))

    def judge(self) -> Tally:
        """Return what the play had in it. Raises AssertionError if it ended badly."""
        entries = check_repository(self._repository, self._acknowledged)
        check_receipts(self._spools, self._acknowledged, entries, self._repository)
        check_order(self._acknowledged, entries)
        commits = check_history(self._repository)
        for workplace in self._workplaces:
            assert not workplace.line.too_early, f"asked while limited: {workplace.line.too_early}"
        return Tally(
            schedules=1,
            submits=len(self._acknowledged),
            requests=len(self._emulator.journal),
            faults=self._faults,
            crashes=self._crashes + sum(workplace.crashes for workplace in self._workplaces),
            commits=commits,
            freezes=sum(workplace.freezes for workplace in self._workplaces),
        )


def _text_of(number: int) -> str:
    """Return a text of its own for each checkpoint: some are too long for one file, some hold a secret."""
    secret = SECRET if number % 13 in (1, 12) else ""
    return secret + "x" * (number + (2 * MAX_FILE_BYTES if number % 7 == 6 else 0))
