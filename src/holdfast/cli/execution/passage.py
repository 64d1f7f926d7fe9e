"""Runs a command with its output passed on as it comes, and keeps the last of it.

The command keeps our standard input, our process group and our terminal, so that keys, job control and
passwords work as ever. What it writes comes through a pipe, or through a pseudo-terminal where we have a
terminal ourselves, so that it still finds one, with the same width. Outputs that go to the same place share
one, so that their order is kept.
"""

import os
import select
import selectors
import signal
import socket
import subprocess
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from holdfast.cli.execution.signals import SignalRelay

KEPT_BYTES = 4096
_CHUNK = 64 * 1024
# What follows the first byte of a character in UTF-8.
_CONTINUATIONS = bytes(range(0x80, 0xC0))
# How long what is written last may be on its way through a pseudo-terminal.
_LAST_WORDS_S = 0.1
_STDOUT, _STDERR = 1, 2

NOT_EXECUTABLE, NOT_FOUND = 126, 127


@dataclass
class Tail:
    """The last of what was written."""

    _kept: bytearray = field(default_factory=bytearray)
    _is_cut: bool = False

    def add(self, chunk: bytes) -> None:
        """Take in what was written."""
        self._kept += chunk
        if len(self._kept) > KEPT_BYTES:
            del self._kept[:-KEPT_BYTES]
            self._is_cut = True

    def text(self) -> str:
        """Return it as text; of a character that was cut in two nothing is left, other faults are marked."""
        kept = bytes(self._kept)
        return (kept.lstrip(_CONTINUATIONS) if self._is_cut else kept).decode(errors="replace")


class Ended(NamedTuple):
    """How a command ended: its exit code as a shell gives it, and the signal that ended it, if one did."""

    code: int
    signal: int | None = None


@dataclass
class _Channel:
    """One way out of the command: what it writes to, what we read from, and where that goes."""

    inner: int
    source: int
    target: int
    is_terminal: bool

    def close(self) -> None:
        """Read no more: who still writes is told so, as it would be without us."""
        if self.source >= 0:
            os.close(self.source)
            self.source = -1


class Passage:
    """One command and the ways of its output. Without `keeps_output` it has our own outputs, unseen by us.

    It gets the descriptors that are `inherited`, and no others of ours. `unwritten` says why something of its
    output is lost: a full disk, say. That a reader has gone is none.
    """

    def __init__(
        self, relay: SignalRelay, *, keeps_output: bool = True, inherited: Sequence[int] = ()
    ) -> None:
        self.tail = Tail()
        self.unwritten = ""
        self._relay = relay
        self._inherited = inherited
        self._channels = _open_channels() if keeps_output else {}

    def run(self, command: Sequence[str]) -> Ended:
        """Run the command to its end, and pass on what it writes. Raises OSError if it cannot be started."""
        with _wakeups() as woken:
            process = self._start(command)
            with self._relay.relaying_to(process.send_signal, before_resize=self._fit_window):
                self._pump(process, woken)
        code = process.returncode
        return Ended(code) if code >= 0 else Ended(128 - code, -code)

    def leave_behind(self) -> None:
        """Have what the command left running go on writing, with a process of its own to pass it on."""
        rest = self._open()
        if rest and not os.fork():
            with suppress(BaseException):
                self._relay.close()
                os.close(0)
                self._pass_on_rest(quiet_s=None)
            os._exit(0)
        for channel in rest:
            channel.close()

    def _start(self, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        inner = {number: channel.inner for number, channel in self._channels.items()}
        try:
            return subprocess.Popen(  # noqa: S603 - to run what the user names is its purpose
                command, stdout=inner.get(_STDOUT), stderr=inner.get(_STDERR), pass_fds=self._inherited
            )
        except OSError:
            for channel in self._open():
                channel.close()
            raise
        finally:
            for descriptor in set(inner.values()):
                os.close(descriptor)

    def _pump(self, process: "subprocess.Popen[bytes]", woken: int) -> None:
        with self._selector() as selector:
            selector.register(woken, selectors.EVENT_READ)
            while process.poll() is None:
                for key, _ in selector.select():
                    if key.data is None:
                        os.read(woken, _CHUNK)
                    else:
                        self._pass_on_or_close(key, selector)
        self._pass_on_rest(quiet_s=_LAST_WORDS_S)

    def _pass_on_rest(self, *, quiet_s: float | None) -> None:
        """Pass on what is left until nobody can write any more, or nobody has for `quiet_s`."""
        with self._selector() as selector:
            while selector.get_map() and (ready := selector.select(quiet_s)):
                for key, _ in ready:
                    self._pass_on_or_close(key, selector)

    def _selector(self) -> selectors.BaseSelector:
        selector = selectors.DefaultSelector()
        for channel in self._open():
            selector.register(channel.source, selectors.EVENT_READ, channel)
        return selector

    def _open(self) -> list[_Channel]:
        every = {id(channel): channel for channel in self._channels.values()}
        return [channel for channel in every.values() if channel.source >= 0]

    def _pass_on_or_close(self, key: selectors.SelectorKey, selector: selectors.BaseSelector) -> None:
        if not self._pass_on(key.data):
            selector.unregister(key.fileobj)
            key.data.close()

    def _pass_on(self, channel: _Channel) -> bool:
        """Pass on what is there; return whether more may come."""
        try:
            chunk = os.read(channel.source, _CHUNK)
        except OSError:  # what a pseudo-terminal says that nobody writes to any more
            return False
        if not chunk:
            return False
        self.tail.add(chunk)
        try:
            _write_all(channel.target, chunk)
        except BrokenPipeError:
            return False
        except OSError as error:
            self.unwritten = error.strerror or repr(error)
            return False
        return True

    def _fit_window(self) -> None:
        for channel in self._open():
            if channel.is_terminal:
                with suppress(OSError, termios.error):
                    termios.tcsetwinsize(channel.source, termios.tcgetwinsize(channel.target))


def _open_channels() -> dict[int, _Channel]:
    """Return a channel for each output of ours that is open; those to the same place share one."""
    channels: dict[int, _Channel] = {}
    places: dict[tuple[int, int], _Channel] = {}
    for number in (_STDOUT, _STDERR):
        try:
            status = os.fstat(number)
        except OSError:
            continue
        place = (status.st_dev, status.st_ino)
        if place not in places:
            places[place] = _open_channel(number)
        channels[number] = places[place]
    return channels


def _open_channel(target: int) -> _Channel:
    if os.isatty(target):
        with suppress(OSError, termios.error):
            return _open_terminal(target)
    source, inner = os.pipe()
    return _Channel(inner, source, target, is_terminal=False)


def _open_terminal(target: int) -> _Channel:
    """Return a pseudo-terminal as wide as ours, which leaves every byte to ours to be treated."""
    source, inner = os.openpty()
    attributes = termios.tcgetattr(target)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(inner, termios.TCSANOW, attributes)
    termios.tcsetwinsize(inner, termios.tcgetwinsize(target))
    return _Channel(inner, source, target, is_terminal=True)


def _write_all(target: int, chunk: bytes) -> None:
    """Write all of it. Raises OSError."""
    rest = memoryview(chunk)
    while rest:
        try:
            rest = rest[os.write(target, rest) :]
        except BlockingIOError:
            select.select([], [target], [])


@contextmanager
def _wakeups() -> Iterator[int]:
    """Give a descriptor that becomes readable with every signal, so that no wait outlasts the command."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    before = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    wakeup = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    try:
        yield ours.fileno()
    finally:
        signal.set_wakeup_fd(wakeup)
        signal.signal(signal.SIGCHLD, before)
        ours.close()
        theirs.close()
