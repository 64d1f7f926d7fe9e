"""The job, and the run_id that it gives its checkpoints."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.action.job import Job
from holdfast.format.ids import parse_run_id

ENVIRONMENT = {
    "GITHUB_WORKFLOW": "CI",
    "GITHUB_RUN_ID": "1234567890",
    "GITHUB_RUN_ATTEMPT": "1",
    "GITHUB_JOB": "build",
    "GITHUB_REPOSITORY": "owner/name",
    "GITHUB_SHA": "a" * 40,
    "GITHUB_REF": "refs/heads/main",
    "GITHUB_SERVER_URL": "https://github.example.com",
    "RUNNER_TEMP": "/runner/temp",
}


def job(matrix: str = "", **changes: str) -> Job:
    return Job.from_environment({**ENVIRONMENT, **changes}, matrix=matrix)


def test_a_run_id_is_made_of_workflow_run_and_job() -> None:
    assert job().default_run_id() == "CI-1234567890-build"


def test_another_attempt_has_the_same_run_id() -> None:
    assert job(GITHUB_RUN_ATTEMPT="2").default_run_id() == job().default_run_id()


@pytest.mark.parametrize("matrix", ["", "null", "{}", " {} \n"])
def test_a_job_without_a_matrix_has_nothing_of_one_in_its_run_id(matrix: str) -> None:
    assert job(matrix).default_run_id() == "CI-1234567890-build"


def test_jobs_of_a_matrix_have_run_ids_of_their_own_that_people_can_tell_apart() -> None:
    first = job('{"os": "ubuntu-24.04", "python": "3.11"}').default_run_id()
    second = job('{"os": "ubuntu-24.04", "python": "3.12"}').default_run_id()

    assert first != second
    assert first.startswith("CI-1234567890-build-ubuntu-24-04")


def test_the_order_and_the_spacing_of_matrix_values_do_not_matter() -> None:
    assert (
        job('{"a": 1, "b": 2}').default_run_id().rpartition("-")[2]
        == job('{\n  "b": 2,\n  "a": 1\n}').default_run_id().rpartition("-")[2]
    )


def test_a_workflow_without_a_name_goes_by_its_file() -> None:
    workflow = ".github/workflows/nightly build.yml"

    assert job(GITHUB_WORKFLOW=workflow).default_run_id() == "nightly-build-1234567890-build"


@pytest.mark.parametrize("workflow", ["", "...", "con.x", '"; rm -rf / #', "Ünïcödé", "x" * 500, "../../etc"])
def test_a_run_id_is_good_whatever_the_workflow_is_called(workflow: str) -> None:
    run_id = job(GITHUB_WORKFLOW=workflow).default_run_id()

    assert parse_run_id(run_id) == run_id
    assert run_id.endswith("1234567890-build")


@given(workflow=st.text(), name=st.text(), matrix=st.text(), number=st.text())
def test_any_variables_make_a_good_run_id(workflow: str, name: str, matrix: str, number: str) -> None:
    run_id = Job(workflow, number, "1", name, "", "", "", "", Path(), matrix).default_run_id()

    assert parse_run_id(run_id) == run_id


def test_a_checkpoint_is_told_which_job_saved_it() -> None:
    assert job().context() == {
        "workflow": "CI",
        "run_id": "1234567890",
        "run_attempt": "1",
        "job": "build",
        "repository": "owner/name",
        "sha": "a" * 40,
        "ref": "refs/heads/main",
        "url": "https://github.example.com/owner/name/actions/runs/1234567890",
    }


def test_a_file_is_linked_on_the_server_of_the_job() -> None:
    url = job().file_url("owner/name", "check points", "checkpoints/a b/c).json")

    assert url == "https://github.example.com/owner/name/blob/check%20points/checkpoints/a%20b/c%29.json"


def test_outside_of_a_runner_there_is_still_a_place_for_files() -> None:
    bare = Job.from_environment({})

    assert bare.temp.is_absolute()
    assert bare.server_url == "https://github.com"
