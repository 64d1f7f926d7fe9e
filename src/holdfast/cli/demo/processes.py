"""The demo's other processes: a drain that is killed in the middle, and plain git.

What git finds in the bare repository owes nothing to Holdfast.
"""

import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from holdfast.presentation.exits import CommandFailed

COMMITS_BEFORE_KILL = 3

_LONGEST_DRAIN_S = 30.0
_GLANCE_S = 0.002
# Slows the child down, so that the kill falls between two of its writes.
_WRITE_INTERVAL_S = "0.2"


@dataclass(frozen=True, slots=True)
class BareRepository:
    """A bare repository, looked at with the git of this machine."""

    folder: Path

    def spell(self, *words: str) -> str:
        """Return a git command as one would type it."""
        return shlex.join(self._command(words))

    def run(self, *words: str) -> str:
        """Return what a git command prints. Raises CommandFailed if there is no git, or it refuses."""
        try:
            ended = subprocess.run(  # noqa: S603 - our own words, and no shell
                self._command(words),
                env={**os.environ, "GIT_PAGER": "cat", "GIT_CONFIG_NOSYSTEM": "1"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=60,
                check=True,
            )
        except FileNotFoundError as error:
            raise CommandFailed(
                "the demo looks at its result with git, which is not installed; install it"
            ) from error
        except subprocess.CalledProcessError as error:
            reason = error.stderr.decode(errors="replace").strip()
            raise CommandFailed(f"{self.spell(*words)} failed: {reason}") from error
        return ended.stdout.decode(errors="replace")

    def _command(self, words: tuple[str, ...]) -> list[str]:
        return ["git", "--git-dir", str(self.folder), *words]


def kill_while_draining(
    data_dir: Path,
    head: Path,
    *,
    write_mode: str,
    commits: int = COMMITS_BEFORE_KILL,
) -> bool:
    """Drain in a child process and kill it once it has made so many `commits`; return whether that ended it.

    `head` is the file in the bare repository that names the branch's newest commit.
    """
    command = [sys.executable, "-P", "-m", "holdfast", "drain", "--write-mode", write_mode]
    seen = [read_head(head)]
    with subprocess.Popen(  # noqa: S603 - our own interpreter and module
        command,
        env=_environment(data_dir),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:
        try:
            for _ in range(int(_LONGEST_DRAIN_S / _GLANCE_S)):
                if (newest := read_head(head)) != seen[-1]:
                    seen.append(newest)
                if len(seen) > commits or child.poll() is not None:
                    break
                time.sleep(_GLANCE_S)
        finally:
            child.kill()
    return child.returncode < 0


def read_head(head: Path) -> str:
    """Return the newest commit of the branch; nothing if there is no branch yet."""
    try:
        return head.read_text()
    except FileNotFoundError:
        return ""


def _environment(data_dir: Path) -> dict[str, str]:
    """Return an environment in which nothing but the demo's own folder is configured."""
    rest = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "GITHUB_"))
    }
    return {**rest, "HOLDFAST_DATA_DIR": str(data_dir), "HOLDFAST_WRITE_INTERVAL_S": _WRITE_INTERVAL_S}
