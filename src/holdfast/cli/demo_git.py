"""Plain git, for the demo: what it finds in the bare repository owes nothing to Holdfast."""

import os
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from holdfast.presentation.exits import CommandFailed


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
