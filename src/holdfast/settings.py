"""The settings: one frozen model, read once from environment and file, with the source of every value."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from holdfast import checks
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


class Secret:
    """A text that nobody sees by accident."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def get_secret_value(self) -> str:
        """Return the text itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "Secret('**********')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


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


def _app(text: str) -> str:
    if not re.fullmatch("[A-Za-z0-9.]+", text):
        raise ValueError("use the number or the client id of a GitHub App")
    return text


def _database_url(text: str) -> None:
    if urlsplit(text).scheme not in ("postgresql", "postgres"):
        raise ValueError("use a URL such as postgresql://user:password@host:5432/database")


def _encryption_keys(text: str) -> None:
    from holdfast.security.keys import parse_keys

    parse_keys(text, "encryption")


def _signing_keys(text: str) -> None:
    from holdfast.security.keys import parse_keys

    parse_keys(text, "signing")


def _to_path(value: object) -> Path:
    return value if isinstance(value, Path) else Path(checks.text()(value))


def _names(value: object) -> tuple[str, ...]:
    """Return what a text lists between commas."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    if isinstance(value, list | tuple):
        return tuple(map(checks.text(), value))
    raise ValueError("Input should be names between commas")


def _hosts(value: object) -> tuple[str, ...]:
    return tuple(name.lower() for name in _names(value))


def _shards(value: object) -> tuple[str, ...]:
    names = tuple(map(_repository, _names(value)))
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


def _setting(default: object, check: checks.Check, kind: str = "text") -> Any:
    """Return a setting: its default, what checks and converts a value, and how a file is to write that."""
    return field(default=default, metadata={"check": check, "kind": kind})


def _text(default: str | None, check: checks.Check) -> Any:
    is_text = checks.text()
    return _setting(default, lambda value: check(is_text(value)))


def _secret(check: checks.Check = str) -> Any:
    def read(value: Any) -> object:
        secret = value if hasattr(value, "get_secret_value") else Secret(checks.text()(value))
        check(secret.get_secret_value())
        return secret

    return _setting(None, read)


def _path() -> Any:
    return _setting(None, _to_path, "path")


def _whole(default: int | None, *, least: int = 0, most: int | None = None) -> Any:
    return _setting(default, checks.written_whole_number(least=least, most=most), "number")


def _number(
    default: float | None, *, least: float = 0, most: float | None = None, above: bool = False
) -> Any:
    return _setting(default, checks.written_number(least=least, most=most, above=above), "number")


def _time(default: float | None, *, least: float) -> Any:
    check = checks.written_number(least=least)
    return _setting(default, lambda value: check(_duration(value)))


def _bytes(default: int | None, *, least: int) -> Any:
    check = checks.written_whole_number(least=least)

    def read(value: object) -> object:
        size = _size(value)
        return size if size is None else check(size)

    return _setting(default, read)


def _flag(*, default: bool) -> Any:
    return _setting(default, checks.written_flag, "flag")


def _user_data_folder() -> Path:
    from platformdirs import user_data_path

    return user_data_path("holdfast", appauthor=False)


@dataclass(frozen=True)
class Settings:
    """What is in force. `sources` says where each value came from; what it leaves out has its default.

    Raises InvalidSettings with every problem at once.
    """

    repo: str | None = _text(None, _repository)
    shards: tuple[str, ...] = _setting((), _shards)
    token: Secret | None = _secret()
    token_file: Path | None = _path()
    app_id: str | None = _text(None, _app)
    app_private_key: Secret | None = _secret()
    app_private_key_file: Path | None = _path()
    app_installation_id: int | None = _whole(None, least=1)
    api_url: str = _text(PUBLIC_API_URL, _url)
    branch: str = _text(OWN_BRANCH, _branch)
    base_path: str = _text("checkpoints", _base_path)
    database_url: Secret | None = _secret(_database_url)
    data_dir: Path = field(default_factory=_user_data_folder, metadata={"check": _to_path, "kind": "path"})
    write_mode: Literal["contents", "commit"] = _setting("contents", checks.one_of("contents", "commit"))
    low_budget: int = _whole(100)
    write_interval_s: float = _number(1.0, most=3600)
    content_per_minute: int = _whole(80)
    content_per_hour: int = _whole(500)
    host: str = _text("127.0.0.1", checks.text(least=1))
    port: int = _whole(8723, most=65535)
    api_token: Secret | None = _secret()
    api_token_file: Path | None = _path()
    allowed_hosts: tuple[str, ...] = _setting((), _hosts)
    max_body_bytes: int = _whole(MOST_BYTES, least=1024, most=MOST_BYTES)
    max_checkpoint_bytes: int = _whole(10 * MEGABYTE, least=64 * 1024, most=MOST_BYTES)
    incremental: Literal["auto", "on", "off"] = _setting("auto", checks.one_of("auto", "on", "off"))
    compress: int | None = _bytes(None, least=1024)
    max_spool_bytes: int = _whole(1024 * MEGABYTE, least=1)
    max_spool_items: int = _whole(100_000, least=1)
    min_free_bytes: int = _whole(64 * MEGABYTE)
    keep_full_runs: int = _whole(10)
    keep_latest_runs: int = _whole(50)
    keep_checkpoints: int | None = _whole(None)
    keep_per_phase: int | None = _whole(None, least=1)
    keep_days: float | None = _number(None, above=True)
    delete_completed: bool = _flag(default=False)
    abandoned_after_days: float | None = _number(None, above=True)
    cleanup_every: float | None = _time(None, least=60)
    warn_age: float = _time(7 * 86_400.0, least=0)
    redact: Literal["off", "known", "strict"] = _setting("known", checks.one_of("off", "known", "strict"))
    encryption_key: Secret | None = _secret(_encryption_keys)
    encryption_key_file: Path | None = _path()
    signing_key: Secret | None = _secret(_signing_keys)
    signing_key_file: Path | None = _path()
    allow_unsigned: bool = _flag(default=False)
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", checks.one_of("debug", "info", "warning", "error")
    )
    log_format: Literal["console", "json"] = _setting("console", checks.one_of("console", "json"))
    enabled: bool = _flag(default=True)
    config: Path | None = _path()
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
