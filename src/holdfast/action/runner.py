"""The runner's side: its command lines and its files, written so that no text of ours is taken for a command.

See https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from holdfast.logs import escape_controls

# The runner drops a step's whole summary when it has more than 1 MiB.
MOST_SUMMARY_BYTES = 1000 * 1024
_CUT = "\n\n(The rest of this summary is left out: it is too long for GitHub.)\n"

_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


class Runner:
    """Talks to the runner through standard output and the files that it names in the environment.

    A file that is not named is not written: then the program does not run in a step.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        out: TextIO,
        *,
        new_secret: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self._output = environment.get("GITHUB_OUTPUT")
        self._summary = environment.get("GITHUB_STEP_SUMMARY")
        self._out = out
        self._new_secret = new_secret

    def mask(self, secret: str) -> None:
        """Have the runner show `secret` nowhere from now on. It masks line by line."""
        for line in secret.splitlines():
            if line.strip():
                self._command("add-mask", line.strip())

    @contextmanager
    def group(self, title: str) -> Iterator[None]:
        """Fold all that is printed meanwhile under `title`; none of it is obeyed as a command."""
        self._command("group", escape_controls(title))
        key = self._new_secret()
        self._command("stop-commands", key)
        try:
            yield
        finally:
            self._command(key, "")
            self._command("endgroup", "")

    def warn(self, message: str) -> None:
        """Make `message` a warning of the job."""
        self._command("warning", message, title="Holdfast")

    def fail(self, message: str) -> None:
        """Make `message` an error of the job. It does not end the job by itself."""
        self._command("error", message, title="Holdfast")

    def set_outputs(self, outputs: Mapping[str, str]) -> None:
        """Set outputs of the step, whatever their values contain."""
        if self._output:
            with Path(self._output).open("a", encoding="utf-8", newline="\n") as file:
                for name, value in outputs.items():
                    delimiter = f"holdfast_{self._new_secret()}"
                    file.write(f"{name}<<{delimiter}\n{value}\n{delimiter}\n")

    def add_summary(self, markdown: str) -> None:
        """Add to the job's summary; what does not fit in is cut off at the end of a line."""
        if not self._summary:
            return
        content = markdown.encode(errors="replace")
        path = Path(self._summary)
        room = MOST_SUMMARY_BYTES - (path.stat().st_size if path.exists() else 0)
        if len(content) > room:
            content = content[: max(room - len(_CUT), 0)].rpartition(b"\n")[0] + _CUT.encode()
        with path.open("ab") as file:
            file.write(content)

    def _command(self, name: str, message: str, **properties: str) -> None:
        given = ",".join(f"{key}={_escape(value, _PROPERTY)}" for key, value in properties.items())
        self._out.write(f"::{name}{' ' if given else ''}{given}::{_escape(message, _DATA)}\n")
        self._out.flush()


def _escape(text: str, replacements: Mapping[str, str]) -> str:
    return "".join(replacements.get(character, character) for character in text)
