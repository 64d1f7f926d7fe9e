import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import SpoolFull
from holdfast.format.checkpoint import draft_from_text
from holdfast.format.receipt import Receipt
from holdfast.importing.importer import Importer
from holdfast.queue import Queue
from tests.fakes.spooling import open_spool

SAMPLES = Path(__file__).parents[3] / "fixtures/importer_formats"


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Queue]:
    spool = open_spool(tmp_path)
    yield spool
    spool.close()


@pytest.fixture
def importer(spool: Queue) -> Importer:
    def submit(text: bytes) -> Receipt:
        return spool.put(draft_from_text(text, now="2026-11-16T10:00:00Z", new_id=str))

    return Importer(submit, spool.receipt)


def read(*names: str) -> list[tuple[str, bytes]]:
    return [(name, (SAMPLES / name).read_bytes()) for name in names]


def test_every_native_sample_is_taken_in_once(importer: Importer, spool: Queue) -> None:
    sources = read(*sorted(path.name for path in SAMPLES.iterdir()))

    first = importer.take_in(sources)
    again = importer.take_in(sources)

    assert {each.outcome for each in first} == {"migrated"}
    assert {each.outcome for each in again} == {"known"}
    assert [each.checkpoint_id for each in first] == [each.checkpoint_id for each in again]
    assert len(spool.pending()) == len(first) == len(sources) + 1  # one of the files has two rows


def test_history_is_taken_in_by_its_times_whatever_the_order_of_the_files(importer: Importer) -> None:
    imports = importer.take_in(
        read(
            "session_failed.json",
            "session_before_step.json",
            "session_interrupted.json",
            "session_completed.json",
        )
    )

    assert [(each.source, each.sequence_number) for each in imports] == [
        ("session_completed.json", 1),
        ("session_before_step.json", 2),
        ("session_interrupted.json", 3),
        ("session_failed.json", 4),
    ]


def test_what_was_not_migrated_is_told_with_the_reason_and_does_not_stop_the_others(
    importer: Importer,
) -> None:
    odd_name = json.dumps({**json.loads((SAMPLES / "task_state.json").read_bytes()), "id": "../x"}).encode()
    imports = importer.take_in(
        [
            ("text.json", b"hello"),
            ("empty.json", b"[]"),
            ("odd.json", b'[{"x":1},%s]' % (SAMPLES / "task_state.json").read_bytes()),
            ("name.json", odd_name),
        ]
    )

    outcomes = {each.source: each for each in imports}
    assert outcomes["odd.json#1"].outcome == "migrated"
    assert outcomes["odd.json#0"].reason is not None
    assert "none of these" in outcomes["odd.json#0"].reason
    assert "not JSON" in str(outcomes["text.json"].reason)
    assert "no checkpoint in it" in str(outcomes["empty.json"].reason)
    assert "run_id" in str(outcomes["name.json"].reason)
    assert [each.outcome for each in imports].count("refused") == 4


def test_flaws_of_the_progress_are_noted(importer: Importer) -> None:
    session = json.loads((SAMPLES / "session_failed.json").read_bytes())
    session["completed_steps"] = []

    (one,) = importer.take_in([("s.json", json.dumps(session).encode())])

    assert one.outcome == "migrated"
    assert "not completed: 0, 1" in one.notes[-1]


def test_changed_content_under_a_known_uuid_is_refused(importer: Importer) -> None:
    loop = json.loads((SAMPLES / "agentic_loop.json").read_bytes())
    importer.take_in([("a.json", json.dumps(loop).encode())])

    (one,) = importer.take_in([("a.json", json.dumps({**loop, "phase": 9}).encode())])

    assert one.outcome == "refused"
    assert "other content" in str(one.reason)


def test_full_spool_is_told(spool: Queue) -> None:
    def refuse(_text: bytes) -> Receipt:
        raise SpoolFull("the spool is full")

    (one,) = Importer(refuse, spool.receipt).take_in(read("agentic_loop.json"))

    assert (one.outcome, one.reason) == ("refused", "the spool is full")
