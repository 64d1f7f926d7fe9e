"""Checkpoint files: what is in them is told by their names, and what is good in them is found."""

import json

import pytest

from holdfast.errors import IntegrityFailure, NewerFormat
from holdfast.format.stored_file import open_contents, split_file
from tests.fakes.saved import stamped

ONE, TWO = (stamped({"n": number}, sequence=number, checkpoints=[1, 2]) for number in (1, 2))
BATCH = b'{"checkpoints":[%s,%s],"batch_metadata":{}}' % (ONE.content, TWO.content)


@pytest.mark.parametrize("name", ["cp_001_manual.json", "latest.json"])
def test_file_that_is_not_named_as_a_batch_is_one_checkpoint(name: str) -> None:
    assert split_file(ONE.content, f"checkpoints/r/{name}") == [ONE.content]
    assert split_file(BATCH, name) == [BATCH]


def test_file_that_is_named_as_a_batch_is_one() -> None:
    assert split_file(BATCH, "checkpoints/r/batch_1_2.json") == [ONE.content, TWO.content]


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"{", "expected"), (b"{}", "holds no checkpoints"), (b'{"checkpoints":3}', "array")],
)
def test_batch_that_is_none_is_told(content: bytes, reason: str) -> None:
    with pytest.raises(IntegrityFailure, match=reason):
        split_file(content, "batch_1_2.json")


def test_good_checkpoints_of_a_damaged_batch_are_found() -> None:
    contents = open_contents(BATCH.replace(b'"n":2', b'"n":3'), "batch_1_2.json")

    assert list(contents.envelopes) == [1]
    assert [entry.sequence for entry in contents.entries("batch_1_2.json")] == [1]
    assert [failure.path for failure in contents.failures] == ["batch_1_2.json"]


def test_entry_of_an_older_format_names_no_blob() -> None:
    document = json.loads(ONE.content)
    del document["integrity"], document["format_version"]

    contents = open_contents(json.dumps(document).encode(), "cp_001_manual.json")

    assert [(entry.sequence, entry.blob_sha) for entry in contents.entries("x")] == [(1, "")]


def test_newer_format_is_told_as_such() -> None:
    body = json.loads(ONE.content)
    del body["integrity"]
    text = json.dumps({**body, "format_version": 9}, sort_keys=True, separators=(",", ":"))
    from hashlib import sha256

    digest = sha256(text.encode()).hexdigest()
    content = f'{text[:-1]},"integrity":{{"sha256":"{digest}"}}}}'.encode()

    with pytest.raises(NewerFormat):
        open_contents(content, "cp_001_manual.json")
