import httpx
import pytest

from holdfast.emulator import Delay, Emulator, EmulatorServer, EmulatorTransport, Rule


@pytest.mark.slow
@pytest.mark.parametrize("target", ["/user", "/repos/holdfast/checkpoints", "/nonsense"])
def test_answers_are_those_of_the_server(server: EmulatorServer, target: str) -> None:
    with httpx.Client(transport=EmulatorTransport(server.emulator), base_url=server.url) as inside:
        near = inside.get(target)
    far = httpx.get(f"{server.url}{target}")

    varying = {"connection", "x-github-request-id", "x-ratelimit-remaining", "x-ratelimit-used"}
    assert near.status_code == far.status_code
    assert near.json() == far.json()
    assert near.headers.keys() - varying == far.headers.keys() - varying


def test_head_and_empty_answers_have_no_body(emulator: Emulator) -> None:
    with httpx.Client(transport=EmulatorTransport(emulator), base_url="http://emulator") as client:
        tag = client.get("/user").headers["etag"]

        assert client.head("/user").content == b""
        assert client.get("/user", headers={"if-none-match": tag}).content == b""


def test_caller_without_a_time_limit_waits_as_long_as_it_takes(emulator: Emulator) -> None:
    slept: list[float] = []
    emulator.faults.add(Rule(Delay(3600)))

    with httpx.Client(
        transport=EmulatorTransport(emulator, slept.append), base_url="http://emulator", timeout=None
    ) as client:
        assert client.get("/user").status_code == 200

    assert slept == [3600]
