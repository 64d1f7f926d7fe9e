"""What stands between us and a PostgreSQL that may freeze: everything is acknowledged, nothing comes back."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote

from psycopg import conninfo


class FreezingProxy:
    """Hands everything on between a port of this machine and a server's socket, until it is frozen.

    The kernel goes on acknowledging what is sent to it, as it does where all processes stand still.
    """

    def __init__(self, server_url: str) -> None:
        parts: dict[str, Any] = dict(conninfo.conninfo_to_dict(server_url))
        self._server = f"{parts['host']}/.s.PGSQL.{parts['port']}"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self._questions, self._answers = threading.Event(), threading.Event()
        self.thaw()
        options = quote(parts.get("options") or "", safe="")
        port = self._listener.getsockname()[1]
        self.url = (
            f"postgresql://{parts['user']}@127.0.0.1:{port}/{parts['dbname']}"
            f"?connect_timeout=2&sslmode=disable&options={options}"
        )
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self) -> None:
        """Hand nothing on any more, in either direction."""
        self._questions.clear()
        self._answers.clear()

    def lose_answers(self) -> None:
        """Hand on what is asked, and no answer."""
        self._answers.clear()

    def thaw(self) -> None:
        """Hand on what has gathered, and all else."""
        self._questions.set()
        self._answers.set()

    def close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self.thaw()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            self._sockets += [client, server]
            for source, target, may_pass in (
                (client, server, self._questions),
                (server, client, self._answers),
            ):
                threading.Thread(target=_hand_on, args=(source, target, may_pass), daemon=True).start()


def _hand_on(source: socket.socket, target: socket.socket, may_pass: threading.Event) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            may_pass.wait()
            target.sendall(data)
    may_pass.wait()
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def freezing_proxy(server_url: str) -> Iterator[FreezingProxy]:
    proxy = FreezingProxy(server_url)
    try:
        yield proxy
    finally:
        proxy.close()
