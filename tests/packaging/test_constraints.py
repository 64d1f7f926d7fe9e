"""The constraints file pins what pyproject.toml asks for, and says nothing of where it comes from."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = ROOT / "scripts" / "constraints.txt"
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
REQUIREMENTS: list[str] = [
    *PYPROJECT["project"]["dependencies"],
    *PYPROJECT["project"]["optional-dependencies"]["dev"],
    *PYPROJECT["build-system"]["requires"],
]


def read_pins() -> dict[str, str]:
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_each_line_is_a_name_and_an_exact_version_and_names_no_host_or_path() -> None:
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()

    strange = [
        line for line in lines[1:] if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*==[0-9][a-z0-9.]*", line)
    ]

    assert strange == []
    assert re.fullmatch(r"# [\w ,./]+", lines[0])
    assert "://" not in lines[0]


@pytest.mark.parametrize("wanted", REQUIREMENTS)
def test_a_requirement_is_pinned_to_a_version_that_it_admits(wanted: str) -> None:
    requirement = Requirement(wanted)

    assert requirement.specifier.contains(read_pins()[canonicalize_name(requirement.name)])


@pytest.mark.parametrize("wanted", REQUIREMENTS)
def test_a_requirement_of_the_package_names_no_place_to_fetch_it_from(wanted: str) -> None:
    assert Requirement(wanted).url is None
