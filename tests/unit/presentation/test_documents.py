"""The documents that commands and calls share."""

from dataclasses import replace

from holdfast.format.index import Index, IndexEntry
from holdfast.presentation.documents import list_document

FIRST = IndexEntry(
    1, "a", "manual", "2026-11-17T10:00:00Z", "checkpoints/r/cp_001_manual.json", "failed", "b"
)
PROMISED = ["sequence", "checkpoint_id", "trigger", "timestamp", "file_path", "status"]


def test_a_checkpoint_is_listed_with_what_is_promised_and_no_more() -> None:
    document = list_document(Index("r", (FIRST, replace(FIRST, sequence=2, checkpoint_id="c", fence=3))))

    assert document["run_id"] == "r"
    assert [list(line) for line in document["checkpoints"]] == [PROMISED, PROMISED]
    assert document["checkpoints"][0]["status"] == "failed"


def test_what_applies_to_some_is_there_for_them_alone() -> None:
    late = replace(FIRST, sequence=3, checkpoint_id="late", fence=1)
    index = Index("r", (replace(FIRST, fence=2), late))

    unsigned = list_document(index)["checkpoints"]
    signed = list_document(index, {"a": "valid"})["checkpoints"]

    assert [line.get("fenced") for line in unsigned] == [None, True]
    assert [(line["signature"], line.get("fenced")) for line in signed] == [("valid", None), (None, True)]
