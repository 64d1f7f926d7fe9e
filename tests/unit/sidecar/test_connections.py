"""Connections within limits: the silent ones end, and make room for others."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from uvicorn import Config, Server

from holdfast.sidecar.connections import ENDED_EVERY_S, WORTH_WAKING_BYTES, ConnectionLimits, LimitedProtocol

# Longer than any test takes.
LONGEST_S = 60
REQUEST = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"


async def answer(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


class SkippingLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock can be put forward, so that nobody waits for a timer."""

    skipped_s = 0.0

    def time(self) -> float:
        return super().time() + self.skipped_s


def skip(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SkippingLoop)
    loop.skipped_s += seconds


Connect = Callable[[], Any]
Scene = Callable[[Connect], Any]


def play(limits: ConnectionLimits, scene: Scene, app: Any = answer) -> Any:
    """Return what a scene returns that is played against a server with these limits."""

    async def run() -> Any:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            config = Config(
                app,
                http=type("Protocol", (LimitedProtocol,), {"limits": limits}),
                ws="none",
                lifespan="off",
                log_config=None,
                timeout_keep_alive=LONGEST_S * 100,
            )
            server = Server(config)
            server.capture_signals = nullcontext  # type: ignore[method-assign, assignment]
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            while not server.started:
                await asyncio.sleep(0)
            port = listener.getsockname()[1]
            result = await scene(lambda: asyncio.open_connection("127.0.0.1", port))
            server.should_exit = True
            await serving
            return result

    with asyncio.Runner(loop_factory=SkippingLoop) as runner:
        return runner.run(run())


async def until(is_so: Callable[[], bool]) -> None:
    """Let the server do its part, which lies in the same thread."""
    while not is_so():
        await asyncio.sleep(0)


def is_expecting(limits: ConnectionLimits) -> bool:
    """Whether a connection has begun to count the time for its next head."""
    return any(connection._head_timer is not None for connection in limits.awaited)


async def read_all(reader: asyncio.StreamReader) -> bytes:
    """Return what comes until the other side closes."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


@pytest.mark.slow
@pytest.mark.parametrize("beginning", [b"", b"GET / HT"])
def test_a_head_that_does_not_come_ends_the_connection(beginning: bytes) -> None:
    limits = ConnectionLimits(head_time_s=LONGEST_S)

    async def scene(connect: Connect) -> bytes:
        reader, writer = await connect()
        writer.write(beginning)
        await until(lambda: is_expecting(limits))
        skip(LONGEST_S)
        received = await read_all(reader)
        writer.close()
        return received

    assert play(limits, scene) == b""


@pytest.mark.slow
def test_a_second_head_has_its_time_too() -> None:
    limits = ConnectionLimits(head_time_s=LONGEST_S)

    async def scene(connect: Connect) -> bytes:
        reader, writer = await connect()
        writer.write(REQUEST)
        await reader.readuntil(b"ok")
        writer.write(b"GET / HT")
        await until(lambda: is_expecting(limits))
        skip(LONGEST_S)
        received = await read_all(reader)
        writer.close()
        return received

    assert play(limits, scene) == b""


@pytest.mark.slow
def test_a_connection_that_is_used_stays() -> None:
    async def scene(connect: Connect) -> int:
        reader, writer = await connect()
        answered = 0
        for _ in range(5):
            writer.write(REQUEST)
            await reader.readuntil(b"ok")
            answered += 1
            skip(0.6 * LONGEST_S)
            await asyncio.sleep(0)
        writer.close()
        return answered

    assert play(ConnectionLimits(head_time_s=LONGEST_S), scene) == 5


@pytest.mark.slow
def test_the_longest_silent_makes_room() -> None:
    limits = ConnectionLimits(most_connections=3)

    async def scene(connect: Connect) -> tuple[bytes, bytes]:
        silent = [await connect() for _ in range(3)]
        await until(lambda: len(limits.awaited) == len(silent))
        reader, writer = await connect()
        writer.write(REQUEST)
        received = await reader.readuntil(b"ok")
        dropped = await read_all(silent[0][0])
        for _, each in [*silent, (reader, writer)]:
            each.close()
        return received, dropped

    received, dropped = play(limits, scene)

    assert received.startswith(b"HTTP/1.1 200")
    assert dropped == b""


@pytest.mark.slow
def test_an_eighth_of_the_places_is_kept_free_by_and_by() -> None:
    limits = ConnectionLimits(most_connections=16)

    async def scene(connect: Connect) -> tuple[int, list[bytes]]:
        silent = [await connect() for _ in range(15)]
        await until(lambda: len(limits.awaited) == 15)
        skip(ENDED_EVERY_S)
        await until(lambda: not limits._is_making_room)
        assert len(limits.awaited) == 15, "nobody was slow yet"
        skip(LONGEST_S / 10)
        silent.append(await connect())
        await until(lambda: len(limits.awaited) == 16)
        skip(ENDED_EVERY_S)
        dropped = [await read_all(reader) for reader, _ in silent[:2]]
        left = len(limits.awaited)
        skip(ENDED_EVERY_S)
        await until(lambda: not limits._is_making_room)
        for _, each in silent:
            each.close()
        return left, dropped

    left, dropped = play(limits, scene)

    assert left == 14
    assert dropped == [b"", b""]


@pytest.mark.slow
def test_who_finds_no_room_is_told_when_to_try_again() -> None:
    async def scene(connect: Connect) -> bytes:
        reader, writer = await connect()
        received = await read_all(reader)
        writer.close()
        return received

    received: bytes = play(ConnectionLimits(most_connections=0), scene)

    assert received.startswith(b"HTTP/1.1 503")
    assert b"retry-after: 1\r\n" in received


POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"


async def swallow(_scope: Any, receive: Any, send: Any) -> None:
    while (message := await receive()).get("more_body"):
        pass
    if message["type"] == "http.request":
        await answer(None, None, send)


@pytest.mark.slow
def test_the_slowest_body_makes_room_and_the_others_go_on() -> None:
    limits = ConnectionLimits(most_connections=3)

    async def scene(connect: Connect) -> tuple[bytes, bytes, bytes]:
        quick, slow, newest = [await connect() for _ in range(3)]
        for _, writer in (quick, slow):
            writer.write(POST)
        quick[1].write(b"x" * 500_000)
        slow[1].write(b"x")
        await until(lambda: sum(each._awaited_bytes for each in limits.awaited) > 500_000)
        skip(LONGEST_S / 10)
        newest[1].write(POST)
        await until(lambda: all(each._is_in_body for each in limits.awaited))
        reader, writer = await connect()
        writer.write(REQUEST)
        received = await reader.readuntil(b"ok")
        dropped = await read_all(slow[0])
        quick[1].write(b"x" * 500_000)
        completed = await quick[0].readuntil(b"ok")
        for _, each in (quick, slow, newest, (reader, writer)):
            each.close()
        return received, dropped, completed

    received, dropped, completed = play(limits, scene, app=swallow)

    assert received.startswith(b"HTTP/1.1 200")
    assert dropped.startswith(b"HTTP/1.1 408")
    assert completed.startswith(b"HTTP/1.1 200")


@pytest.mark.slow
def test_who_has_just_come_is_not_the_slowest() -> None:
    limits = ConnectionLimits(most_connections=2)

    async def scene(connect: Connect) -> bytes:
        slow = await connect()
        slow[1].write(POST + b"x" * 100)
        await until(lambda: any(each._is_in_body for each in limits.awaited))
        skip(LONGEST_S / 10)
        new = await connect()
        await until(lambda: len(limits.awaited) == 2)
        other = await connect()
        await read_all(slow[0])
        new[1].write(REQUEST)
        received: bytes = await new[0].readuntil(b"ok")
        for _, each in (slow, new, other):
            each.close()
        return received

    assert play(limits, scene, app=swallow).startswith(b"HTTP/1.1 200")


def have_come(limits: ConnectionLimits, count: int) -> Callable[[], bool]:
    """Return what tells whether so many bytes have come over one of the connections."""
    return lambda: any(connection._awaited_bytes >= count for connection in limits.awaited)


@pytest.mark.slow
@pytest.mark.parametrize(("piece_bytes", "pieces"), [(1, 50), (1000, 9), (5000, 3)])
def test_who_reads_a_body_is_not_woken_by_every_small_piece(piece_bytes: int, pieces: int) -> None:
    limits, heard = ConnectionLimits(), list[bytes]()

    async def listen(_scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive()).get("more_body"):
            heard.append(message["body"])
        heard.append(message["body"])
        await answer(None, None, send)

    async def scene(connect: Connect) -> bytes:
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (piece_bytes * pieces))
        await until(lambda: any(each._is_in_body for each in limits.awaited))
        for number in range(1, pieces):
            writer.write(b"x" * piece_bytes)
            await until(have_come(limits, number * piece_bytes))
        writer.write(b"x" * piece_bytes)
        received: bytes = await reader.readuntil(b"ok")
        writer.close()
        return received

    assert play(limits, scene, app=listen).startswith(b"HTTP/1.1 200")
    assert b"".join(heard) == b"x" * (piece_bytes * pieces)
    assert len(heard) <= 1 + piece_bytes * pieces // WORTH_WAKING_BYTES


class Paced:
    """A connection that is waited for, of a pace that it is told."""

    def __init__(self, waiting: Any, pace: float) -> None:
        self.own_pace = pace
        self.waiting = waiting
        self.waiting[self] = None
        self.looks = 0

    def pace(self, _now: float) -> float:
        self.looks += 1
        return self.own_pace

    def give_up(self) -> None:
        del self.waiting[self]


def test_one_makes_room_for_one_the_slowest_first_and_seldom_are_all_looked_at() -> None:
    limits = ConnectionLimits()
    connections = [Paced(limits.awaited, pace=float(number)) for number in range(100)]

    for gone in range(1, 6):
        assert limits.make_room(now=0.0)
        assert [each.own_pace for each in connections if each in each.waiting] == list(range(gone, 100))

    assert connections[-1].looks == 1


def test_connection_that_has_become_faster_since_is_spared() -> None:
    limits = ConnectionLimits()
    connections = [Paced(limits.awaited, pace=float(number)) for number in range(100)]
    limits.make_room(now=0.0)
    connections[1].own_pace = 1000.0

    limits.make_room(now=0.0)

    assert [number for number in range(4) if connections[number] in connections[number].waiting] == [1, 3]


def test_nobody_makes_room_where_nobody_is_waited_for() -> None:
    assert not ConnectionLimits().make_room(now=0.0)
