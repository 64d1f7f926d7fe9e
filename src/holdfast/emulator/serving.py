"""Running the emulator as a program, until it is told to stop."""

import threading
from collections.abc import Callable, Sequence

from holdfast.emulator.app import Emulator
from holdfast.emulator.faults import Rule
from holdfast.emulator.journal import JournalEntry
from holdfast.emulator.options import EmulatorOptions
from holdfast.emulator.server import EmulatorServer


def serve(
    options: EmulatorOptions,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    more_repositories: Sequence[str] = (),
    faults: Sequence[Rule] = (),
    on_ready: Callable[[str], None] | None = None,
    on_request: Callable[[JournalEntry], None] | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Serve until `stop` is set.

    `on_ready` is told the address once requests are answered, `on_request` each request after its answer.
    Raises OSError if the port cannot be had, and RepositoryUnusable if the repository cannot.
    """
    emulator = Emulator(options)
    emulator.journal.listener = on_request
    try:
        for full_name in more_repositories:
            emulator.create_repository(full_name)
        for rule in faults:
            emulator.faults.add(rule)
        with EmulatorServer(emulator, host=host, port=port) as server:
            if on_ready is not None:
                on_ready(server.url)
            (stop or threading.Event()).wait()
    finally:
        emulator.close()
