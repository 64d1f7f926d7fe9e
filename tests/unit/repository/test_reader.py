"""Loading and resuming, whatever has become of the files, of GitHub and of the spool."""

import gc
import json
import shutil
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from structlog.testing import capture_logs

from holdfast.errors import (
    GatewayError,
    IntegrityFailure,
    NewerFormat,
    Refused,
    Throttled,
    Unavailable,
    UnknownRun,
)
from holdfast.format.git_ids import blob_sha
from holdfast.github.calls import ReadBlob, ReadBlobs, ReadFile, ReadHeadIfChanged, ReadPage
from holdfast.github.wrappers.retrying import RetryingGateway
from holdfast.repository.reader import Reader
from holdfast.repository.sources import GitHubSource
from holdfast.repository.stored_run import StoredRun
from holdfast.repository.validate import Validator
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.saved import stamped
from tests.fakes.workshop import Workshop, open_workshop

FOLDER = "checkpoints/r"
FORMATS = Path(__file__).parents[3] / "fixtures/formats"

AWAY = [
    Unavailable("x", "no answer"),
    Throttled("x", "limit", kind="primary", retry_after_s=60),
    Refused("x", "bad token", kind="auth", advice="Give a good one."),
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[MemoryGateway, Path]:
    """A repository with three checkpoints of a run, and the folder of the machine that wrote them."""
    repository, folder = MemoryGateway(), tmp_path_factory.mktemp("writer")
    repository.write_as_someone_else(BRANCH, {"README.md": b""})
    with open_workshop(folder, repository) as workshop:
        store(workshop, 1, 2, 3)
    return repository, folder


@pytest.fixture
def repository(stored: tuple[MemoryGateway, Path]) -> MemoryGateway:
    return deepcopy(stored[0])


@pytest.fixture
def workshop(
    tmp_path: Path, repository: MemoryGateway, stored: tuple[MemoryGateway, Path]
) -> Iterator[Workshop]:
    """The machine that wrote them."""
    shutil.copytree(stored[1], tmp_path / "writer")
    with open_workshop(tmp_path / "writer", repository) as workshop:
        yield workshop


@pytest.fixture
def stranger(tmp_path: Path, repository: MemoryGateway) -> Iterator[Workshop]:
    """Another machine, which has seen nothing yet."""
    with open_workshop(tmp_path / "stranger", repository) as stranger:
        yield stranger


def store(workshop: Workshop, *numbers: int) -> None:
    for number in numbers:
        workshop.save(state={"n": number})
        workshop.worker.drain()


def damage(repository: MemoryGateway, name: str, content: bytes | None = b"{") -> None:
    repository.write_as_someone_else(BRANCH, {f"{FOLDER}/{name}": content})


def state_of(workshop: Workshop, run_id: str = "r") -> Any:
    return workshop.reader.resume(run_id).state["n"]


def test_newest_is_read_from_the_latest(stranger: Workshop) -> None:
    plan = stranger.reader.resume("r")

    assert (plan.state, plan.sequence_number, plan.source) == ({"n": 3}, 3, "github")
    assert plan.warnings == []


def test_a_look_loses_nothing_that_is_drained_meanwhile(workshop: Workshop) -> None:
    workshop.save(state={"n": 4})
    resume = Reader.resume

    def resume_and_drain(reader: Reader, run_id: str) -> Any:
        reader.list_checkpoints(run_id)  # so that it is at this commit that all is read
        plan = resume(reader, run_id)
        workshop.worker.drain()
        return plan

    with patch.object(Reader, "resume", resume_and_drain):
        index, plan = workshop.reader.look_at("r")

    assert plan.sequence_number == 4
    assert [entry.sequence for entry in index.entries] == [1, 2, 3, 4]


def test_first_resume_costs_two_requests_and_the_second_one_conditional_one(
    stranger: Workshop, repository: MemoryGateway
) -> None:
    repository.calls.clear()
    stranger.reader.resume("r")
    assert len(repository.calls) == 2

    repository.calls.clear()
    stranger.reader.resume("r")
    (call,) = repository.calls
    assert isinstance(call, ReadHeadIfChanged)
    assert call.etag


def test_resume_after_a_write_of_ones_own_asks_for_no_content(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    repository.calls.clear()

    assert state_of(workshop) == 3
    assert repository.count(ReadBlob) == repository.count(ReadFile) == 0


def test_new_commit_is_noticed(stranger: Workshop, workshop: Workshop) -> None:
    assert state_of(stranger) == 3
    store(workshop, 4)

    assert state_of(stranger) == 4


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"trigger":"manual"}'], ids=repr)
def test_missing_or_bad_latest_is_made_good_by_the_index(
    stranger: Workshop, repository: MemoryGateway, content: bytes | None
) -> None:
    damage(repository, "latest.json", content)

    plan = stranger.reader.resume("r")

    assert (plan.state, plan.sequence_number) == ({"n": 3}, 3)
    assert plan.warnings[0].startswith(f"{FOLDER}/latest.json: ")


def test_bad_newest_file_too_leaves_the_one_before(stranger: Workshop, repository: MemoryGateway) -> None:
    damage(repository, "latest.json", None)
    damage(repository, "cp_003_manual.json", b'{"checkpoint_id":"x"}')

    plan = stranger.reader.resume("r")

    assert plan.sequence_number == 2
    assert [warning.split(":")[0] for warning in plan.warnings] == [
        f"{FOLDER}/latest.json",
        f"{FOLDER}/cp_003_manual.json",
    ]


@pytest.mark.parametrize("content", [None, b"[]", b'{"run_id":"other","checkpoints":[]}'])
def test_without_a_good_index_the_files_tell_it(
    stranger: Workshop, repository: MemoryGateway, content: bytes | None
) -> None:
    damage(repository, "latest.json", None)
    damage(repository, "index.json", content)

    plan = stranger.reader.resume("r")

    assert plan.sequence_number == 3
    assert any("index.json" in warning for warning in plan.warnings)


def test_file_that_the_index_names_and_that_is_not_there_is_told(
    stranger: Workshop, repository: MemoryGateway
) -> None:
    damage(repository, "latest.json", None)
    damage(repository, "cp_003_manual.json", None)

    plan = stranger.reader.resume("r")

    assert plan.sequence_number == 2
    assert f"{FOLDER}/cp_003_manual.json: the index names it, but it is not there" in plan.warnings


def test_latest_that_is_behind_is_not_the_newest(stranger: Workshop, repository: MemoryGateway) -> None:
    old = repository.files(BRANCH)[f"{FOLDER}/cp_001_manual.json"]
    damage(repository, "latest.json", old)

    plan = stranger.reader.resume("r")

    assert plan.sequence_number == 3
    assert "latest.json: it holds checkpoint 1, but 3 is stored as well" in plan.warnings[0]


def test_latest_that_is_behind_is_still_better_than_damaged_files(
    stranger: Workshop, repository: MemoryGateway
) -> None:
    damage(repository, "latest.json", repository.files(BRANCH)[f"{FOLDER}/cp_002_manual.json"])
    damage(repository, "cp_003_manual.json")

    assert stranger.reader.resume("r").sequence_number == 2


def test_when_nothing_is_good_that_is_said_with_every_file(
    stranger: Workshop, repository: MemoryGateway
) -> None:
    for name in ("latest.json", "cp_001_manual.json", "cp_002_manual.json", "cp_003_manual.json"):
        damage(repository, name)

    with pytest.raises(IntegrityFailure, match=r"no checkpoint in it is good: .*latest\.json.*cp_003"):
        stranger.reader.resume("r")


def test_unknown_run_is_told_as_such(stranger: Workshop) -> None:
    with pytest.raises(UnknownRun, match="there is no run 'nobody'"):
        stranger.reader.resume("nobody")


def test_archived_run_is_told_as_such(stranger: Workshop, repository: MemoryGateway) -> None:
    repository.write_as_someone_else(BRANCH, {"checkpoints/old/summary.json": b"{}"})

    with pytest.raises(UnknownRun, match="archived"):
        stranger.reader.resume("old")


def test_repository_without_the_branch_has_no_runs(tmp_path: Path) -> None:
    with open_workshop(tmp_path, MemoryGateway()) as workshop:
        with pytest.raises(UnknownRun):
            workshop.reader.resume("r")
        assert workshop.reader.list_runs() == []


def test_spooled_checkpoint_is_newer_and_github_is_not_asked(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save(state={"n": 4})
    repository.calls.clear()

    plan = workshop.reader.resume("r")

    assert (plan.state, plan.sequence_number, plan.source) == ({"n": 4}, 4, "spool")
    assert repository.calls == []


def test_spooled_checkpoint_counts_as_newest_even_under_a_smaller_number(stranger: Workshop) -> None:
    stranger.save(state={"n": "spooled"})

    assert stranger.reader.resume("r").state == {"n": "spooled"}


def test_checkpoint_set_aside_is_used_if_nothing_newer_is_stored(workshop: Workshop) -> None:
    receipt = workshop.save(state={"n": 4})
    (item,) = workshop.spool.pending()
    workshop.spool.set_aside(item, "GitHub found a secret in it")

    plan = workshop.reader.resume("r")

    assert (plan.checkpoint_id, plan.source) == (receipt.checkpoint_id, "spool")
    assert "GitHub found a secret in it" in plan.warnings[-1]
    store(workshop, 5)
    assert workshop.reader.resume("r").state == {"n": 5}


def test_checkpoint_set_aside_is_used_if_there_is_nothing_else(tmp_path: Path) -> None:
    with open_workshop(tmp_path, MemoryGateway()) as workshop:
        workshop.save(state={"n": 1})
        workshop.spool.set_aside(workshop.spool.pending()[0], "refused")

        plan = workshop.reader.resume("r")

    assert (plan.state, plan.source) == ({"n": 1}, "spool")


@pytest.mark.parametrize("error", AWAY, ids=lambda error: type(error).__name__)
def test_with_github_away_what_was_written_here_is_there(
    workshop: Workshop, repository: MemoryGateway, error: GatewayError
) -> None:
    repository.fail_next(ReadHeadIfChanged, error, times=9)

    plan = workshop.reader.resume("r")

    assert (plan.state, plan.source) == ({"n": 3}, "cache")
    assert str(error) in plan.warnings[0]
    assert workshop.reader.resume("r", at=1).state == {"n": 1}
    assert [run.run_id for run in workshop.reader.list_runs()] == ["r"]
    assert [entry.sequence for entry in workshop.reader.list_checkpoints("r").entries] == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_with_github_away_large_and_batched_ones_are_there_too(
    tmp_path: Path, repository: MemoryGateway, mode: str
) -> None:
    with open_workshop(tmp_path, repository, mode=mode, max_file_bytes=20_000) as workshop:
        for number in range(30):
            workshop.save(state={"n": number, "output": "x" * (30_000 if number == 29 else 10)})
        workshop.worker.drain()
        repository.fail_next(ReadHeadIfChanged, AWAY[0], times=9)

        plan = workshop.reader.resume("r")

        assert (plan.state["n"], len(plan.state["output"]), plan.source) == (29, 30_000, "cache")


def open_retrying(workshop: Workshop, repository: MemoryGateway) -> tuple[Reader, VirtualClock]:
    """Return a reader that repeats its reads as the real one does."""
    clock = VirtualClock()
    patient = RetryingGateway(repository, sleep=clock.sleep, attempts=4, random_share=lambda: 1.0)
    hasty = RetryingGateway(repository, sleep=clock.sleep, attempts=1)
    return replace(workshop.reader, gateway=patient, hasty=hasty), clock


def test_with_github_away_nobody_waits_for_what_is_here(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    reader, clock = open_retrying(workshop, repository)
    repository.fail_next(ReadHeadIfChanged, AWAY[0], times=99)

    assert reader.resume("r").source == "cache"
    assert reader.read_checkpoint("r").sequence == 3
    assert len(reader.list_runs()) == 1
    assert len(reader.list_checkpoints("r").entries) == len(reader.history("r").envelopes) == 3
    workshop.save("spooled", state={"n": 1})
    assert len(reader.list_checkpoints("spooled").entries) == len(reader.history("spooled").envelopes) == 1
    assert clock.slept == []


def test_without_a_local_answer_reads_are_repeated(stranger: Workshop, repository: MemoryGateway) -> None:
    reader, clock = open_retrying(stranger, repository)
    repository.fail_next(ReadHeadIfChanged, AWAY[0], times=3)

    assert reader.resume("r").source == "github"
    assert clock.slept == [0.5, 1.0, 2.0]


def test_validation_is_patient_since_it_is_about_github(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    reader, clock = open_retrying(workshop, repository)
    repository.fail_next(ReadHeadIfChanged, AWAY[0])

    assert Validator(reader).check_run("r").is_valid
    assert clock.slept == [0.5]


def test_with_github_away_what_was_read_before_is_there(
    stranger: Workshop, repository: MemoryGateway
) -> None:
    stranger.reader.resume("r")
    repository.fail_next(ReadHeadIfChanged, AWAY[0])

    assert stranger.reader.resume("r").source == "cache"


def test_with_github_away_and_nothing_known_it_is_an_error(
    stranger: Workshop, repository: MemoryGateway
) -> None:
    repository.fail_next(ReadHeadIfChanged, AWAY[0], times=2)

    with pytest.raises(Unavailable):
        stranger.reader.resume("r")
    with pytest.raises(Unavailable):
        stranger.reader.list_runs()


def test_github_that_goes_away_half_way_is_away(stranger: Workshop, repository: MemoryGateway) -> None:
    stranger.reader.resume("r")
    repository.write_as_someone_else(BRANCH, {f"{FOLDER}/latest.json": stamped({"n": 9}, sequence=9).content})
    repository.fail_next(ReadPage, AWAY[0], times=2)

    plan = stranger.reader.resume("r")

    assert plan.source == "cache"
    assert plan.warnings


def test_any_checkpoint_can_be_asked_for_by_number(stranger: Workshop) -> None:
    plan = stranger.reader.resume("r", at=2)

    assert (plan.state, plan.sequence_number) == ({"n": 2}, 2)
    with pytest.raises(UnknownRun, match="no checkpoint 7"):
        stranger.reader.resume("r", at=7)


def test_damaged_one_that_was_asked_for_is_refused_not_replaced(
    stranger: Workshop, repository: MemoryGateway
) -> None:
    damage(repository, "cp_002_manual.json")

    with pytest.raises(IntegrityFailure) as failure:
        stranger.reader.resume("r", at=2)

    assert failure.value.path == f"{FOLDER}/cp_002_manual.json"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (stamped({"n": 0}, run_id="other", sequence=3).content, "it belongs to run 'other'"),
        (stamped({"n": 0}, sequence=2).content, "it does not hold checkpoint 3"),
        (stamped({"n": 0}, sequence=3).content, "the index says that it holds checkpoint"),
        (stamped({"n": 0}, sequence=3).content[:-1], "expected"),
        (b"\xff\xfe", "UTF-8"),
        (b"[" * 100_000, "levels"),
    ],
    ids=["wrong run", "swapped", "replaced", "truncated", "binary", "deep"],
)
def test_hostile_file_is_named_and_skipped(
    stranger: Workshop, repository: MemoryGateway, content: bytes, reason: str
) -> None:
    damage(repository, "latest.json", None)
    damage(repository, "cp_003_manual.json", content)

    plan = stranger.reader.resume("r")

    assert plan.sequence_number == 2
    (warning,) = [warning for warning in plan.warnings if "cp_003" in warning]
    assert reason in warning


def test_latest_of_another_run_is_skipped(stranger: Workshop, repository: MemoryGateway) -> None:
    damage(repository, "latest.json", stamped({"n": 0}, run_id="other", sequence=9).content)

    plan = stranger.reader.resume("r")

    assert plan.sequence_number == 3
    assert "belongs to run 'other'" in plan.warnings[0]


@pytest.mark.slow
def test_file_that_is_too_large_is_not_even_read(stranger: Workshop, repository: MemoryGateway) -> None:
    damage(repository, "cp_004_manual.json", b" " * (101 * 1024 * 1024))
    repository.calls.clear()

    plan = stranger.reader.resume("r")

    assert plan.sequence_number == 3
    assert "105,906,176 bytes" in plan.warnings[-1]
    assert blob_sha(b" " * (101 * 1024 * 1024)) not in [getattr(call, "sha", "") for call in repository.calls]


def test_batch_that_claims_a_billion_checkpoints_is_named_and_skipped(
    stranger: Workshop, repository: MemoryGateway
) -> None:
    damage(repository, "batch_1_999999999.json", b"{}")

    plan = stranger.reader.resume("r")

    assert plan.sequence_number == 3
    assert any(warning.startswith(f"{FOLDER}/batch_1_999999999.json: ") for warning in plan.warnings)


@pytest.mark.slow
@pytest.mark.parametrize("parts", [3, ["state_snapshot"], [["state_snapshot", "x"]], [[]], "all", {"a": 1}])
def test_list_of_parts_that_makes_no_sense_is_named_and_skipped(
    stranger: Workshop, repository: MemoryGateway, parts: Any
) -> None:
    document = json.loads(stamped({"n": 4}, sequence=4).content)
    del document["integrity"]
    text = json.dumps({**document, "parts": parts}, separators=(",", ":")).encode()
    damage(repository, "cp_004_manual.json", restamp(text))

    plan = stranger.reader.resume("r")

    assert plan.sequence_number == 3
    assert any("cp_004" in warning for warning in plan.warnings)


def test_part_of_another_place_is_never_read(stranger: Workshop, repository: MemoryGateway) -> None:
    document = json.loads(
        stamped({"n": {"$part": "README.md", "sha256": "x", "bytes": 0}}, sequence=4).content
    )
    del document["integrity"]
    text = json.dumps({**document, "parts": [["state_snapshot", "n"]]}, separators=(",", ":")).encode()
    damage(repository, "cp_004_manual.json", restamp(text))
    repository.calls.clear()

    plan = stranger.reader.resume("r")

    assert plan.sequence_number == 3
    assert any("README.md" in warning and "no part of it" in warning for warning in plan.warnings)
    assert repository.count(ReadFile) == 0


def restamp(text: bytes) -> bytes:
    import hashlib

    ordered = json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha256(ordered.encode()).hexdigest()
    return text[:-1] + b',"integrity":{"sha256":"' + digest.encode() + b'"}}'


def test_good_checkpoint_of_a_batch_is_found_beside_a_damaged_one(
    stranger: Workshop, repository: MemoryGateway
) -> None:
    four, five = (stamped({"n": number}, sequence=number).content for number in (4, 5))
    content = b'{"checkpoints":[%s,%s],"batch_metadata":{}}' % (four, five.replace(b'"n":5', b'"n":6'))
    damage(repository, "batch_4_5.json", content)

    plan = stranger.reader.resume("r")

    assert (plan.sequence_number, plan.state) == (4, {"n": 4})
    assert any("batch_4_5.json" in warning for warning in plan.warnings)


def test_newer_format_is_refused_with_its_version(stranger: Workshop, repository: MemoryGateway) -> None:
    newer = (FORMATS / "2_newer.json").read_bytes()
    run_id = json.loads(newer)["run_id"]
    repository.write_as_someone_else(BRANCH, {f"checkpoints/{run_id}/latest.json": newer})

    with pytest.raises(NewerFormat, match="format 2 is newer than this Holdfast reads"):
        stranger.reader.resume(run_id)


def test_newer_format_that_is_damaged_is_only_damaged(stranger: Workshop, repository: MemoryGateway) -> None:
    damage(repository, "latest.json", (FORMATS / "2_newer.json").read_bytes().replace(b"REQ-118", b"REQ-119"))

    assert stranger.reader.resume("r").sequence_number == 3


def test_specifications_own_format_is_read_with_a_warning(
    stranger: Workshop, repository: MemoryGateway
) -> None:
    older = (FORMATS / "0_specification.json").read_bytes()
    run_id = json.loads(older)["run_id"]
    repository.write_as_someone_else(BRANCH, {f"checkpoints/{run_id}/latest.json": older})

    plan = stranger.reader.resume(run_id)

    assert plan.resume_at == "phase_2"
    assert plan.state == json.loads(older)["state_snapshot"]
    assert "has no integrity" in plan.warnings[0]


def test_checkpoint_in_the_specifications_format_is_shown_with_a_warning_that_says_so(
    stranger: Workshop, repository: MemoryGateway
) -> None:
    older = (FORMATS / "0_specification.json").read_bytes()
    run_id = json.loads(older)["run_id"]
    repository.write_as_someone_else(BRANCH, {f"checkpoints/{run_id}/latest.json": older})

    with capture_logs() as logs:
        stranger.reader.read_checkpoint(run_id)

    assert [(each["event"], "no integrity" in each["cause"]) for each in logs] == [
        ("checkpoint_read_with_warning", True)
    ]


def test_agent_that_failed_too_often_sends_the_plan_back_through_spool_and_store(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    def save(workshop: Workshop, status: str) -> None:
        progress = {"style": "agents", "phase": 1, "agents": {"m": {"status": status}}}
        workshop.save("agents", trigger="error", state={"progress": progress})

    with open_workshop(tmp_path, repository) as workshop:
        for status in ("active", "failed", "failed", "failed"):
            save(workshop, status)
        workshop.worker.drain()
        save(workshop, "failed")

        plan = workshop.reader.resume("agents")

    assert plan.sequence_number == 1
    assert "recovery attempts" in plan.warnings[0]


def test_lost_history_does_not_keep_an_agents_run_from_resuming(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    progress = {"style": "agents", "phase": 1, "agents": {"m": {"status": "failed"}}}
    with open_workshop(tmp_path, repository) as workshop:
        workshop.save("agents", trigger="error", state={"progress": progress})
        repository.fail_next(ReadHeadIfChanged, AWAY[0])

        plan = workshop.reader.resume("agents")

    assert plan.retry_current
    assert plan.warnings == ["earlier checkpoints could not be read (x: no answer)"]


def test_agent_that_failed_too_often_is_not_given_up_because_github_is_away(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    def save(workshop: Workshop, **agent: object) -> None:
        progress = {"style": "agents", "phase": 1, "agents": {"m": agent}}
        workshop.save("agents", trigger="error", state={"progress": progress})

    with open_workshop(tmp_path, repository) as workshop:
        save(workshop, status="active")
        workshop.worker.drain()
        save(workshop, status="failed", recovery_attempts=3)
        repository.fail_next(ReadHeadIfChanged, AWAY[0])

        away, back = workshop.reader.resume("agents"), workshop.reader.resume("agents")

    assert away.review is not None
    assert away.review.reason == "m failed too often, and what the run could go back to cannot be read now"
    assert away.warnings[1] == "earlier checkpoints could not be read (x: no answer)"
    assert away.warnings[2].endswith("resume again once GitHub answers, so that the run can go back")
    assert (back.sequence_number, back.needs_review) == (1, False)


def test_lessons_and_dag_of_today_are_compared(workshop: Workshop) -> None:
    workshop.save(state={"active_lessons": ["a"], "progress": {"style": "phases"}})

    assert "lessons" in workshop.reader.resume("r", active_lessons=[]).warnings[0]


@pytest.mark.slow
def test_history_is_every_good_checkpoint_in_order_with_few_requests(
    stranger: Workshop, workshop: Workshop, repository: MemoryGateway
) -> None:
    store(workshop, *range(4, 13))
    damage(repository, "cp_005_manual.json")
    stranger.save(state={"n": 99})
    repository.calls.clear()

    history = stranger.reader.history("r")

    assert [envelope.sequence for envelope in history.envelopes][-2:] == [11, 12]
    assert len(history.envelopes) == 12
    assert any("cp_005" in warning for warning in history.warnings)
    assert repository.count(ReadBlobs) == 1
    assert len(repository.calls) <= 5


def test_listing_of_a_run_without_an_index_is_made_from_the_files(
    stranger: Workshop, repository: MemoryGateway
) -> None:
    damage(repository, "index.json", None)

    index = stranger.reader.list_checkpoints("r")

    assert [entry.sequence for entry in index.entries] == [1, 2, 3]


@pytest.mark.slow
def test_what_was_read_for_an_answer_goes_with_it(workshop: Workshop) -> None:
    """A sidecar seldom collects garbage: whole indexes and states would wait for it."""
    reader = workshop.reader

    def alive() -> set[int]:
        return {id(each) for each in gc.get_objects() if isinstance(each, StoredRun | GitHubSource)}

    gc.disable()
    try:
        before = alive()
        reader.list_runs()
        reader.resume("r")
        reader.list_checkpoints("r")
        left = alive() - before
    finally:
        gc.enable()

    assert not left
