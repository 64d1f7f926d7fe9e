"""The settings: one frozen model, read once from environment and file, with the source of every value."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from urllib.parse import unquote, urlsplit

from platformdirs import user_data_path
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
)

from holdfast.errors import InvalidSettings

if TYPE_CHECKING:
    from holdfast.settings_file import SettingsFile

PREFIX = "HOLDFAST_"
CONFIG_VARIABLE = "HOLDFAST_CONFIG"
PUBLIC_API_URL = "https://api.github.com"
EMBEDDED_REPOSITORY = "holdfast/checkpoints"
OWN_BRANCH = "checkpoints"

MEGABYTE = 1024 * 1024
# The largest checkpoint. GitHub would take more; this much is read, checked and sent in little memory.
MOST_BYTES = 32 * MEGABYTE

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,38}/[A-Za-z0-9._-]{1,100}")
_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# See git-check-ref-format: what a branch may not contain, begin or end with.
_BAD_BRANCH = re.compile(r"[\x00-\x20~^:?*\[\\\x7f]|\.\.|@\{|//|^[/.-]|[/.]$|\.lock$|/\.")

# Where a setting has a second name, which others have made usual.
_OTHER_VARIABLES = {"token": "GITHUB_TOKEN", "api_url": "GITHUB_API_URL"}

# Variables of ours that say what a command is about, and not how it works.
_NOT_SETTINGS = ("RUN_ID", "FENCE")


def _repository(text: str) -> str:
    if not _REPOSITORY.fullmatch(text):
        raise ValueError("use owner/name")
    return text


def _base_path(text: str) -> str:
    if not all(_SEGMENT.fullmatch(segment) for segment in text.split("/")):
        raise ValueError(
            "use a folder such as checkpoints or state/checkpoints, without a slash at either end"
        )
    return text


def _branch(text: str) -> str:
    if not text or _BAD_BRANCH.search(text):
        raise ValueError("that is not a name that git allows for a branch")
    return text


def _url(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", text):
        raise ValueError("use a URL such as https://github.example.com/api/v3")
    return text.rstrip("/")


def _database_url(secret: SecretStr) -> SecretStr:
    if urlsplit(secret.get_secret_value()).scheme not in ("postgresql", "postgres"):
        raise ValueError("use a URL such as postgresql://user:password@host:5432/database")
    return secret


def _encryption_keys(text: SecretStr) -> SecretStr:
    from holdfast.security.keys import parse_keys

    parse_keys(text.get_secret_value(), "encryption")
    return text


def _signing_keys(text: SecretStr) -> SecretStr:
    from holdfast.security.keys import parse_keys

    parse_keys(text.get_secret_value(), "signing")
    return text


def _listed(value: object) -> object:
    """Return what a text lists between commas."""
    if not isinstance(value, str):
        return value
    return tuple(name.strip() for name in value.split(",") if name.strip())


def _names(value: object) -> object:
    """Return the names that a text lists between commas, in lower case."""
    return _listed(value.lower() if isinstance(value, str) else value)


def _shards(names: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    if names and info.data.get("repo"):
        raise ValueError("set this or HOLDFAST_REPO, not both")
    spellings = [name.lower() for name in names]
    doubles = sorted({name for name in spellings if spellings.count(name) > 1})
    if doubles:
        raise ValueError(f"it names {', '.join(doubles)} twice")
    return names


def _duration(value: object) -> object:
    """Return seconds for a text such as 90, 15m, 6h or 1d."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", value)
    if not match:
        raise ValueError("use a length of time such as 6h, 1d or a number of seconds")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}[match[2]]


def _size(value: object) -> object:
    """Return bytes for a text such as 4096, 256KB or 1MB; None for off."""
    if not isinstance(value, str):
        return value
    if value.strip().lower() == "off":
        return None
    match = re.fullmatch(r"(\d+)\s*(|KB|MB)", value.strip().upper())
    if not match:
        raise ValueError("use off, or a size such as 256KB or 1MB")
    return int(match[1]) * {"": 1, "KB": 1024, "MB": MEGABYTE}[match[2]]


class Settings(BaseModel):
    """What is in force. `sources` says where each value came from; what it leaves out has its default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repo: Annotated[str, AfterValidator(_repository)] | None = None
    shards: Annotated[
        tuple[Annotated[str, AfterValidator(_repository)], ...],
        BeforeValidator(_listed),
        AfterValidator(_shards),
    ] = ()
    token: SecretStr | None = None
    token_file: Path | None = None
    app_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9.]+$")] | None = None
    app_private_key: SecretStr | None = None
    app_private_key_file: Path | None = None
    app_installation_id: Annotated[int, Field(ge=1)] | None = None
    api_url: Annotated[str, AfterValidator(_url)] = PUBLIC_API_URL
    branch: Annotated[str, AfterValidator(_branch)] = OWN_BRANCH
    base_path: Annotated[str, AfterValidator(_base_path)] = "checkpoints"
    database_url: Annotated[SecretStr, AfterValidator(_database_url)] | None = None
    data_dir: Path = Field(default_factory=lambda: user_data_path("holdfast", appauthor=False))
    write_mode: Literal["contents", "commit"] = "contents"
    low_budget: Annotated[int, Field(ge=0)] = 100
    write_interval_s: Annotated[float, Field(ge=0, le=3600)] = 1.0
    content_per_minute: Annotated[int, Field(ge=0)] = 80
    content_per_hour: Annotated[int, Field(ge=0)] = 500
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8723
    api_token: SecretStr | None = None
    api_token_file: Path | None = None
    allowed_hosts: Annotated[tuple[str, ...], BeforeValidator(_names)] = ()
    max_body_bytes: Annotated[int, Field(ge=1024, le=MOST_BYTES)] = MOST_BYTES
    max_checkpoint_bytes: Annotated[int, Field(ge=64 * 1024, le=MOST_BYTES)] = 10 * MEGABYTE
    incremental: Literal["auto", "on", "off"] = "auto"
    compress: Annotated[int | None, BeforeValidator(_size), Field(ge=1024)] = None
    max_spool_bytes: Annotated[int, Field(ge=1)] = 1024 * MEGABYTE
    max_spool_items: Annotated[int, Field(ge=1)] = 100_000
    min_free_bytes: Annotated[int, Field(ge=0)] = 64 * MEGABYTE
    keep_full_runs: Annotated[int, Field(ge=0)] = 10
    keep_latest_runs: Annotated[int, Field(ge=0)] = 50
    keep_checkpoints: Annotated[int, Field(ge=0)] | None = None
    keep_per_phase: Annotated[int, Field(ge=1)] | None = None
    keep_days: Annotated[float, Field(gt=0)] | None = None
    delete_completed: bool = False
    abandoned_after_days: Annotated[float, Field(gt=0)] | None = None
    cleanup_every: Annotated[float, BeforeValidator(_duration), Field(ge=60)] | None = None
    warn_age: Annotated[float, BeforeValidator(_duration), Field(ge=0)] = 7 * 86_400.0
    redact: Literal["off", "known", "strict"] = "known"
    encryption_key: Annotated[SecretStr, AfterValidator(_encryption_keys)] | None = None
    encryption_key_file: Path | None = None
    signing_key: Annotated[SecretStr, AfterValidator(_signing_keys)] | None = None
    signing_key_file: Path | None = None
    allow_unsigned: bool = False
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["console", "json"] = "console"
    enabled: bool = True
    config: Path | None = None
    sources: Mapping[str, str] = Field(default_factory=dict, repr=False)

    def secrets(self) -> list[str]:
        """Return what must never be shown."""
        tokens = (self.token, self.api_token, self.app_private_key)
        held = (*tokens, self.database_url, self.encryption_key, self.signing_key)
        secrets = [secret.get_secret_value() for secret in held if secret]
        if self.database_url and (password := urlsplit(self.database_url.get_secret_value()).password):
            secrets += [password, unquote(password)]
        return secrets

    @property
    def is_embedded(self) -> bool:
        """Whether no repository is configured, so that the embedded GitHub is used."""
        return self.repo is None and not self.shards

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str],
        overrides: Mapping[str, object] | None = None,
        file: "SettingsFile | None" = None,
    ) -> "Settings":
        """Return the settings: the command line's `overrides` win over the environment, that over the file.

        An empty variable counts as unset. Raises InvalidSettings with every problem at once.
        """
        values: dict[str, object] = {}
        sources: dict[str, str] = {}
        for name in names_of_settings():
            found = _find_value(name, environment, file)
            if found:
                values[name], sources[name] = found
        if file:
            _check_origin(file, sources)
            values["config"], sources["config"] = file.path, sources.get("config", "working folder")
        for name, value in (overrides or {}).items():
            values[name], sources[name] = value, "command line"
        if not {"repo", "shards"} & values.keys():
            for name in ("write_interval_s", "content_per_minute", "content_per_hour"):
                if name not in values:
                    values[name], sources[name] = 0, "embedded GitHub"
        is_sealed = values.get("encryption_key") or values.get("encryption_key_file")
        if is_sealed and "redact" not in values:
            values["redact"], sources["redact"] = "off", "encrypted states"
        try:
            return cls.model_validate({**values, "sources": sources})
        except ValidationError as error:
            raise InvalidSettings(_problems(error, sources)) from None


def _find_value(
    name: str, environment: Mapping[str, str], file: "SettingsFile | None"
) -> tuple[object, str] | None:
    """Return a value and where it comes from. What is set for Holdfast alone wins over GITHUB_… variables."""
    own, *others = variables_of(name)
    if environment.get(own):
        return environment[own], own
    if file and name in file.values:
        return file.values[name], file.source(name)
    return next(((environment[other], other) for other in others if environment.get(other)), None)


def _check_origin(file: "SettingsFile", sources: Mapping[str, str]) -> None:
    """Keep a file that nobody asked for, such as one of a foreign repository, from choosing who gets a token.

    Raises InvalidSettings.
    """
    theirs = {name for name in file.values if sources[name] == file.source(name)}
    is_token_ours = bool({"token", "token_file"} & (sources.keys() - theirs))
    if is_token_ours and "api_url" in theirs and not file.is_named:
        advice = f"name the file in {CONFIG_VARIABLE} if you trust it"
        raise InvalidSettings([f"{file.source('api_url')}: api_url would send your token there; {advice}"])


def names_of_settings() -> list[str]:
    """Return what can be set; where the values came from cannot."""
    return [name for name in Settings.model_fields if name != "sources"]


def variables_of(name: str) -> list[str]:
    """Return the environment variables that set `name`, the first one that is set wins.

    >>> variables_of("token")
    ['HOLDFAST_TOKEN', 'GITHUB_TOKEN']
    """
    other = _OTHER_VARIABLES.get(name)
    return [f"{PREFIX}{name.upper()}", *([other] if other else [])]


def unknown_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that look like settings but are none, each with the one that was likely meant.

    >>> unknown_variables({"HOLDFAST_REOP": "me/state", "HOLDFAST_REPO": "me/state", "HOME": "/"})
    {'HOLDFAST_REOP': 'HOLDFAST_REPO'}
    """
    known = [*(name.upper() for name in names_of_settings()), *_NOT_SETTINGS]
    given = [name.removeprefix(PREFIX) for name in environment if name.startswith(PREFIX)]
    unknown = [name for name in given if name not in known]
    if not unknown:
        return {}
    from difflib import get_close_matches

    likely = {name: get_close_matches(name, known, n=1) for name in unknown}
    return {PREFIX + name: PREFIX + found[0] if found else "" for name, found in likely.items()}


def _problems(error: ValidationError, sources: Mapping[str, str]) -> list[str]:
    """Return one sentence for each wrong value, under the name that its user gave it by."""
    problems = []
    for problem in error.errors(include_url=False, include_input=False):
        name = str(problem["loc"][0])
        variable = variables_of(name)[0]
        source = sources.get(name, variable)
        label = f"{variable} (from the command line)" if source == "command line" else source
        if ", line " in source:
            label = f"{source}: {name}"
        problems.append(f"{label}: {problem['msg'].removeprefix('Value error, ')}")
    return problems
