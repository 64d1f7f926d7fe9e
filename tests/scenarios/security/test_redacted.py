"""Credentials that a workflow saves are not in the repository, spool, cache, logs or metrics."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.errors import InvalidCheckpoint, Refused
from holdfast.format.checkpoint import draft_from_mapping
from holdfast.format.redacted import MARK
from holdfast.settings import Settings
from tests.fakes.credentials import MAKERS, Forger, make_all
from tests.fakes.traces import find_traces

OWN_TOKEN = "a-token-that-holdfast-holds-0123456789"
API_TOKEN = "another-one-of-the-sidecar-0123456789"
ID = "0b5e3c3e-5a5e-4b8e-9d8a-0d2f6d1f8f10"


def open_holdfast(folder: Path, **variables: str) -> Holdfast:
    variables = {"HOLDFAST_DATA_DIR": str(folder), "HOLDFAST_TOKEN": OWN_TOKEN} | variables
    return Holdfast(Settings.from_environment({**variables, "HOLDFAST_API_TOKEN": API_TOKEN}))


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_corpus_leaves_no_trace(tmp_path: Path, mode: str, capfd: pytest.CaptureFixture[str]) -> None:
    corpus = make_all(seed=23, number=200)
    texts = [text for _, text, _ in corpus] + [f"with {OWN_TOKEN}", f"and {API_TOKEN}"]
    secrets = [secret for _, _, secret in corpus if "\n" not in secret] + [OWN_TOKEN, API_TOKEN]
    with closing(open_holdfast(tmp_path, HOLDFAST_WRITE_MODE=mode, HOLDFAST_LOG_LEVEL="debug")) as holdfast:
        receipt = holdfast.save("r", {"all": texts}, context={"log": "\n".join(texts)}, workflow=texts[0])
        for number, text in enumerate(texts[:40]):
            body = {"trigger": "manual", "state": {text: [json.dumps({"in": text})]}, "extra": text}
            holdfast.submit(json.dumps(body).encode(), run_id=f"run-{number % 3}")
        assert find_traces(tmp_path, *secrets) == []
        assert holdfast.drain().verified == 41
        plan = holdfast.resume("r")
        status = json.dumps(holdfast.status(), default=str)

    assert receipt.redacted is not None
    assert len(receipt.redacted) >= 200
    assert len(plan.warnings) >= 200
    assert plan.state["all"][0] == MARK
    assert find_traces(tmp_path, *secrets) == []
    output = "".join(capfd.readouterr()) + status
    assert [secret for secret in secrets if secret in output] == []


def test_same_checkpoint_again_is_answered_as_the_first_time(tmp_path: Path) -> None:
    token = MAKERS["github-token"][0](Forger())
    with closing(open_holdfast(tmp_path)) as holdfast:
        first = holdfast.save("r", {"token": token, "n": 1}, checkpoint_id=ID)
        again = holdfast.save("r", {"token": token, "n": 1}, checkpoint_id=ID)
        with pytest.raises(InvalidCheckpoint, match="other content"):
            holdfast.save("r", {"token": token, "n": 2}, checkpoint_id=ID)
    assert again == first


def test_own_tokens_go_also_with_redaction_off(tmp_path: Path) -> None:
    token = MAKERS["github-token"][0](Forger())
    with closing(open_holdfast(tmp_path, HOLDFAST_REDACT="off")) as holdfast:
        holdfast.submit(json.dumps({"trigger": "manual", "state": [OWN_TOKEN, token]}).encode(), run_id="r")
        assert holdfast.resume("r").state == [MARK, token]


def test_final_checkpoint_still_says_what_was_taken_out(tmp_path: Path) -> None:
    with closing(open_holdfast(tmp_path)) as holdfast:
        holdfast.save("r", {"key": MAKERS["npm-token"][0](Forger())})
        holdfast.complete("r")
        warnings = holdfast.resume("r").warnings
    assert [warning for warning in warnings if "/state_snapshot/key" in warning and "npm-token" in warning]


def test_what_push_protection_set_aside_goes_back_without_its_secret(tmp_path: Path) -> None:
    token = MAKERS["github-token"][0](Forger())
    with closing(open_holdfast(tmp_path)) as holdfast:
        ids = [put_unredacted(holdfast, {"n": 1, "token": token}), put_unredacted(holdfast, {"n": 2})]
        spool = holdfast._assembly.spool
        for item in spool.pending():
            spool.set_aside(item, str(Refused("r", "push protection", "secret_detected", "")))

        restored = holdfast.restore(redact=True)

        assert restored == ids[:1]
        assert [each.item.checkpoint_id for each in spool.set_aside_entries()] == ids[1:]
        assert holdfast.drain().verified == 1
        assert holdfast.resume("r", at=1).state == {"n": 1, "token": MARK}
    assert find_traces(tmp_path / "github", token) == []


def test_run_that_is_called_like_a_credential_is_not_preserved(tmp_path: Path) -> None:
    token = MAKERS["github-token"][0](Forger())
    with closing(open_holdfast(tmp_path)) as holdfast:
        with pytest.raises(InvalidCheckpoint, match="holds, a credential"):
            holdfast.preserve(token)
        assert holdfast.preserve("r")
    assert find_traces(tmp_path, token) == []


def put_unredacted(holdfast: Holdfast, state: Any) -> str:
    """Put a checkpoint into the spool as one that took nothing out did."""
    mapping = {"run_id": "r", "trigger": "manual", "state": state}
    number = state["n"]
    draft = draft_from_mapping(mapping, now="2026-11-17T10:00:00Z", new_id=lambda: ID[:-1] + str(number))
    return holdfast._assembly.spool.put(draft).checkpoint_id
