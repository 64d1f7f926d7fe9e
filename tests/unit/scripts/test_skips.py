"""Tests that need a PostgreSQL are not skipped in silence, and in CI not at all."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_WITHOUT = """
import sys
import pytest
from tests.fakes import postgres

def find_programs():
    raise postgres.NoPostgres("none here")

postgres.find_programs = find_programs
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "tests/unit/queue/postgres/test_lease.py"]))
"""


def run_without_postgres(**environment: str) -> tuple[int, str]:
    """Run a file of tests of the shared queue where there is no PostgreSQL."""
    ended = subprocess.run(
        [sys.executable, "-c", _WITHOUT],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout


@pytest.mark.processes
def test_without_postgres_they_are_skipped_and_the_last_lines_say_so() -> None:
    code, said = run_without_postgres()

    assert code == 0
    assert " error" not in said
    assert " skipped, NOT TESTED: the shared queue needs a PostgreSQL: none here ===" in said


@pytest.mark.processes
def test_in_ci_they_fail_instead() -> None:
    code, said = run_without_postgres(CI="1")

    assert code == 1
    assert "NoPostgres: none here" in said
    assert "skipped" not in said


def test_what_runs_in_ci_says_that_it_is_ci() -> None:
    assert "export CI=${CI:-1}" in (ROOT / ".ci" / "run").read_text("utf-8")
