"""What the step was told: the inputs of `action.yml`, which come as environment variables."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from holdfast.action.job import Job
from holdfast.presentation.exits import WrongUse
from holdfast.presentation.user_input import check_filled, check_run_id, parse_number, read_file
from holdfast.settings import CONFIG_VARIABLE, Settings
from holdfast.settings.file import read_settings_file

PREFIX = "HOLDFAST_INPUT_"

# One request for a checkpoint rather than four: a job's token has 1,000 an hour for the whole repository.
_WRITE_MODE = "commit"
_TOKENS = frozenset({"HOLDFAST_TOKEN", "HOLDFAST_TOKEN_FILE", "GITHUB_TOKEN"})
_KEYS = {"encryption-key": "HOLDFAST_ENCRYPTION_KEY", "signing-key": "HOLDFAST_SIGNING_KEY"}
# The private part of a JSON Web Key.
_KEY_PART = re.compile(r'"[kd]"\s*:\s*"([^"]+)"')
_LONGEST_S = 6 * 3600.0
# Each step renews it; what runs between two of them must not last longer.
_CLAIM_S = 3600.0
_WORDS = {"true": True, "false": False}
# So that `status: ${{ job.status }}` says it.
_JOB_STATUSES = {"success": "completed", "failure": "failed", "cancelled": "interrupted"}


class Command(StrEnum):
    """What a step can do."""

    SAVE = "save"
    RESUME = "resume"
    DRAIN = "drain"
    COMPLETE = "complete"
    CLEANUP = "cleanup"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Inputs:
    """One step's inputs, checked. `state` is JSON text as it was given."""

    command: Command
    run_id: str
    trigger: str
    phase: str
    status: str
    state: bytes
    is_waiting: bool
    timeout_s: float
    is_dry_run: bool
    spool_dir: Path
    is_claiming: bool
    owner: str
    ttl_s: float


def read_inputs(environment: Mapping[str, str], job: Job) -> Inputs:
    """Return what the step asks for. Raises WrongUse with what to change."""
    command = _command(_given(environment, "command"))
    return Inputs(
        command=command,
        run_id=check_run_id(_given(environment, "run-id") or job.default_run_id()),
        trigger=_given(environment, "trigger") or "manual",
        phase=_given(environment, "phase"),
        status=_status(_given(environment, "status"), command),
        state=_state(environment) if command is Command.SAVE else b"",
        is_waiting=_is_true(environment, "wait", default=True),
        timeout_s=_seconds(environment, "timeout", default=60.0),
        is_dry_run=_is_true(environment, "dry-run", default=False),
        spool_dir=Path(_given(environment, "spool-dir") or job.temp / "holdfast-spool"),
        is_claiming=_is_claiming(environment, command),
        owner=_given(environment, "owner") or job.owner(),
        ttl_s=_seconds(environment, "ttl", default=_CLAIM_S),
    )


def read_settings(environment: Mapping[str, str], job: Job) -> Settings:
    """Return the settings in force: inputs win over HOLDFAST_ variables, those over the job's own.

    The token goes by GITHUB_TOKEN's name, by which the budget knows the limit of a job's token. Raises
    InvalidSettings.

    A holdfast.toml that lies in the job's folder may be a stranger's: only one that is named is read.
    """
    chosen = {name: value for name, value in environment.items() if name not in _TOKENS}
    own = {"branch": "HOLDFAST_BRANCH", "write-mode": "HOLDFAST_WRITE_MODE", "repository": "HOLDFAST_REPO"}
    own |= _KEYS
    for name, variable in own.items():
        chosen[variable] = _given(environment, name) or environment.get(variable, "")
    chosen["HOLDFAST_REPO"] = chosen["HOLDFAST_REPO"] or job.repository
    chosen["HOLDFAST_WRITE_MODE"] = chosen["HOLDFAST_WRITE_MODE"] or _WRITE_MODE
    chosen["HOLDFAST_DATA_DIR"] = environment.get("HOLDFAST_DATA_DIR") or str(job.temp / "holdfast")
    chosen["GITHUB_TOKEN"] = read_token(environment)
    if environment.get("RUNNER_DEBUG") == "1":
        chosen["HOLDFAST_LOG_LEVEL"] = "debug"
    named = chosen.get(CONFIG_VARIABLE)
    return Settings.from_environment(chosen, file=read_settings_file(Path(named)) if named else None)


def variables_of_job(inputs: Inputs, settings: Settings) -> dict[str, str]:
    """Return the variables with which later steps use `holdfast` on the same run; no token is among them."""
    return {
        "HOLDFAST_RUN_ID": inputs.run_id,
        "HOLDFAST_REPO": settings.repo or "",
        "HOLDFAST_BRANCH": settings.branch,
        "HOLDFAST_WRITE_MODE": settings.write_mode,
        "HOLDFAST_DATA_DIR": str(settings.data_dir),
    }


def read_token(environment: Mapping[str, str]) -> str:
    """Return the token that the step was given."""
    return _given(environment, "token") or environment.get("GITHUB_TOKEN", "")


def read_secrets(environment: Mapping[str, str]) -> list[str]:
    """Return what the runner must show nowhere: the token and the keys, as they were given and in parts."""
    secrets = [read_token(environment)]
    for name, variable in _KEYS.items():
        text = _given(environment, name) or environment.get(variable, "")
        secrets += [text, *_KEY_PART.findall(text)]
    return [secret for secret in secrets if secret]


def must_fail(environment: Mapping[str, str]) -> bool:
    """Whether a failure of ours fails the step: only if `fail-on-error` is true, or `claim`.

    A job that asks to drive a run alone must not go on without knowing that it does.
    """
    return any(_given(environment, name).lower() == "true" for name in ("fail-on-error", "claim"))


def read_matrix(environment: Mapping[str, str]) -> str:
    """Return the matrix of the job as JSON text."""
    return _given(environment, "matrix")


def _given(environment: Mapping[str, str], name: str) -> str:
    return environment.get(PREFIX + name.upper().replace("-", "_"), "").strip()


def _command(text: str) -> Command:
    try:
        return Command(text)
    except ValueError:
        raise WrongUse(f"command: {text!r} is none; use one of {', '.join(Command)}") from None


def _is_claiming(environment: Mapping[str, str], command: Command) -> bool:
    is_claiming = _is_true(environment, "claim", default=False)
    if is_claiming and command is not Command.RESUME:
        raise WrongUse("claim: it is resume that claims a run; later steps of the job go on with its claim")
    return is_claiming


def _status(text: str, command: Command) -> str:
    status = _JOB_STATUSES.get(text, text)
    if command is Command.COMPLETE:
        return {"": "completed", "interrupted": "failed"}.get(status, status)
    return status


def _state(environment: Mapping[str, str]) -> bytes:
    """Return the JSON text of the state; an empty object if none is given."""
    text, file = _given(environment, "state"), _given(environment, "state-file")
    if text and file:
        raise WrongUse("state and state-file: give one of them")
    if not file:
        return text.encode(errors="surrogateescape") or b"{}"
    try:
        return check_filled(read_file(file), file).strip()
    except WrongUse as error:
        raise WrongUse(f"state-file: {error}") from error


def _is_true(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = _given(environment, name).lower()
    if text and text not in _WORDS:
        raise WrongUse(f"{name}: use true or false, not {text!r}")
    return _WORDS.get(text, default)


def _seconds(environment: Mapping[str, str], name: str, *, default: float) -> float:
    text = _given(environment, name)
    number = parse_number(text) if text else default
    if not 0 <= number <= _LONGEST_S:
        raise WrongUse(f"{name}: use a number of seconds from 0 to {_LONGEST_S:.0f}, not {text!r}")
    return number
