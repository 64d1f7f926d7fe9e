"""Checkpoints to put into a spool, spools to put them into, and processes to kill while they do it."""

import json
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import uuid4

from holdfast.clock import Clock
from holdfast.format.paths import Layout
from holdfast.format.triggers import Priority, Trigger
from holdfast.queue import QueueLimits, SqliteQueue
from tests.fakes.clock import VirtualClock
from tests.fakes.commands import ROOT, run_script


def new_id() -> str:
    return str(uuid4())


@dataclass
class FakeEntry:
    """A checkpoint whose body is its number and some content; counts how often that is made."""

    run_id: str = "build-1"
    checkpoint_id: str = field(default_factory=new_id)
    trigger: Trigger = Trigger.MANUAL
    priority: Priority = Priority.MEDIUM
    sequence: int | None = None
    fingerprint: str | None = None
    content: bytes = b"state"
    bodies_made: int = 0
    tells_fingerprint: bool = False

    def body(self, sequence: int) -> bytes:
        self.bodies_made += 1
        return b"%d:%s" % (sequence, self.content)

    def without_number(self) -> "FakeEntry":
        return replace(self, sequence=None)


class JsonEntry(FakeEntry):
    """A checkpoint whose body says what it is, as every real one does."""

    def body(self, sequence: int) -> bytes:
        fields = {
            "checkpoint_id": self.checkpoint_id,
            "run_id": self.run_id,
            "sequence_number": sequence,
            "trigger": str(self.trigger),
            "priority": str(self.priority),
            "state_snapshot": self.content.hex(),
        }
        return json.dumps(fields, separators=(",", ":")).encode()


def open_spool(folder: Path, *, clock: Clock | None = None, limits: QueueLimits | None = None) -> SqliteQueue:
    return SqliteQueue.open(
        folder,
        limits=limits or QueueLimits(min_free_bytes=0),
        clock=clock or VirtualClock(),
        layout=Layout(),
    )


def start_python(script: str, *arguments: str) -> "subprocess.Popen[str]":
    """Start a script in a process of its own, where `holdfast` and `tests` can be imported."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run_python(script: str, *arguments: str) -> str:
    """Run a script to its end and return what it printed."""
    ended = run_script(script, *arguments)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode()
