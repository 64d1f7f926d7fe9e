import asyncio
import json
from contextlib import aclosing

import pytest

from holdfast.sidecar import events
from holdfast.sidecar.events import KEPT, EventFeed
from tests.fakes.sidecar import RunningSidecar


def feed() -> EventFeed:
    return EventFeed(now=lambda: 1.0)


def test_events_have_rising_ids_and_json() -> None:
    told = feed()
    told.publish("spooled", {"run_id": "a"})
    told.publish("verified", {"run_id": "a"})

    newest, text = told.since(1000)

    assert newest == 1002
    first = b'id: 1001\nevent: spooled\ndata: {"run_id":"a"}\n\n'
    assert text == first + b'id: 1002\nevent: verified\ndata: {"run_id":"a"}\n\n'
    assert told.since(1001)[1].startswith(b"id: 1002\n")
    assert told.since(None) == (1002, b"")
    assert told.since(1002) == (1002, b"")


def test_who_was_away_for_too_long_is_told_so() -> None:
    told = feed()
    for _ in range(KEPT + 1):
        told.publish("spooled", {})

    assert told.since(1000)[1].startswith(b"event: missed\n")
    assert not told.since(1001)[1].startswith(b"event: missed\n")
    assert told.since(0)[1].count(b"event: spooled") == KEPT


def test_followers_hear_what_happens_and_end_with_the_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LONGEST_GATHER_S", 0.0)

    async def play() -> list[bytes]:
        told = feed()
        told.start()
        heard = []
        async with aclosing(told.follow(None)) as following:
            heard.append(await anext(following))
            assert told.followers == 1
            waiting = asyncio.ensure_future(anext(following))
            await asyncio.sleep(0)
            await asyncio.to_thread(told.publish, "drained", {})
            heard.append(await waiting)
            told.end()
            heard += [text async for text in following]
        assert told.followers == 0
        return heard

    heard = asyncio.run(play())

    assert heard[0] == b"retry: 3000\n\n"
    assert b"event: drained" in heard[1]
    assert heard[2:] == []


def test_silence_is_broken_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "HEARTBEAT_S", 0.0)

    async def play() -> bytes:
        told = feed()
        told.start()
        async with aclosing(told.follow(None)) as following:
            await anext(following)
            return await anext(following)

    assert asyncio.run(play()) == b": still here\n\n"


@pytest.mark.slow
def test_a_checkpoint_is_followed_from_the_disk_to_the_repository(sidecar: RunningSidecar) -> None:
    with sidecar.client.stream("GET", "/v1/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        assert next(lines) == "retry: 3000"
        receipt = sidecar.submit("events-1").json()
        kinds = []
        for line in lines:
            if line.startswith("event: "):
                kinds.append(line.removeprefix("event: "))
            elif line.startswith("data: ") and kinds[-1] in ("spooled", "verified"):
                assert json.loads(line.removeprefix("data: ")) == {
                    "run_id": "events-1",
                    "checkpoint_id": receipt["checkpoint_id"],
                    "sequence_number": 1,
                }
                if kinds[-1] == "verified":
                    break

    assert [kind for kind in kinds if kind in ("spooled", "verified")] == ["spooled", "verified"]


@pytest.mark.slow
def test_a_decision_is_followed_as_well_and_the_empty_spool_is_told(sidecar: RunningSidecar) -> None:
    sidecar.submit("events-2", trigger="escalation")
    seen: list[tuple[str, object]] = []
    with sidecar.client.stream("GET", "/v1/events") as stream:
        lines = stream.iter_lines()
        assert next(lines) == "retry: 3000"
        decided = sidecar.client.post("/v1/runs/events-2/review", json={"decision": "continue"})
        kind = ""
        for line in lines:
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                data = json.loads(line.removeprefix("data: "))
                seen.append((kind, data.get("checkpoint_id")))
                if kind == "drained" and ("verified", decided.json()["checkpoint_id"]) in seen:
                    break

    assert decided.status_code == 202
    mine = [kind for kind, identity in seen if identity == decided.json()["checkpoint_id"]]
    assert mine == ["spooled", "verified"]


@pytest.mark.slow
def test_a_wrong_id_and_too_many_followers_are_refused(
    sidecar: RunningSidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sidecar.client.get("/v1/events", headers={"Last-Event-ID": "x"}).status_code == 422
    monkeypatch.setattr(events, "MOST_FOLLOWERS", 0)
    assert sidecar.client.get("/v1/events").status_code == 503
