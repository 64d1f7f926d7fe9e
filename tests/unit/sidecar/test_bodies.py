"""Bodies that are too slow, too large or broken off."""

import asyncio
from collections.abc import Iterable

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from holdfast.sidecar.bodies import BodyReader, check_headers, linger
from holdfast.sidecar.problems import Problem


def receiving(messages: Iterable[Message]) -> Receive:
    rest = iter(messages)

    async def receive() -> Message:
        for message in rest:
            return message
        await asyncio.Event().wait()
        raise AssertionError

    return receive


def chunk(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def test_chunks_become_one_body() -> None:
    receive = receiving([chunk(b"a"), chunk(b"b"), chunk(b"", more=False)])

    assert asyncio.run(BodyReader(10).read(receive)) == b"ab"


def test_a_body_that_does_not_arrive_is_given_up() -> None:
    reader = BodyReader(10, time_s=0.0)

    with pytest.raises(Problem) as caught:
        asyncio.run(reader.read(receiving([chunk(b"a")])))

    assert (caught.value.status, caught.value.headers) == (408, {"Connection": "close"})
    assert reader.in_flight_bytes == 0


def test_a_client_that_leaves_is_noticed() -> None:
    with pytest.raises(ClientDisconnect):
        asyncio.run(BodyReader(10).read(receiving([chunk(b"a"), {"type": "http.disconnect"}])))


def test_too_much_at_once_is_refused_for_a_moment() -> None:
    reader = BodyReader(10, most_in_flight_bytes=5)

    with pytest.raises(Problem) as caught:
        asyncio.run(reader.read(receiving([chunk(b"a" * 6)])))

    assert (caught.value.status, caught.value.headers["Retry-After"]) == (503, "1")
    assert reader.in_flight_bytes == 0


@pytest.mark.parametrize("length", [b"-1", b"x", b"9" * 19])
def test_a_length_that_is_none_is_refused(length: bytes) -> None:
    headers = {b"content-type": b"application/json", b"content-length": length}

    with pytest.raises(Problem) as caught:
        check_headers(headers, limit_bytes=10)

    assert caught.value.status == 400


@pytest.mark.parametrize(
    "media_type",
    [b"application/json", b"application/json; charset=utf-8", b"Application/JSON", b"application/ld+json"],
)
def test_every_kind_of_json_is_taken(media_type: bytes) -> None:
    check_headers({b"content-type": media_type, b"content-length": b"10"}, limit_bytes=10)


def test_lingering_ends_with_the_body() -> None:
    asyncio.run(linger(receiving([chunk(b"a"), chunk(b"", more=False)])))


def test_lingering_ends_with_the_client() -> None:
    asyncio.run(linger(receiving([{"type": "http.disconnect"}])))


def test_lingering_has_an_end_in_time_and_size() -> None:
    asyncio.run(linger(receiving([]), time_s=0.0))
    asyncio.run(linger(receiving([chunk(b"aaa"), chunk(b"aaa")]), most_bytes=4))
