"""The job that the step runs in, from the runner's own variables."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from urllib.parse import quote

_WORKFLOW_FILE = re.compile(r"(?:.*/)?\.github/workflows/(?P<name>[^/]+?)\.ya?ml(?:@.*)?")
_FOREIGN = re.compile(r"[^A-Za-z0-9_]+")
_MOST_OF_A_WORKFLOW = 48
_MOST_OF_A_JOB = 32
_MOST_OF_A_MATRIX = 16
_MOST_OF_AN_OWNER = 256
_NO_MATRIX = ("", "null", "{}")


@dataclass(frozen=True, slots=True)
class Job:
    """One job of one workflow run. `matrix` is its matrix as JSON text, empty where there is none."""

    workflow: str
    run_id: str
    run_attempt: str
    name: str
    repository: str
    sha: str
    ref: str
    server_url: str
    temp: Path
    matrix: str = ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], *, matrix: str = "") -> "Job":
        """Return the job that the runner's variables describe."""
        return cls(
            workflow=environment.get("GITHUB_WORKFLOW", ""),
            run_id=environment.get("GITHUB_RUN_ID", ""),
            run_attempt=environment.get("GITHUB_RUN_ATTEMPT", ""),
            name=environment.get("GITHUB_JOB", ""),
            repository=environment.get("GITHUB_REPOSITORY", ""),
            sha=environment.get("GITHUB_SHA", ""),
            ref=environment.get("GITHUB_REF", ""),
            server_url=environment.get("GITHUB_SERVER_URL") or "https://github.com",
            temp=Path(environment.get("RUNNER_TEMP") or gettempdir()),
            matrix=matrix,
        )

    def default_run_id(self) -> str:
        """Return a name for the job's checkpoints that a re-run makes again, and no other job does.

        The attempt is not in it. Jobs of a matrix differ by their values: the first letters of them for
        people, and a digest because those may be the same.
        """
        match = _WORKFLOW_FILE.fullmatch(self.workflow)
        workflow = _slug(match["name"] if match else self.workflow, _MOST_OF_A_WORKFLOW)
        parts = [workflow or "workflow", _slug(self.run_id, 32) or "0", _slug(self.name, _MOST_OF_A_JOB)]
        if self.matrix.strip() not in _NO_MATRIX:
            parts += _name_matrix(self.matrix)
        return "-".join(part for part in parts if part)

    def owner(self) -> str:
        """Return who holds what this job claims, so that people find it."""
        attempt = f"{self.repository}/actions/runs/{self.run_id}/attempts/{self.run_attempt or 1}"
        return f"{attempt} {self.name}"[:_MOST_OF_AN_OWNER].strip()

    def context(self) -> dict[str, str]:
        """Return what a checkpoint tells of the job that saved it."""
        told = {
            "workflow": self.workflow,
            "run_id": self.run_id,
            "run_attempt": self.run_attempt,
            "job": self.name,
            "repository": self.repository,
            "sha": self.sha,
            "ref": self.ref,
            "url": f"{self.server_url}/{self.repository}/actions/runs/{self.run_id}",
        }
        return {name: value for name, value in told.items() if value}

    def file_url(self, repository: str, branch: str, path: str) -> str:
        """Return where people look at a file of the repository."""
        return f"{self.server_url}/{quote(repository)}/blob/{quote(branch)}/{quote(path)}"


def _slug(text: str, most: int) -> str:
    """Return `text` in letters that a run_id may have, without dots: `con.x` would be a device's name.

    >>> _slug("Build & test (Linux)", 48)
    'Build-test-Linux'
    """
    return _FOREIGN.sub("-", text)[:most].strip("-_")


def _name_matrix(matrix: str) -> tuple[str, str]:
    """Return the values of a matrix in a row, as far as they are plain and there is room, and its digest."""
    try:
        values = json.loads(matrix)
        text = json.dumps(values, sort_keys=True)
    except ValueError:
        values, text = None, matrix
    plain = values.values() if isinstance(values, dict) else []
    row = "-".join(str(value) for value in plain if isinstance(value, str | int | float))
    return _slug(row, _MOST_OF_A_MATRIX), hashlib.sha256(text.encode()).hexdigest()[:8]
