"""What the demo shows and checks: save, drain, look, crash, recover.

Its example is a workflow of phases whose circuit breaker trips while it builds.
"""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any
from uuid import uuid4

import orjson

from holdfast.cli.demo.processes import COMMITS_BEFORE_KILL, BareRepository, kill_while_draining
from holdfast.cli.drain import drain
from holdfast.cli.runs import print_checkpoints, print_runs
from holdfast.format.receipt import Receipt
from holdfast.presentation.render import Screen, format_count
from holdfast.presentation.session import Session, open_with
from holdfast.settings import EMBEDDED_REPOSITORY, Settings

CRASH_CHECKPOINTS = 24


@dataclass(frozen=True, slots=True)
class Moment:
    """What one checkpoint of the example is saved with."""

    trigger: str
    phase: str
    state: dict[str, Any]
    status: str = "in_progress"


_PLAN = {"phase_1_plan": {"goal": "a landing page", "tasks": 7}}
_DESIGN = {**_PLAN, "phase_2_design": {"pages": ["home", "pricing"], "palette": ["#0b3954", "#ff6663"]}}
_GATE = {"gate_id": "design_review", "decision": "approve", "score": 0.93, "iteration": 1}

EXAMPLE = (
    Moment("phase_complete", "phase_1_plan", {"phase_outputs": _PLAN, "cost_accumulated": 0.12}),
    Moment(
        "gate_decision",
        "phase_2_design",
        {"phase_outputs": _PLAN, "gate_history": [_GATE], "cost_accumulated": 0.31},
    ),
    Moment(
        "phase_complete",
        "phase_2_design",
        {"phase_outputs": _DESIGN, "gate_history": [_GATE], "cost_accumulated": 0.44},
    ),
    Moment(
        "iteration",
        "phase_3_build",
        {
            "phase_outputs": _DESIGN,
            "current_phase_state": {"phase": "phase_3_build", "progress": {"files_done": 3, "files": 11}},
            "gate_history": [_GATE],
            "cost_accumulated": 1.07,
        },
    ),
    Moment(
        "circuit_breaker",
        "phase_3_build",
        {
            "phase_outputs": _DESIGN,
            "current_phase_state": {"phase": "phase_3_build", "progress": {"files_done": 4, "files": 11}},
            "gate_history": [_GATE],
            "circuit_breaker_state": {
                "is_open": True,
                "failures": 3,
                "reason": "the build failed three times",
            },
            "errors_encountered": [{"phase": "phase_3_build", "message": "npm exited with 1"}],
            "cost_accumulated": 1.19,
        },
        status="interrupted",
    ),
)


def crash_moment(number: int) -> Moment:
    """Return the checkpoint of that number, from 1 on, of the run whose draining process is killed."""
    progress = {"files_done": number, "files": CRASH_CHECKPOINTS}
    return Moment(
        "iteration",
        "phase_3_build",
        {
            "current_phase_state": {"phase": "phase_3_build", "progress": progress},
            "cost_accumulated": number / 8,
        },
    )


@dataclass(frozen=True, slots=True)
class _SavedMoment:
    """A checkpoint that was acknowledged, what it was saved with, and how long that took."""

    receipt: Receipt
    moment: Moment
    elapsed_ms: float


@dataclass
class Demo:
    """One showing, and what it found out."""

    settings: Settings
    screen: Screen
    promises: dict[str, bool] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        mark = uuid4().hex[:6]
        self._run, self._crash_run = f"demo-{mark}", f"demo-{mark}-crash"
        self._began = perf_counter()

    @property
    def is_kept(self) -> bool:
        """Whether every promise was kept so far."""
        return all(self.promises.values())

    def summary(self) -> dict[str, Any]:
        """Return what was found out, for machines."""
        return {
            "ok": self.is_kept,
            "data_dir": str(self.settings.data_dir),
            "repository": str(self._repository.folder),
            "runs": [self._run, self._crash_run],
            **self.numbers,
            "promises": [{"promise": promise, "ok": is_kept} for promise, is_kept in self.promises.items()],
            "elapsed_s": round(perf_counter() - self._began, 3),
        }

    def show(self) -> None:
        """Show everything, in order."""
        self._introduce()
        with open_with(self.settings) as session:
            saved = self._save(session)
            self._drain(session, saved)
            self._look(session, saved)
            acknowledged = self._prepare_crash(session)
        self._crash()
        with open_with(self.settings) as session:
            self._recover(session, acknowledged)
        self._conclude()

    def _introduce(self) -> None:
        self.screen.say("Holdfast keeps workflow checkpoints in a GitHub repository.", style="bold")
        self.screen.say(
            "This demo plays GitHub itself, on loopback over a bare git repository: no token, no network."
        )
        self.screen.say(
            "It saves an example run, drains it, looks at the result, then kills a drain and recovers."
        )
        self.screen.say(f"Everything happens in {self.settings.data_dir}")

    def _save(self, session: Session) -> list[_SavedMoment]:
        self._title("1. Save: each checkpoint is answered as soon as it is safe on disk")
        depth_before = len(session.assembly.spool.pending())
        saved = [self._save_one(session, self._run, moment) for moment in EXAMPLE]
        rows = [
            (
                str(each.receipt.sequence_number),
                each.moment.phase,
                each.moment.trigger,
                each.receipt.status,
                f"{each.elapsed_ms:.1f} ms",
            )
            for each in saved
        ]
        self.screen.table(
            ("#", "phase", "trigger", "receipt", "answered in"), rows, right=("#", "answered in")
        )
        self.numbers["saved"] = len(saved)
        self.numbers["acknowledged_ms_median"] = round(median(each.elapsed_ms for each in saved), 2)
        depth = session.holdfast.status()["spool"]["depth"]
        self._promise("every acknowledged checkpoint is in the spool", depth == depth_before + len(saved))
        return saved

    def _save_one(self, session: Session, run_id: str, moment: Moment) -> _SavedMoment:
        began = perf_counter()
        receipt = session.holdfast.save(
            run_id,
            moment.state,
            trigger=moment.trigger,
            phase=moment.phase,
            status=moment.status,
            workflow="landing-page",
        )
        return _SavedMoment(receipt, moment, (perf_counter() - began) * 1000)

    def _drain(self, session: Session, saved: list[_SavedMoment]) -> None:
        self._title("2. Drain: written to the repository, read back, indexed")
        began = perf_counter()
        result = drain(session, self.screen)
        calls = session.holdfast.status()["budget"]["calls_this_run"]
        self.numbers |= {"drained": result.verified, "requests": calls}
        spent = f"{format_count(calls, 'request')} in {perf_counter() - began:.2f} s"
        self.screen.say(f"{format_count(result.verified)} verified with {spent}; {result.left:,} left.")
        self._promise("every checkpoint is verified in the repository", _all_verified(session, saved))

    def _look(self, session: Session, saved: list[_SavedMoment]) -> None:
        self._title("3. Look: with Holdfast")
        if not self.screen.is_json:
            self.screen.say(self._command("runs"), style="dim")
            print_runs(session.holdfast.runs(), self.screen)
            self.screen.say(self._command("list", self._run), style="dim")
            print_checkpoints(session.holdfast.checkpoints(self._run), session, self.screen)
        self._promise("what is read back is what was saved", _all_read_back(session, self._run, saved))
        self._title("   and with plain git")
        for command in (
            ("log", "--oneline", "--max-count=6", session.settings.branch),
            ("show", "--stat", "--oneline", session.settings.branch),
        ):
            self.screen.say(self._repository.spell(*command), style="dim")
            for line in self._repository.run(*command).splitlines():
                self.screen.say(f"  {line}")
        self._check_latest(self._run, saved)

    def _prepare_crash(self, session: Session) -> list[_SavedMoment]:
        self._title("4. Crash: the draining process is killed in the middle (SIGKILL)")
        numbers = range(1, CRASH_CHECKPOINTS + 1)
        saved = [self._save_one(session, self._crash_run, crash_moment(number)) for number in numbers]
        self.screen.say(f"{format_count(len(saved))} acknowledged; now another process drains them.")
        return saved

    def _crash(self) -> None:
        head = self._repository.folder / "refs" / "heads" / self.settings.branch
        # In commit mode everything is one commit, so that there is only the moment after it.
        commits = 1 if self.settings.write_mode == "commit" else COMMITS_BEFORE_KILL
        is_killed = kill_while_draining(
            self.settings.data_dir, head, write_mode=self.settings.write_mode, commits=commits
        )
        self.numbers["killed"] = is_killed
        killed = f"It was killed after its first {format_count(commits, 'commit')}."
        self.screen.say(killed if is_killed else "It was done before the signal reached it.")

    def _recover(self, session: Session, saved: list[_SavedMoment]) -> None:
        left = session.holdfast.status()["spool"]["depth"]
        self.screen.say(
            f"After the crash {format_count(left)} of {len(saved)} still in the spool. Draining again…"
        )
        result = drain(session, self.screen)
        self.screen.say(f"{format_count(result.verified)} verified, {result.left:,} left.")
        self.numbers |= {"acknowledged_before_crash": len(saved), "spooled_after_crash": left}
        listed = [entry.checkpoint_id for entry in session.holdfast.checkpoints(self._crash_run).entries]
        acknowledged = [each.receipt.checkpoint_id for each in saved]
        self._promise(
            "every acknowledged checkpoint is there exactly once", sorted(listed) == sorted(acknowledged)
        )
        self._promise("every one of them is verified", _all_verified(session, saved) and not result.left)
        self._promise("and holds what was saved", _all_read_back(session, self._crash_run, saved))
        self._check_latest(self._crash_run, saved)

    def _check_latest(self, run_id: str, saved: list[_SavedMoment]) -> None:
        """Check with plain git, not with our own reader, that latest.json is the newest checkpoint."""
        path = f"{self.settings.base_path}/{run_id}/latest.json"
        text = self._repository.run("show", f"{self.settings.branch}:{path}")
        newest = orjson.loads(text or b"{}").get("checkpoint_id")
        self._promise(f"{path} is the newest checkpoint", newest == saved[-1].receipt.checkpoint_id)

    def _conclude(self) -> None:
        self._title("Next steps")
        self.screen.say(f"The folder is kept: {self.settings.data_dir}")
        self.screen.say("Save state of your own there, and look at it:")
        self.screen.say(
            f"  echo '{{\"answer\": 42}}' | {self._command('submit', '-', '--run-id', 'mine', '--wait')}"
        )
        self.screen.say(f"  {self._command('show', 'mine')}")
        self.screen.say(f"  {self._repository.spell('log', '--stat', self.settings.branch)}")
        self.screen.say(
            "With a repository of yours: HOLDFAST_REPO=owner/name and HOLDFAST_TOKEN; see holdfast config."
        )
        broken = [promise for promise, is_kept in self.promises.items() if not is_kept]
        if broken:
            self.screen.say(f"NOT as promised: {'; '.join(broken)}", style="bold red")
        else:
            elapsed = f"{perf_counter() - self._began:.1f} s"
            self.screen.say(
                f"All {len(self.promises)} promises were checked and kept, in {elapsed}.", style="bold green"
            )

    @property
    def _repository(self) -> BareRepository:
        return BareRepository(self.settings.data_dir / "github" / f"{EMBEDDED_REPOSITORY}.git")

    def _command(self, *words: str) -> str:
        return shlex.join(["holdfast", *words, "--data-dir", str(self.settings.data_dir)])

    def _promise(self, promise: str, is_kept: bool) -> None:
        self.promises[promise] = is_kept and self.promises.get(promise, True)
        self.screen.say(f"{'✓' if is_kept else '✗'} {promise}", style="green" if is_kept else "bold red")

    def _title(self, text: str) -> None:
        self.screen.say()
        self.screen.say(text, style="bold cyan")


def _all_verified(session: Session, saved: Iterable[_SavedMoment]) -> bool:
    receipts = [session.holdfast.receipt(each.receipt.checkpoint_id) for each in saved]
    return all(receipt is not None and receipt.status == "verified" for receipt in receipts)


def _all_read_back(session: Session, run_id: str, saved: Iterable[_SavedMoment]) -> bool:
    for each in saved:
        stored = session.holdfast.receipt(each.receipt.checkpoint_id) or each.receipt
        content = session.holdfast.checkpoint(run_id, stored.sequence_number).content
        if orjson.loads(content)["state_snapshot"] != each.moment.state:
            return False
    return True
