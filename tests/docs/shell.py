"""Runs the commands of one page, one after the other, in a home folder of their own."""

import io
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

import structlog

from holdfast.cli import main
from tests.docs.pages import ROOT

LONGEST_S = 300
_PLAIN_COMMAND = re.compile(r"(?:echo '([^']*)' \| )?(holdfast [^|<>&;$`~*?(){}\\]*)")
# What has processes of its own, whose output cannot be caught here.
_IN_PROCESSES = ("holdfast demo", "holdfast exec")
_EXIT_CODE = re.compile(r"# exits with (\d+)$")
_SERVED = re.compile(r"127\.0\.0\.1:(\d+)")
_GIT_IDENTITY = "[user]\n\tname = A Reader\n\temail = reader@example.com\n[advice]\n\tdetachedHead = false\n"

_ANY_LINES = r"(?:.*\n)*"
# What differs from one run to the next, and what it is compared as.
_VARYING = (
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "<time>"),
    (r"\b[0-9a-f]{64}\b", "<sha256>"),
    (r"\b[0-9a-f]{40}\b", "<sha>"),
    (r"\b[0-9a-f]{7} ", "<sha> "),
    (r"[ \t]+$", ""),
    (r" {3,}", "  "),  # a column is as wide as its widest value
)


@dataclass(frozen=True)
class Command:
    """One command of a page, the output that the page shows, and the exit code that it names."""

    text: str
    shown: tuple[str, ...]

    @property
    def code(self) -> int:
        match = _EXIT_CODE.search(self.text)
        return int(match[1]) if match else 0


def read_commands(lines: tuple[str, ...]) -> list[Command]:
    """The commands of a `console` block: each begins with a prompt, and what follows it is its output."""
    commands: list[tuple[str, list[str]]] = []
    is_continued = False
    for line in lines:
        if is_continued:
            commands[-1] = (f"{commands[-1][0]}\n{line}", [])
        elif line.startswith("$ "):
            commands.append((line[2:], []))
        else:
            assert commands, f"a console block begins with a command after '$ ', not with {line!r}"
            commands[-1][1].append(line)
            continue
        is_continued = line.endswith("\\")
    return [Command(text, tuple(shown)) for text, shown in commands]


@dataclass
class Shell:
    """One reader's terminal: `cd` and `export` last from one command to the next."""

    home: Path
    environment: dict[str, str] = field(default_factory=dict)
    ports: dict[str, str] = field(default_factory=dict)
    real: dict[str, str] = field(default_factory=dict)
    """What the page names, and what stands for it here."""
    servers: list["subprocess.Popen[str]"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = self.home
        (self.home / "fixtures").symlink_to(ROOT / "fixtures")
        git_config = self.home / ".gitconfig"
        git_config.write_text(_GIT_IDENTITY)
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = {
            "PATH": programs,
            "HOME": str(self.home),
            "TMPDIR": str(self.home),
            "LANG": "C.UTF-8",
            "COLUMNS": "200",
            "NO_COLOR": "1",
            "GIT_CONFIG_GLOBAL": str(git_config),
            "GIT_CONFIG_NOSYSTEM": "1",
            "HOLDFAST_PORT": "0",
            "BROWSER": "true",
        }

    def run(self, command: Command) -> tuple[int, str]:
        """Carry out a command; return its exit code and all that it printed."""
        text = self._with_real_parts(command.text)
        if text.endswith(" &"):
            return 0, self._serve(text.removesuffix(" &"), command)
        plain = _PLAIN_COMMAND.fullmatch(text.partition(" #")[0])
        if plain and not text.startswith(_IN_PROCESSES):
            return self._run_here(shlex.split(plain[2])[1:], f"{plain[1] or ''}\n")
        return self._run_in_bash(text)

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be in this shell's folder and environment."""
        outside, folder = dict(os.environ), Path.cwd()
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.folder)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(outside)
            os.chdir(folder)
            structlog.reset_defaults()

    def close(self) -> None:
        """End the servers that the page has started; each of them ends in good order."""
        for server in self.servers:
            server.send_signal(signal.SIGTERM)
        codes = [server.wait(LONGEST_S) for server in self.servers]
        for server in self.servers:
            if server.stdout:
                server.stdout.close()
        assert codes == [0] * len(codes), f"servers ended with {codes}"

    def _run_here(self, words: list[str], stdin: str) -> tuple[int, str]:
        """Start no process, which would take longer than most commands do."""
        written = io.BytesIO()
        screen = io.TextIOWrapper(written, encoding="utf-8", write_through=True)
        given = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
        with (
            self.entered(),
            patch.object(sys, "stdin", given),
            redirect_stdout(screen),
            redirect_stderr(screen),
        ):
            code = main(words)
        screen.flush()
        return code, written.getvalue().decode()

    def _run_in_bash(self, text: str) -> tuple[int, str]:
        after = self.home / ".after"
        script = f'set -o pipefail\n{text}\ncode=$?\n{{ pwd; env -0; }} > "{after}"\nexit $code\n'
        ended = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LONGEST_S,
            check=False,
        )
        folder, _, variables = after.read_bytes().decode().partition("\n")
        self.folder = Path(folder)
        self.environment = dict(line.split("=", 1) for line in variables.split("\0") if "=" in line)
        return ended.returncode, ended.stdout.decode()

    def _serve(self, text: str, command: Command) -> str:
        """Start a server on a free port, and take its first line as all that it prints; logs go to pytest."""
        free = re.sub(r"--port \d+", "--port 0", text)
        server = subprocess.Popen(
            ["bash", "-c", f"exec {free}"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.servers.append(server)
        assert server.stdout is not None
        first_line = server.stdout.readline()
        documented, real = (_SERVED.search(line) for line in ("\n".join(command.shown), first_line))
        assert documented, f"show the address that {text!r} prints"
        assert real, f"{text!r} printed {first_line!r}"
        self.ports[documented[1]] = real[1]
        return first_line

    def _with_real_parts(self, text: str) -> str:
        for named, real in self.real.items():
            text = text.replace(named, real)
        for documented, real in self.ports.items():
            text = text.replace(f"127.0.0.1:{documented}", f"127.0.0.1:{real}")
        return text

    def as_documented(self, output: str) -> str:
        """Return an output as a page would show it: its ports, and `~` for the home folder."""
        for documented, real in self.ports.items():
            output = output.replace(f"127.0.0.1:{real}", f"127.0.0.1:{documented}")
        return output.replace(str(self.home), "~")


def is_as_shown(shown: str, printed: str) -> bool:
    """Whether an output is the one shown; `…` stands for anything within a line, alone for any lines.

    >>> is_as_shown("1 of …", "1 of 5"), is_as_shown("1\\n…\\n5", "1\\n2\\n5"), is_as_shown("1", "2")
    (True, True, False)
    """
    lines = steady(shown).strip().split("\n")
    pattern = "".join(_ANY_LINES if line == "…" else f"{_pattern_of(line)}\n" for line in lines)
    return re.fullmatch(pattern, steady(printed).strip() + "\n") is not None


def _pattern_of(line: str) -> str:
    return re.escape(line).replace("…", ".*")


def steady(text: str) -> str:
    """Return a text without what differs from one run to the next.

    >>> steady("at 2026-11-17T19:26:09.904Z")
    'at <time>'
    """
    for pattern, name in _VARYING:
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return text
