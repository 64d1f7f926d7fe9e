import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.emulator import (
    AnswerWith,
    Call,
    Cut,
    Delay,
    Emulator,
    EmulatorOptions,
    LateWrite,
    Malform,
    Request,
    Rule,
    Stale,
    Truncate,
    WrongLength,
)


def put(client: httpx.Client, name: str, content: str = "") -> httpx.Response:
    return client.put(f"contents/{name}", json={"message": name, "content": content})


def is_stored(client: httpx.Client, name: str) -> bool:
    return client.get(f"contents/{name}").status_code == 200


def test_status_instead_of_the_write(emulator: Emulator, client: httpx.Client) -> None:
    emulator.faults.add(Rule(AnswerWith(503, headers={"retry-after": "7"}), target="put"))

    answer = put(client, "a")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")
    assert answer.json()["message"] == "Service Unavailable"
    assert answer.headers["x-ratelimit-limit"] == "5000"
    assert not is_stored(client, "a")


def test_status_after_the_write(emulator: Emulator, client: httpx.Client) -> None:
    emulator.faults.add(Rule(AnswerWith(502, "<html>", after_write=True), target="put"))

    answer = put(client, "a")

    assert (answer.status_code, answer.text) == (502, "<html>")
    assert is_stored(client, "a")


def test_cut_before_the_write(emulator: Emulator, client: httpx.Client) -> None:
    emulator.faults.add(Rule(Cut(), target="put"))

    with pytest.raises(httpx.RemoteProtocolError):
        put(client, "a")

    assert not is_stored(client, "a")


def test_cut_after_the_write(emulator: Emulator, client: httpx.Client) -> None:
    emulator.faults.add(Rule(Cut(after_write=True), target="put"))

    with pytest.raises(httpx.RemoteProtocolError):
        put(client, "a")

    assert is_stored(client, "a")
    assert [(entry.status, entry.ending) for entry in emulator.journal.entries] == [
        (201, "cut"),
        (200, "whole"),
    ]


def test_truncated_answer_announces_more_than_it_sends(emulator: Emulator, client: httpx.Client) -> None:
    put(client, "a")
    emulator.faults.add(Rule(Truncate(), target="get", times=1))

    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
        client.get("contents/a")


def test_too_small_a_length_hides_the_end_of_the_body(emulator: Emulator, client: httpx.Client) -> None:
    put(client, "a")
    emulator.faults.add(Rule(WrongLength(-10), target="get"))

    with pytest.raises(json.JSONDecodeError):
        client.get("contents/a").json()


def test_too_large_a_length_breaks_the_answer(emulator: Emulator, client: httpx.Client) -> None:
    emulator.faults.add(Rule(WrongLength(10), target="get"))

    with pytest.raises(httpx.RemoteProtocolError):
        client.get("branches")


def test_malformed_body_has_the_true_status(emulator: Emulator, client: httpx.Client) -> None:
    emulator.faults.add(Rule(Malform(), target="put"))

    answer = put(client, "a")

    assert answer.status_code == 201
    with pytest.raises(json.JSONDecodeError):
        answer.json()


def test_short_delay_passes_time(emulator: Emulator, client: httpx.Client, now: list[float]) -> None:
    emulator.faults.add(Rule(Delay(2)))
    before = now[0]

    assert put(client, "a").status_code == 201
    assert now[0] == before + 2


def test_delay_beyond_the_callers_timeout_is_one_after_the_write(
    emulator: Emulator, client: httpx.Client, now: list[float]
) -> None:
    emulator.faults.add(Rule(Delay(60), target="put"))
    before = now[0]

    with pytest.raises(httpx.ReadTimeout):
        put(client, "a")

    assert now[0] == before + 5
    assert is_stored(client, "a")


def test_late_write_lands_once_its_time_has_come(
    emulator: Emulator, client: httpx.Client, now: list[float]
) -> None:
    emulator.faults.add(Rule(LateWrite(30), target="put", times=1))

    with pytest.raises(httpx.RemoteProtocolError):
        put(client, "a")

    assert not is_stored(client, "a")
    now[0] += 30
    assert is_stored(client, "a")


def test_stale_read_shows_the_branch_as_it_was_and_commits_as_they_are(
    emulator: Emulator, client: httpx.Client
) -> None:
    put(client, "a")
    commit = put(client, "b").json()["commit"]["sha"]
    emulator.faults.add(Rule(Stale(1)))

    assert not is_stored(client, "b")
    assert is_stored(client, "a")
    assert client.get(f"contents/b?ref={commit}").status_code == 200
    assert client.get("git/ref/heads/main").json()["object"]["sha"] != commit
    assert client.get("branches/main").json()["commit"]["sha"] != commit


def test_stale_read_can_hide_the_newest_commits_too(emulator: Emulator, client: httpx.Client) -> None:
    older = put(client, "a").json()["commit"]["sha"]
    newer = put(client, "b").json()["commit"]["sha"]
    emulator.faults.add(Rule(Stale(1, hidden=True)))

    assert client.get(f"contents/b?ref={newer}").status_code == 404
    assert client.get(f"contents/a?ref={older}").status_code == 200


def test_stale_beyond_the_first_commit_is_a_missing_branch(emulator: Emulator, client: httpx.Client) -> None:
    put(client, "a")
    emulator.faults.add(Rule(Stale(5)))

    assert client.get("git/ref/heads/main").status_code == 404
    assert client.get("contents/a").status_code == 404


def test_writes_see_the_true_branch_under_a_stale_rule(emulator: Emulator, client: httpx.Client) -> None:
    put(client, "a")
    emulator.faults.add(Rule(Stale(1)))

    assert put(client, "a").status_code == 422


def test_callbacks_run_before_and_after_the_write(emulator: Emulator, client: httpx.Client) -> None:
    seen: list[tuple[str, bool]] = []

    def look(moment: str) -> Callable[[Request], None]:
        ref = emulator.options.root / "holdfast/checkpoints.git/refs/heads/main"
        return lambda request: seen.append((f"{moment} {request.method}", ref.exists()))

    emulator.faults.add(Rule(Call(before=look("before"), after=look("after")), target="put"))
    put(client, "a")

    assert seen == [("before PUT", False), ("after PUT", True)]


KILLED_WRITER = """
import os, pathlib, signal, sys
from holdfast.emulator import *
emulator = Emulator(EmulatorOptions(root=pathlib.Path(sys.argv[1])))
kill = lambda request: os.kill(os.getpid(), signal.SIGKILL)
emulator.faults.add(Rule(Call(**{sys.argv[2]: kill})))
target = "/repos/holdfast/checkpoints/contents/a"
body = b'{"message": "m", "content": ""}'
emulator.handle(Request.from_target("PUT", target, {"user-agent": "test"}, body))
"""


@pytest.mark.processes
@pytest.mark.parametrize(("moment", "status"), [("before", 404), ("after", 200)])
def test_killed_process_leaves_a_sound_repository(tmp_path: Path, moment: str, status: int) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED_WRITER, str(tmp_path), moment], check=False)
    emulator = Emulator(EmulatorOptions(root=tmp_path))

    target = "/repos/holdfast/checkpoints/contents/a"
    answer = emulator.handle(Request.from_target("GET", target, {"user-agent": "test"}))
    emulator.close()

    assert killed.returncode == -signal.SIGKILL
    assert answer.status == status
    subprocess.run(["git", "-C", str(tmp_path / "holdfast/checkpoints.git"), "fsck"], check=True)


def statuses(emulator: Emulator, count: int) -> list[int]:
    request = Request.from_target("GET", "/user", {"user-agent": "test"})
    return [emulator.handle(request).status for _ in range(count)]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, [500, 500, 500, 500]),
        ({"times": 2}, [500, 500, 200, 200]),
        ({"nth": 2}, [200, 500, 200, 200]),
        ({"nth": 2, "times": 2}, [200, 500, 500, 200]),
        ({"path": "^/us"}, [500, 500, 500, 500]),
        ({"path": "/repos"}, [200, 200, 200, 200]),
        ({"target": "put"}, [200, 200, 200, 200]),
        ({"target": "read"}, [500, 500, 500, 500]),
        ({"probability": 0.0}, [200, 200, 200, 200]),
    ],
)
def test_rule_hits_what_it_names(emulator: Emulator, limits: dict[str, Any], expected: list[int]) -> None:
    emulator.faults.add(Rule(AnswerWith(500), **limits))

    assert statuses(emulator, 4) == expected


def test_chance_is_repeatable_by_its_seed(emulator: Emulator) -> None:
    runs = []
    for seed in (7, 7, 8):
        emulator.faults.clear()
        emulator.faults.add(Rule(AnswerWith(500), probability=0.5, seed=seed))
        runs.append(statuses(emulator, 20))

    assert runs[0] == runs[1] != runs[2]
    assert {200, 500} == set(runs[0])


@pytest.mark.parametrize(
    ("target", "expected"),
    [("graphql", [True, True, False]), ("mutation", [False, True, False]), ("write", [False, True, True])],
)
def test_queries_and_mutations_are_told_apart(target: Any, expected: list[bool]) -> None:
    query = Request(
        "POST", "/graphql", body=b'{"query": "{ viewer { login } }", "variables": {"a": "mutation"}}'
    )
    mutation = Request("POST", "/graphql", body=rb'{"query": "\nmutation { updateRefs }"}')
    plain = Request("POST", "/git/refs")

    matched = [Rule(Cut(), target=target).matches(request) for request in (query, mutation, plain)]

    assert matched == expected


def test_rules_can_be_taken_back(emulator: Emulator) -> None:
    first = emulator.faults.add(Rule(AnswerWith(500)))
    emulator.faults.add(Rule(AnswerWith(502), target="put"))
    statuses(emulator, 2)

    assert [(armed.seen, armed.fired) for armed in emulator.faults.rules] == [(2, 2), (0, 0)]
    assert emulator.faults.remove(first)
    assert not emulator.faults.remove(first)
    assert statuses(emulator, 1) == [200]
