"""`action.yml`, the program behind it and the README's examples say the same."""

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from holdfast.action.inputs import PREFIX

ROOT = Path(__file__).resolve().parents[3]
METADATA: dict[str, Any] = YAML(typ="safe").load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEP: dict[str, Any] = METADATA["runs"]["steps"][0]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES: list[dict[str, Any]] = [
    YAML(typ="safe").load(text)
    for text in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    if "OWNER/" in text
]


def example_steps() -> list[dict[str, Any]]:
    jobs = [job for example in EXAMPLES for job in example["jobs"].values()]
    return [step for job in jobs for step in job.get("steps", [])]


def test_every_input_goes_to_the_program_by_the_environment_alone() -> None:
    passed = {
        PREFIX + name.upper().replace("-", "_"): f"${{{{ inputs.{name} }}}}" for name in METADATA["inputs"]
    }

    assert STEP["env"] == passed
    assert "${{" not in STEP["run"]


def test_every_output_is_the_steps_own() -> None:
    values = {name: output["value"] for name, output in METADATA["outputs"].items()}

    assert values == {name: f"${{{{ steps.{STEP['id']}.outputs.{name} }}}}" for name in values}


def test_a_failure_before_the_program_starts_breaks_no_build_either() -> None:
    assert STEP["continue-on-error"] == "${{ inputs.fail-on-error != 'true' }}"


def test_the_program_is_started_so_that_signals_reach_it() -> None:
    assert STEP["run"] == 'exec "$GITHUB_ACTION_PATH/scripts/action"'
    assert (ROOT / "scripts" / "action").stat().st_mode & 0o111


def test_the_readme_names_every_input_and_output() -> None:
    section = README[README.index("## GitHub Action") : README.index("## Promises")]
    names = {*METADATA["inputs"], *METADATA["outputs"]} - {"matrix"}

    assert {name for name in names if f"`{name}`" not in section} == set()


@pytest.mark.parametrize(
    "step", [step for step in example_steps() if "OWNER/" in step.get("uses", "")], ids=str
)
def test_an_example_uses_inputs_that_there_are(step: dict[str, Any]) -> None:
    assert step["with"].keys() <= METADATA["inputs"].keys()
    assert step["with"]["command"] in ("save", "resume", "drain", "complete", "cleanup")


def test_the_examples_use_outputs_that_there_are() -> None:
    used = set(re.findall(r"steps\.checkpoint\.outputs\.([a-z-]+)", README))

    assert used
    assert used <= METADATA["outputs"].keys()


def test_every_example_grants_the_permission_that_is_needed() -> None:
    for example in EXAMPLES:
        granted = [example.get("permissions"), *(job.get("permissions") for job in example["jobs"].values())]
        assert {"contents": "write"} in granted


def test_an_example_completes_only_what_it_has_saved() -> None:
    for job in (job for example in EXAMPLES for job in example["jobs"].values()):
        used = [step["with"] for step in job.get("steps", []) if "OWNER/" in step.get("uses", "")]
        saved = [given.get("run-id") for given in used if given["command"] == "save"]
        assert {given.get("run-id") for given in used if given["command"] == "complete"} <= set(saved)


def test_the_examples_cover_what_people_come_for() -> None:
    commands = {step["with"]["command"] for step in example_steps() if "OWNER/" in step.get("uses", "")}

    assert commands == {"save", "resume", "drain", "complete"}
    assert any(
        "cleanup.yml" in str(job.get("uses")) for example in EXAMPLES for job in example["jobs"].values()
    )
