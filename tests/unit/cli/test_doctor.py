"""Planted troubles: the doctor names each of them, and only it."""

import json
import os
import socket
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from holdfast.doctor import examine
from holdfast.doctor.examination import THREADS
from holdfast.github.client import GitHubClient
from holdfast.library import Holdfast as Library
from tests.fakes.postgres import postgres_url

from .conftest import Ended, GitHub, Holdfast

pytestmark = pytest.mark.usefixtures("on_a_disk")


def failed(ended: Ended, cure: str = "") -> list[str]:
    """Return the names of the checks that found a trouble; what they advise has to name the cure."""
    assert ended.code == (0 if ended.document["ok"] else 1)
    found = [check for check in ended.document["checks"] if not check["ok"]]
    assert bool(cure) == bool(found), "a trouble has a cure, and nothing else has"
    assert cure in " ".join(check["advice"] for check in found)
    return [check["name"] for check in found]


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        # Whoever still waits is told now, and must not say so in the next test. The port stays ours until
        # then: who comes late would meet another test's server there.
        hanging_up = threading.Thread(target=hang_up, args=(server,))
        hanging_up.start()
        for thread in threading.enumerate():
            if thread.name == THREADS:
                thread.join()
        server.shutdown(socket.SHUT_RDWR)
        hanging_up.join()


def hang_up(server: socket.socket) -> None:
    """End each connection, until the server ends."""
    with suppress(OSError):
        while True:
            server.accept()[0].close()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_a_sound_set_up_has_no_finding(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("HOLDFAST_WRITE_MODE", mode)
    assert holdfast("submit", "-", "--run-id", "a", *github.options, stdin="{}").code == 0
    assert holdfast("drain", *github.options).code == 0

    ended = holdfast("doctor", "--json", *github.options)

    assert failed(ended) == []
    told = {check["name"]: check["detail"] for check in ended.document["checks"]}
    assert told["token"] == "of holdfast, without an end that GitHub tells"
    assert told["branch"] == "checkpoints"
    assert told["format"] == "format 1, 1 run looked at"
    assert "the-good-token" not in ended.out + ended.err


def test_people_see_a_line_for_each_check_and_what_to_do(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_MIN_FREE_BYTES", str(10**18))

    ended = holdfast("doctor")

    assert ended.code == 1
    assert "FAILED  data folder" in ended.out
    assert "→ Free some space, or choose another disk with HOLDFAST_DATA_DIR" in ended.out
    assert "ok      github" in ended.out


def test_the_embedded_github_is_in_order(holdfast: Holdfast) -> None:
    assert failed(holdfast("doctor", "--json")) == []


def test_a_variable_that_is_no_setting_is_found(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_REOP", "you/x")

    assert failed(holdfast("doctor", "--json"), "unset it") == ["settings"]


def test_a_data_folder_that_cannot_be_made_is_found(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    ended = holdfast("doctor", "--json", "--data-dir", str(tmp_path / "file" / "data"))

    assert ended.code == 1
    assert failed(ended, "HOLDFAST_DATA_DIR") == ["data folder", "spool"]


@pytest.mark.slow
def test_what_is_set_aside_is_found(holdfast: Holdfast, github: GitHub) -> None:
    github.emulator.switch(secret_marker="canary")
    holdfast("submit", "-", "--run-id", "a", *github.options, stdin='{"a": "canary"}')
    holdfast("drain", *github.options)

    ended = holdfast("doctor", "--json", *github.options)

    assert failed(ended, "holdfast spool restore") == ["spool"]


def test_a_missing_token_is_found(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_TOKEN")

    assert failed(holdfast("doctor", "--json", *github.options), "Set HOLDFAST_TOKEN") == ["token"]


@pytest.mark.parametrize(
    ("text", "cure"),
    [("revoked", "a valid token in HOLDFAST_TOKEN"), ("with a blank", "without quotes, blanks")],
)
def test_a_bad_token_is_found_and_not_shown(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch, text: str, cure: str
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", f"canary-{text}")

    ended = holdfast("doctor", "--json", *github.options)

    assert failed(ended, cure) == ["github"]
    assert "token" in json.dumps(ended.document).lower()
    assert "canary" not in ended.out + ended.err


def test_a_repository_that_is_not_there_is_found(holdfast: Holdfast, github: GitHub) -> None:
    github.emulator.switch(repository_gone=True)

    ended = holdfast("doctor", "--json", *github.options)

    assert failed(ended, "HOLDFAST_REPO") == ["github"]


def test_a_token_that_may_not_write_is_found(holdfast: Holdfast, github: GitHub) -> None:
    github.emulator.switch(read_only=True)

    ended = holdfast("doctor", "--json", *github.options)

    assert failed(ended, "contents: read and write") == ["permission"]


@pytest.mark.slow
@pytest.mark.parametrize("switch", ["protected_branches", "ruled_branches"])
def test_a_guarded_branch_is_found(holdfast: Holdfast, github: GitHub, switch: str) -> None:
    holdfast("submit", "-", "--run-id", "a", "--wait", *github.options, stdin="{}")
    github.emulator.switch(**{switch: frozenset({"checkpoints"})})

    assert failed(holdfast("doctor", "--json", *github.options), "HOLDFAST_BRANCH") == ["branch"]


def test_no_server_is_found(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", "t")
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"

    ended = holdfast("doctor", "--json", "--repo", "you/x", "--api-url", url)

    assert failed(ended, "HOLDFAST_API_URL") == ["github"]


def test_a_server_that_hangs_is_found(
    holdfast: Holdfast, silent_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", "t")
    monkeypatch.setattr("holdfast.doctor.examination.LONGEST_S", 0.0)
    monkeypatch.setattr("holdfast.doctor.examination.LEAST_S", 0.3)

    ended = holdfast("doctor", "--json", "--repo", "you/x", "--api-url", silent_server)

    assert failed(ended, "HOLDFAST_API_URL") == ["github"]
    assert "did not answer" in ended.out


@pytest.mark.slow
def test_whatever_hangs_is_found_and_keeps_none_of_the_others(
    holdfast: Holdfast, silent_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", "t")
    monkeypatch.setenv("HOLDFAST_SHARDS", "you/a,you/b,you/c")
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", silent_server.replace("http://", "postgresql://me@") + "/x")
    monkeypatch.setattr("holdfast.doctor.examination.LONGEST_S", 0.0)
    monkeypatch.setattr("holdfast.doctor.examination.LEAST_S", 0.2)

    ended = holdfast("doctor", "--json", "--api-url", silent_server)

    shards = [f"github (you/{name})" for name in "abc"]
    assert failed(ended, "can be reached") == ["database", "spool", *shards]


@pytest.mark.slow
def test_a_key_file_that_hangs_is_found(
    holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setenv("HOLDFAST_ENCRYPTION_KEY_FILE", str(pipe))
    monkeypatch.setattr("holdfast.doctor.examination.LONGEST_S", 0.0)
    monkeypatch.setattr("holdfast.doctor.examination.LEAST_S", 0.5)

    ended = holdfast("doctor", "--json")
    os.close(os.open(pipe, os.O_WRONLY))  # whoever reads it has an end

    assert "keys" in failed(ended, "its settings name")
    names = [check["name"] for check in ended.document["checks"]]
    assert names[:3] == ["settings", "keys", "data folder"]


def test_what_a_command_had_to_load_counts_as_well(
    silent_server: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", "t")
    monkeypatch.setenv("HOLDFAST_REPO", "you/x")
    monkeypatch.setenv("HOLDFAST_API_URL", silent_server)
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(tmp_path))
    monkeypatch.setattr("holdfast.doctor.examination.LONGEST_S", 600.0)
    monkeypatch.setattr("holdfast.doctor.examination.LEAST_S", 0.1)
    monkeypatch.setattr("holdfast.assembly.way_to_github.INSPECTION_TIMEOUT_S", 600.0)

    with Library.from_env() as hf:
        diagnosis = examine(hf._assembly, began=time.monotonic() - 600.0)

    assert "github" in [check.name for check in diagnosis.checks if not check.ok]


def test_who_answers_is_heard_however_long_the_machine_took_to_load(
    github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_REPO", "holdfast/checkpoints")
    monkeypatch.setenv("HOLDFAST_API_URL", github.url)
    monkeypatch.setattr("holdfast.doctor.examination.LEAST_S", 600.0)

    with Library.from_env() as hf:
        diagnosis = examine(hf._assembly, began=time.monotonic() - 600.0)

    assert diagnosis.ok


@pytest.mark.slow
def test_a_server_without_graphql_is_found_where_it_is_needed(holdfast: Holdfast, github: GitHub) -> None:
    github.emulator.change_options(graphql=False)

    assert failed(holdfast("doctor", "--json", *github.options)) == []
    ended = holdfast("doctor", "--json", "--write-mode", "commit", *github.options)
    assert failed(ended, "HOLDFAST_WRITE_MODE=contents") == ["graphql"]


def test_a_wrong_clock_is_found(holdfast: Holdfast, github: GitHub) -> None:
    github.emulator.change_options(clock_offset_s=7200.0)

    assert failed(holdfast("doctor", "--json", *github.options), "NTP") == ["clock"]


def test_a_token_near_its_end_is_told_and_one_past_it_is_found(holdfast: Holdfast, github: GitHub) -> None:
    github.emulator.change_options(token_expires="2000-01-01 00:00:00 UTC")

    assert failed(holdfast("doctor", "--json", *github.options), "HOLDFAST_TOKEN_FILE") == ["token"]


@pytest.mark.slow
def test_a_newer_format_is_found(holdfast: Holdfast, github: GitHub) -> None:
    holdfast("submit", "-", "--run-id", "a", "--wait", *github.options, stdin="{}")
    body = {
        "message": "from tomorrow",
        "branch": "checkpoints",
        "content": b64encode(b'{"format_version": 99}').decode(),
    }
    httpx.put(
        f"{github.url}/repos/holdfast/checkpoints/contents/checkpoints/b/latest.json",
        json=body,
        headers={"Authorization": "token the-good-token"},
    ).raise_for_status()

    assert failed(holdfast("doctor", "--json", *github.options), "pgrade") == ["format"]


@pytest.mark.slow
def test_while_github_asks_us_to_stay_away_it_is_not_asked(holdfast: Holdfast, github: GitHub) -> None:
    github.emulator.change_options(primary_limit=0)
    holdfast("doctor", "--json", *github.options)
    before = len(github.emulator.journal.entries)

    ended = holdfast("doctor", "--json", *github.options)

    assert failed(ended) == []
    assert "stay away" in ended.out
    assert len(github.emulator.journal.entries) == before


@pytest.mark.slow
def test_keys_are_looked_at_where_they_are_set(
    holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "seal.key"
    monkeypatch.setenv("HOLDFAST_ENCRYPTION_KEY_FILE", str(file))
    assert "keys" in failed(holdfast("doctor", "--json"), "holdfast keys new")
    file.write_text(holdfast("keys", "new").out)
    file.chmod(0o644)
    assert "keys" in failed(holdfast("doctor", "--json"), "chmod 600")
    file.chmod(0o600)
    assert "keys" not in failed(holdfast("doctor", "--json"))


@pytest.mark.slow
def test_checkpoints_that_no_key_here_opens_are_found(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_ENCRYPTION_KEY", holdfast("keys", "new").out.strip())
    holdfast("submit", "-", "--run-id", "a", "--wait", *github.options, stdin='{"answer": 42}')
    assert failed(holdfast("doctor", "--json", *github.options)) == []

    monkeypatch.setenv("HOLDFAST_ENCRYPTION_KEY", holdfast("keys", "new").out.strip())
    ended = holdfast("doctor", "--json", *github.options)

    assert failed(ended, "HOLDFAST_ENCRYPTION_KEY") == ["sealed states"]
    assert "0 of 1 sealed checkpoints" in ended.out


@pytest.mark.slow
def test_sealed_checkpoints_on_a_machine_without_a_key_are_found(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_ENCRYPTION_KEY", holdfast("keys", "new").out.strip())
    holdfast("submit", "-", "--run-id", "a", "--wait", *github.options, stdin="{}")
    monkeypatch.delenv("HOLDFAST_ENCRYPTION_KEY")

    ended = holdfast("doctor", "--json", *github.options)

    assert failed(ended, "HOLDFAST_ENCRYPTION_KEY") == ["sealed states"]


def test_a_database_that_is_away_is_found(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", f"postgresql://me:canary@127.0.0.1:{port}/holdfast")

    ended = holdfast("doctor", "--json", *github.options)

    assert "database" in failed(ended, "HOLDFAST_DATABASE_URL")
    assert "canary" not in ended.out + ended.err


@pytest.mark.slow
def test_a_database_that_refuses_us_is_found_beside_all_else(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", postgres_url(tmp_path).replace("/postgres?", "/none?"))

    ended = holdfast("doctor", "--json", *github.options)

    assert {"database", "spool"} <= set(failed(ended, "that HOLDFAST_DATABASE_URL leads to it"))
    assert "does not exist" in ended.out


@pytest.mark.slow
def test_a_database_that_does_not_sync_is_found(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The tests' own server is quick because it does not sync.
    monkeypatch.setenv("HOLDFAST_DATABASE_URL", postgres_url(tmp_path))

    ended = holdfast("doctor", "--json", *github.options)

    assert failed(ended, "fsync = on") == ["database"]


def test_a_full_spool_is_found(holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_MAX_SPOOL_ITEMS", "1")
    holdfast("submit", "-", "--run-id", "a", *github.options, stdin="{}")

    ended = holdfast("doctor", "--json", *github.options)

    assert failed(ended, "HOLDFAST_MAX_SPOOL_ITEMS") == ["spool"]


@pytest.mark.slow
def test_what_kept_the_last_drain_from_github_is_found(holdfast: Holdfast, github: GitHub) -> None:
    holdfast("submit", "-", "--run-id", "a", *github.options, stdin="{}")
    github.emulator.switch(read_only=True)
    holdfast("drain", *github.options)

    ended = holdfast("doctor", "--json", *github.options)

    assert "permission" in failed(ended, "contents: read and write")


def test_a_diagnosis_closes_the_client_that_it_opens(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[GitHubClient] = []
    close = GitHubClient.close

    def close_and_tell(client: GitHubClient) -> None:
        closed.append(client)
        close(client)

    monkeypatch.setattr(GitHubClient, "close", close_and_tell)
    monkeypatch.setenv("HOLDFAST_REPO", "holdfast/checkpoints")
    monkeypatch.setenv("HOLDFAST_API_URL", github.url)
    with Library.from_env() as hf:
        for number in (1, 2):
            assert examine(hf._assembly).ok
            assert len(closed) == number
