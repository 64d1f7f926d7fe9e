"""`action.yml` and the program behind it say the same. tests/docs has the examples."""

from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from holdfast.action.inputs import PREFIX

ROOT = Path(__file__).resolve().parents[3]
METADATA: dict[str, Any] = YAML(typ="safe").load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEP: dict[str, Any] = METADATA["runs"]["steps"][0]


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
    # But one that asks to drive a run alone must not go on as if it did.
    assert STEP["continue-on-error"] == "${{ inputs.fail-on-error != 'true' && inputs.claim != 'true' }}"


def test_the_program_is_started_so_that_signals_reach_it() -> None:
    assert STEP["run"] == 'exec "$GITHUB_ACTION_PATH/scripts/action"'
    assert (ROOT / "scripts" / "action").stat().st_mode & 0o111
