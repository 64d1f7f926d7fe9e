"""The least that an HTTP server in Python can do to keep bytes in PostgreSQL, many requests in one commit.

It reads the length of a body and nothing else, asks nobody for a number, and promises nothing but the commit.
"""

import asyncio
import os
import threading
import time
from uuid import uuid4

import psycopg

_INSERT = "insert into bare select * from unnest(%s::uuid[], %s::text[], %s::float8[], %b::bytea[])"
_ANSWER = b"HTTP/1.1 202 Accepted\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


def serve_least(url: str, writer: int) -> None:
    """Serve for ever; write the address to the file `writer`."""
    asyncio.run(_serve(url, writer))


async def _serve(url: str, writer: int) -> None:
    keeper = _Keeper(url, asyncio.get_running_loop())
    server = await asyncio.get_running_loop().create_server(lambda: _Client(keeper), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    os.write(writer, f"http://{host}:{port}\n".encode())
    await server.serve_forever()


class _Keeper:
    """Commits what has arrived while the last commit was under way."""

    def __init__(self, url: str, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._connection = psycopg.connect(url)
        self._waiting: list[tuple[bytes, asyncio.Transport]] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def keep(self, body: bytes, transport: asyncio.Transport) -> None:
        with self._changed:
            self._waiting.append((body, transport))
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                group, self._waiting = self._waiting, []
            ids, now = [uuid4() for _ in group], [time.time()] * len(group)
            self._connection.execute(_INSERT, (ids, ["run"] * len(group), now, [body for body, _ in group]))
            self._connection.commit()
            self._loop.call_soon_threadsafe(_answer, [transport for _, transport in group])


def _answer(transports: list[asyncio.Transport]) -> None:
    for transport in transports:
        transport.write(_ANSWER)


class _Client(asyncio.Protocol):
    """One connection, with one request after the other."""

    def __init__(self, keeper: _Keeper) -> None:
        self._keeper = keeper
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        if end and len(body) == int(head.rpartition(b"Content-Length: ")[2]):
            self._received = b""
            self._keeper.keep(body, self._transport)
