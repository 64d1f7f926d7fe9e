"""`holdfast keys`: what it prints."""

import json

import pytest

from holdfast.security.keys import parse_keys

from .conftest import Holdfast


def test_new_key_is_one_line_that_the_setting_takes(holdfast: Holdfast) -> None:
    one, two = holdfast("keys", "new"), holdfast("keys", "new", "--json")
    assert one.code == two.code == 0
    keys = parse_keys(one.out + two.out, "encryption")
    assert len(keys) == 2
    assert all(key.is_shared for key in keys)


def test_pair_is_printed_whole_and_then_its_public_half(holdfast: Holdfast) -> None:
    for option, purpose in (("--recipient", "encryption"), ("--signing", "signing")):
        private, public = map(json.loads, holdfast("keys", "new", option).out.splitlines())
        assert public == {name: value for name, value in private.items() if name != "d"}
        assert parse_keys(json.dumps(public), purpose)[0].kid == private["kid"]
        document = json.loads(holdfast("keys", "new", option, "--json").out)
        assert set(document) == {"private", "public"}


def test_key_is_of_one_kind(holdfast: Holdfast) -> None:
    assert holdfast("keys", "new", "--recipient", "--signing").code == 2


@pytest.mark.slow
def test_rotate_says_what_it_did(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    holdfast("submit", "-", "--run-id", "r", "--wait", stdin='{"n": 1}')
    monkeypatch.setenv("HOLDFAST_ENCRYPTION_KEY", holdfast("keys", "new").out)
    done = holdfast("keys", "rotate", "--all")
    assert (done.code, done.out) == (0, "1 checkpoint sealed with the newest key, in 1 run.\n")
    again = holdfast("keys", "rotate", "r", "--json")
    assert again.document == {"runs": [{"run_id": "r", "sealed": 0, "left": []}]}
    monkeypatch.setenv("HOLDFAST_ENCRYPTION_KEY", holdfast("keys", "new").out)
    left = holdfast("keys", "rotate", "r")
    assert left.code == 1
    assert "left as it is: " in left.err
    resumed = holdfast("resume", "r")
    assert resumed.code == 1
    assert "which is not here" in resumed.err


def test_rotate_takes_one_run_or_all(holdfast: Holdfast) -> None:
    assert holdfast("keys", "rotate").code == 2
    assert holdfast("keys", "rotate", "r", "--all").code == 2


@pytest.mark.slow
def test_without_the_key_reading_fails_with_its_id_and_all_else_works(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = holdfast("keys", "new").out
    monkeypatch.setenv("HOLDFAST_ENCRYPTION_KEY", key)
    for number in (1, 2):
        holdfast("submit", "-", "--run-id", "r", "--wait", stdin=json.dumps({"n": number}))
    monkeypatch.delenv("HOLDFAST_ENCRYPTION_KEY")

    for words in (
        ["resume", "r"],
        ["show", "r"],
        ["diff", "r", "1", "2"],
        ["replay", "r"],
        ["fork", "r", "1", "f"],
    ):
        ended = holdfast(*words)
        assert (ended.code, ended.out) == (1, ""), words
        assert f"sealed with key {json.loads(key)['kid']}, which is not here" in ended.err
    for words in (
        ["list", "r"],
        ["validate", "r"],
        ["runs"],
        ["stats", "r"],
        ["cleanup", "--squash-history"],
    ):
        assert holdfast(*words).code == 0, words


@pytest.mark.slow
def test_unsigned_checkpoints_are_marked_and_named(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = holdfast("keys", "new", "--signing").out.splitlines()[0]
    monkeypatch.setenv("HOLDFAST_SIGNING_KEY", pair)
    holdfast("submit", "-", "--run-id", "r", "--wait", stdin='{"n": 1}')
    monkeypatch.delenv("HOLDFAST_SIGNING_KEY")
    holdfast("submit", "-", "--run-id", "r", "--wait", stdin='{"n": 2}')
    monkeypatch.setenv("HOLDFAST_SIGNING_KEY", pair)

    listed = holdfast("list", "r", "--json").document["checkpoints"]
    assert [each["signature"] for each in listed] == ["valid", "missing"]
    assert [line.split()[-1] for line in holdfast("list", "r").out.splitlines()[1:]] == ["valid", "missing"]
    validated = holdfast("validate", "r")
    assert validated.code == 1
    assert "cp_002_manual.json  it is not signed" in validated.out
    resumed = holdfast("resume", "r", "--json")
    assert (resumed.code, resumed.document["state"]) == (0, {"n": 1})
    assert any("not signed" in warning for warning in resumed.document["warnings"])
