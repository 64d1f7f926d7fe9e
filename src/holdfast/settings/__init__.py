"""The settings: one frozen model, read once from environment and file, with the source of every value."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from holdfast import checks
from holdfast.errors import InvalidSettings
from holdfast.settings import kinds
from holdfast.settings.kinds import MEGABYTE, Secret

if TYPE_CHECKING:
    from holdfast.settings.file import SettingsFile

PREFIX = "HOLDFAST_"
CONFIG_VARIABLE = "HOLDFAST_CONFIG"
PUBLIC_API_URL = "https://api.github.com"
EMBEDDED_REPOSITORY = "holdfast/checkpoints"
OWN_BRANCH = "checkpoints"

# The largest checkpoint. GitHub would take more; this much is read, checked and sent in little memory.
MOST_BYTES = 32 * MEGABYTE

# Where a setting has a second name, which others have made usual.
_OTHER_VARIABLES = {"token": "GITHUB_TOKEN", "api_url": "GITHUB_API_URL"}

# Variables of ours that say what a command is about, and not how it works.
_NOT_SETTINGS = ("RUN_ID", "FENCE")


def _user_data_folder() -> Path:
    from platformdirs import user_data_path

    return user_data_path("holdfast", appauthor=False)


@dataclass(frozen=True)
class Settings:
    """What is in force. `sources` says where each value came from; what it leaves out has its default.

    Raises InvalidSettings with every problem at once.
    """

    repo: str | None = kinds.text(None, kinds.repository)
    shards: tuple[str, ...] = kinds.setting((), kinds.shards)
    token: Secret | None = kinds.secret()
    token_file: Path | None = kinds.path()
    app_id: str | None = kinds.text(None, kinds.app)
    app_private_key: Secret | None = kinds.secret()
    app_private_key_file: Path | None = kinds.path()
    app_installation_id: int | None = kinds.whole_number(None, least=1)
    api_url: str = kinds.text(PUBLIC_API_URL, kinds.url)
    branch: str = kinds.text(OWN_BRANCH, kinds.branch)
    base_path: str = kinds.text("checkpoints", kinds.base_path)
    database_url: Secret | None = kinds.secret(kinds.database_url)
    data_dir: Path = field(
        default_factory=_user_data_folder, metadata={"check": kinds.to_path, "kind": "path"}
    )
    write_mode: Literal["contents", "commit"] = kinds.setting("contents", checks.one_of("contents", "commit"))
    low_budget: int = kinds.whole_number(100)
    write_interval_s: float = kinds.number(1.0, most=3600)
    content_per_minute: int = kinds.whole_number(80)
    content_per_hour: int = kinds.whole_number(500)
    host: str = kinds.text("127.0.0.1", checks.text(least=1))
    port: int = kinds.whole_number(8723, most=65535)
    api_token: Secret | None = kinds.secret()
    api_token_file: Path | None = kinds.path()
    allowed_hosts: tuple[str, ...] = kinds.setting((), kinds.hosts)
    max_body_bytes: int = kinds.whole_number(MOST_BYTES, least=1024, most=MOST_BYTES)
    max_checkpoint_bytes: int = kinds.whole_number(10 * MEGABYTE, least=64 * 1024, most=MOST_BYTES)
    incremental: Literal["auto", "on", "off"] = kinds.setting("auto", checks.one_of("auto", "on", "off"))
    compress: int | None = kinds.size(None, least=1024)
    max_spool_bytes: int = kinds.whole_number(1024 * MEGABYTE, least=1)
    max_spool_items: int = kinds.whole_number(100_000, least=1)
    min_free_bytes: int = kinds.whole_number(64 * MEGABYTE)
    keep_full_runs: int = kinds.whole_number(10)
    keep_latest_runs: int = kinds.whole_number(50)
    keep_checkpoints: int | None = kinds.whole_number(None)
    keep_per_phase: int | None = kinds.whole_number(None, least=1)
    keep_days: float | None = kinds.number(None, above=True)
    delete_completed: bool = kinds.flag(default=False)
    abandoned_after_days: float | None = kinds.number(None, above=True)
    cleanup_every: float | None = kinds.duration(None, least=60)
    warn_age: float = kinds.duration(7 * 86_400.0, least=0)
    redact: Literal["off", "known", "strict"] = kinds.setting(
        "known", checks.one_of("off", "known", "strict")
    )
    encryption_key: Secret | None = kinds.secret(kinds.encryption_keys)
    encryption_key_file: Path | None = kinds.path()
    signing_key: Secret | None = kinds.secret(kinds.signing_keys)
    signing_key_file: Path | None = kinds.path()
    allow_unsigned: bool = kinds.flag(default=False)
    log_level: Literal["debug", "info", "warning", "error"] = kinds.setting(
        "info", checks.one_of("debug", "info", "warning", "error")
    )
    log_format: Literal["console", "json"] = kinds.setting("console", checks.one_of("console", "json"))
    enabled: bool = kinds.flag(default=True)
    config: Path | None = kinds.path()
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        problems: dict[str, str] = {}
        for name, known in _FIELDS.items():
            value = getattr(self, name)
            if value is known.default:
                continue
            try:
                object.__setattr__(self, name, known.metadata["check"](value))
            except ValueError as error:
                problems[name] = str(error)
        if self.shards and self.repo and "shards" not in problems:
            problems["shards"] = "set this or HOLDFAST_REPO, not both"
        if problems:
            raise InvalidSettings([f"{_label(name, self.sources)}: {why}" for name, why in problems.items()])

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
        return cls(**values, sources=sources)  # type: ignore[arg-type]


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
    return list(_FIELDS)


_FIELDS = {each.name: each for each in fields(Settings) if each.name != "sources"}


def kind_of(name: str) -> str:
    """Return how a file is to write a setting: as a text, a path, a number or a flag."""
    kind: str = _FIELDS[name].metadata["kind"]
    return kind


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


def _label(name: str, sources: Mapping[str, str]) -> str:
    """Return the name that the user of a setting gave it by."""
    variable = variables_of(name)[0]
    source = sources.get(name, variable)
    if ", line " in source:
        return f"{source}: {name}"
    return f"{variable} (from the command line)" if source == "command line" else source
