import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import InvalidCheckpoint
from holdfast.format.checkpoint import draft_from_text, stamp
from holdfast.importing.formats import Conversion, convert, recognise, split_documents
from holdfast.importing.formats.sessions import parse_duration_s, parse_variant
from holdfast.jsontext.encode import encode_exact
from holdfast.jsontext.parse import parse_exact
from holdfast.styles.resume import ResumePlan, plan_resume

SAMPLES = Path(__file__).parents[3] / "fixtures/importer_formats"

# file, place in it, format, run, style, where it goes on, whether that is repeated
CASES = [
    ("agentic_loop.json", 0, "agentic-loop checkpoint", "task_20261102_081500", 3, True),
    ("agentic_loop_states.json", 0, "agentic-loop checkpoint", "task_20261102_090000", 1, False),
    ("task_state.json", 0, "task state", "eval-plan.json-1704628900", "train", True),
    ("session_before_step.json", 0, "workflow checkpoint", "session-def456", 2, True),
    ("session_completed.json", 0, "workflow checkpoint", "session-def456", 2, False),
    ("session_failed.json", 0, "workflow checkpoint", "session-def456", 2, True),
    ("session_interrupted.json", 0, "workflow checkpoint", "session-def456", 2, True),
    ("session_mapreduce.json", 0, "workflow checkpoint", "session-map-7", 2, True),
    ("session_state.json", 0, "workflow session state", "session-old-1", 2, True),
    ("session_execution_state.json", 0, "earlier workflow checkpoint", "session-old-2", 2, True),
    ("checkpoint_rows.json", 0, "checkpoint row", "wf-invoices", 1, False),
    ("checkpoint_rows.json", 1, "checkpoint row", "wf-invoices", 2, False),
    ("specification.json", 0, "checkpoint", "0b54f0f2-6f0e-4f0c-8a5e-3b1d2c4e5f60", "phase_2", False),
]


def load(name: str, place: int = 0) -> Any:
    return split_documents((SAMPLES / name).read_bytes())[place]


def plan_of(conversion: Conversion) -> ResumePlan:
    draft = draft_from_text(conversion.to_bytes(), now="2026-11-16T10:00:00Z", new_id=str)
    return plan_resume(stamp(draft.body(1)))


def changed(name: str, **fields: Any) -> Any:
    document = json.loads((SAMPLES / name).read_bytes())
    return parse_exact(json.dumps({**document, **fields}).encode())


@pytest.mark.parametrize(("name", "place", "kind", "run_id", "resume_at", "is_repeated"), CASES)
def test_every_native_sample_is_recognised_converted_and_planned(
    name: str, place: int, kind: str, run_id: str, resume_at: Any, is_repeated: bool
) -> None:
    document = load(name, place)
    conversion = convert(document)

    plan = plan_of(conversion)

    assert recognise(document) == conversion.format == kind
    assert (conversion.run_id, plan.resume_at, plan.retry_current) == (run_id, resume_at, is_repeated)
    assert plan.warnings == (["agent mercury_1 is blocked: quota"] if name == "agentic_loop.json" else [])


def test_no_sample_is_without_a_case() -> None:
    assert {path.name for path in SAMPLES.iterdir()} == {case[0] for case in CASES}


def test_own_uuid_is_kept_and_else_the_content_makes_one() -> None:
    assert convert(load("agentic_loop.json")).checkpoint_id == "6b0f2c1e-94f4-4d0e-8a51-f2f3a8b0c111"
    assert convert(load("checkpoint_rows.json")).checkpoint_id == "c0a8012e-7b1a-4b6e-8f0d-3b8f6a7e4444"
    first, again = convert(load("task_state.json")), convert(load("task_state.json"))
    assert first.checkpoint_id == again.checkpoint_id
    assert first.to_bytes() == again.to_bytes()
    assert (
        convert(changed("task_state.json", updated_at="2026-11-03T08:00:00Z")).checkpoint_id
        != first.checkpoint_id
    )


def test_id_that_is_no_uuid_is_replaced_and_told() -> None:
    conversion = convert(changed("agentic_loop.json", checkpoint_id="ckpt-7"))

    assert "'ckpt-7' is no UUID" in conversion.notes[0]


def test_numbers_are_kept_to_the_last_digit() -> None:
    document = parse_exact(
        (SAMPLES / "session_failed.json").read_bytes().replace(b"0.1", b"0.10000000000000000001")
    )

    assert b'"threshold":0.10000000000000000001' in convert(document).to_bytes()


def test_what_has_no_place_is_kept_in_the_context() -> None:
    context = json.loads(convert(load("session_failed.json")).to_bytes())["context_fields"]["imported"]

    assert context == {"format": "workflow checkpoint", "version": 1, "integrity_hash": "2f1d9d0c4f7f0a5d"}


def test_rust_spellings_become_ours() -> None:
    progress = json.loads(convert(load("session_interrupted.json")).to_bytes())["state_snapshot"]["progress"]

    assert progress["state"] == {"kind": "interrupted", "step_index": 2, "in_progress": True}
    assert progress["workflow_type"] == {"kind": "iterative", "max_iterations": 4, "current_iteration": 2}
    assert progress["completed_steps"][0]["duration_s"] == 12.345
    assert progress["completed_steps"][1]["duration_s"] == 3


@pytest.mark.parametrize(
    ("value", "variant"),
    [
        ("Standard", ("standard", {})),
        ({"MapReduce": {"job_id": "j"}}, ("map_reduce", {"job_id": "j"})),
        ({"kind": "failed", "step_index": 1}, ("failed", {"step_index": 1})),
        (None, None),
        ({"A": 1, "B": 2}, None),
        ({"A": 1}, None),
    ],
)
def test_enums_are_read_however_they_are_tagged(value: Any, variant: Any) -> None:
    assert parse_variant(value) == variant


def test_duration_that_is_none_is_left_alone() -> None:
    assert parse_duration_s({"secs": "x"}) == {"secs": "x"}
    assert parse_duration_s(None) is None


def test_state_without_a_step_is_taken_as_after_the_last_completed_one() -> None:
    conversion = convert(changed("session_failed.json", state="Interrupted"))

    assert plan_of(conversion).resume_at == 2
    assert "names no step" in conversion.notes[0]


@pytest.mark.parametrize(
    ("reason", "trigger"),
    [
        ("BeforeStep", "before_step"),
        ("Signal", "interrupted"),
        ("Whim", "step_failed"),
        (None, "step_failed"),
    ],
)
def test_reason_is_the_trigger_and_else_the_state_is(reason: str | None, trigger: str) -> None:
    conversion = convert(changed("session_failed.json", reason=reason))

    assert conversion.checkpoint["trigger"] == trigger


@pytest.mark.parametrize(
    ("stated", "status"),
    [
        ("pending", "in_progress"),
        ("running", "in_progress"),
        ("completed", "completed"),
        ("failed", "failed"),
        ("odd", "in_progress"),
    ],
)
def test_status_of_a_build_becomes_the_runs(stated: str, status: str) -> None:
    assert convert(changed("task_state.json", status=stated)).checkpoint["status"] == status


def test_times_that_never_were_are_null() -> None:
    tasks = json.loads(convert(load("task_state.json")).to_bytes())["state_snapshot"]["progress"]["tasks"]

    assert tasks["score"] == {"status": "pending", "started_at": None, "completed_at": None}


def test_columns_as_text_are_read_and_layers_worked_out_from_dependencies() -> None:
    conversion = convert(load("checkpoint_rows.json", 1))
    progress = json.loads(conversion.to_bytes())["state_snapshot"]["progress"]

    assert progress["dag_structure"]["layers"] == [["extract"], ["transform"], ["load"]]
    assert progress["tasks"][0]["task_id"] == "extract"
    assert "worked out" in conversion.notes[0]


def test_tasks_that_wait_for_one_another_cannot_be_put_into_layers() -> None:
    row = {**json.loads((SAMPLES / "checkpoint_rows.json").read_bytes())[0]}
    row["dag_structure"] = {"tasks": [{"id": "a", "dependsOn": ["b"]}, {"id": "b", "dependencies": ["a"]}]}

    conversion = convert(parse_exact(json.dumps(row).encode()))

    assert "neither layers nor tasks" in conversion.notes[0]


@pytest.mark.parametrize(
    ("timestamp", "taken", "note"),
    [
        ("2026-11-02T08:19:22", "2026-11-02T08:19:22Z", "taken as UTC"),
        ("yesterday", None, "is no time"),
        (None, None, "has no time"),
        (1730535562, None, "has no time"),
    ],
)
def test_time_is_taken_as_far_as_it_is_one(timestamp: Any, taken: str | None, note: str) -> None:
    conversion = convert(changed("agentic_loop.json", timestamp=timestamp))

    assert conversion.timestamp == taken
    assert note in conversion.notes[0]


def test_run_is_named_by_the_caller_only_where_the_document_does_not() -> None:
    nameless = changed("agentic_loop.json", workflow_id=None)

    assert convert(nameless, run_id="mine").run_id == "mine"
    assert convert(load("agentic_loop.json"), run_id="mine").run_id == "task_20261102_081500"
    with pytest.raises(InvalidCheckpoint, match="--run-id"):
        convert(nameless)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (3, "it is none of these"),
        ({"x": 1}, "it is none of these"),
        ([], "it is none of these"),
        (changed("agentic_loop.json", phase="two"), "phase"),
        (changed("session_failed.json", state={"Paused": {}}), "state"),
        (changed("session_failed.json", state=3), "state"),
        (changed("task_state.json", id=None), "--run-id"),
        ({**load("checkpoint_rows.json"), "state": "{"}, "state"),
        ({**load("checkpoint_rows.json"), "dag_structure": "[]"}, "dag_structure"),
        ({**load("checkpoint_rows.json"), "layer_index": None}, "layer_index"),
    ],
)
def test_what_cannot_be_taken_in_is_refused_with_the_reason(document: Any, reason: str) -> None:
    with pytest.raises(InvalidCheckpoint, match=reason):
        convert(document)


def test_rows_lists_and_batches_are_split() -> None:
    one = (SAMPLES / "task_state.json").read_bytes()

    assert len(split_documents(b"[%s,%s]" % (one, one))) == 2
    assert len(split_documents(b'{"rows":[%s]}' % one)) == 1
    assert len(split_documents(b'{"checkpoints":[%s,%s],"batch_metadata":{}}' % (one, one))) == 2
    assert encode_exact(split_documents(one)[0])


def test_an_earlier_checkpoint_file_keeps_what_its_steps_say() -> None:
    checkpoint = json.loads(convert(load("session_execution_state.json")).to_bytes())
    progress = checkpoint["state_snapshot"]["progress"]

    assert [(each["step_index"], each["command"]) for each in progress["completed_steps"]] == [
        (0, "lint"),
        (1, "test"),
    ]
    assert progress["completed_steps"][0]["duration_s"] == 1.5
    assert (progress["total_steps"], progress["variables"]) == (4, {"version": "1.20"})
    assert (checkpoint["status"], checkpoint["trigger"]) == ("interrupted", "interrupted")
    imported = checkpoint["context_fields"]["imported"]
    assert imported["execution_state"]["start_time"] == "2025-11-26T10:00:00Z"
    assert imported["workflow_hash"] == "abc"


def test_a_session_state_that_names_its_steps_is_taken_in() -> None:
    document = parse_exact(
        b'{"id": "s", "current_step": 1, "completed_steps": ["lint"], "status": "Completed"}'
    )

    checkpoint = json.loads(convert(document).to_bytes())

    assert checkpoint["state_snapshot"]["progress"]["completed_steps"] == [
        {"step_index": 0, "command": "lint"}
    ]
    assert (checkpoint["status"], checkpoint["trigger"]) == ("completed", "run_complete")


@pytest.mark.parametrize(
    ("execution_state", "place"),
    [("Running", "execution_state"), ({"status": "Running"}, "execution_state.current_step")],
)
def test_an_execution_state_without_a_step_is_refused(execution_state: Any, place: str) -> None:
    with pytest.raises(InvalidCheckpoint) as refused:
        convert(changed("session_execution_state.json", execution_state=execution_state))

    assert refused.value.place == place


def test_json_lines_are_a_document_each() -> None:
    assert split_documents(b'{"a": 1}\n\n{"a": 2}\n') == split_documents(b'[{"a": 1}, {"a": 2}]')


@pytest.mark.parametrize(
    ("text", "place"), [(b'{"a": 1}\n{"a": \n', "line 2"), (b'{"a":\n1', ""), (b'{"a": 1} x', "")]
)
def test_what_is_neither_json_nor_json_lines_is_refused(text: bytes, place: str) -> None:
    with pytest.raises(InvalidCheckpoint) as refused:
        split_documents(text)

    assert refused.value.place.startswith(place)
