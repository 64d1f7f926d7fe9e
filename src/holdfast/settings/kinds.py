"""The kinds of settings: what each takes, how it is written, and what it refuses with which advice."""

import re
from dataclasses import field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdfast import checks

MEGABYTE = 1024 * 1024

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,38}/[A-Za-z0-9._-]{1,100}")
_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# See git-check-ref-format: what a branch may not contain, begin or end with.
_BAD_BRANCH = re.compile(r"[\x00-\x20~^:?*\[\\\x7f]|\.\.|@\{|//|^[/.-]|[/.]$|\.lock$|/\.")


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


def repository(text: str) -> str:
    """Return the name of a repository. Raises ValueError."""
    if not _REPOSITORY.fullmatch(text):
        raise ValueError("use owner/name")
    return text


def base_path(text: str) -> str:
    """Return the name of a folder in a repository. Raises ValueError."""
    if not all(_SEGMENT.fullmatch(segment) for segment in text.split("/")):
        raise ValueError(
            "use a folder such as checkpoints or state/checkpoints, without a slash at either end"
        )
    return text


def branch(text: str) -> str:
    """Return the name of a branch. Raises ValueError."""
    if not text or _BAD_BRANCH.search(text):
        raise ValueError("that is not a name that git allows for a branch")
    return text


def url(text: str) -> str:
    """Return a URL without a slash at its end. Raises ValueError."""
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", text):
        raise ValueError("use a URL such as https://github.example.com/api/v3")
    return text.rstrip("/")


def app(text: str) -> str:
    """Return what names a GitHub App. Raises ValueError."""
    if not re.fullmatch("[A-Za-z0-9.]+", text):
        raise ValueError("use the number or the client id of a GitHub App")
    return text


def database_url(text: str) -> None:
    """Raise ValueError unless the URL is one of PostgreSQL."""
    if urlsplit(text).scheme not in ("postgresql", "postgres"):
        raise ValueError("use a URL such as postgresql://user:password@host:5432/database")


def encryption_keys(text: str) -> None:
    """Raise ValueError unless the text holds keys that seal."""
    from holdfast.security.keys import parse_keys

    parse_keys(text, "encryption")


def signing_keys(text: str) -> None:
    """Raise ValueError unless the text holds keys that sign."""
    from holdfast.security.keys import parse_keys

    parse_keys(text, "signing")


def to_path(value: object) -> Path:
    """Return a path, which may be written as text. Raises ValueError."""
    return value if isinstance(value, Path) else Path(checks.text()(value))


def _read_names(value: object) -> tuple[str, ...]:
    """Return what a text lists between commas."""
    if isinstance(value, str):
        return tuple(name.strip() for name in value.split(",") if name.strip())
    if isinstance(value, list | tuple):
        return tuple(map(checks.text(), value))
    raise ValueError("Input should be names between commas")


def hosts(value: object) -> tuple[str, ...]:
    """Return names of hosts, in small letters. Raises ValueError."""
    return tuple(name.lower() for name in _read_names(value))


def shards(value: object) -> tuple[str, ...]:
    """Return the names of several repositories, each once. Raises ValueError."""
    names = tuple(map(repository, _read_names(value)))
    spellings = [name.lower() for name in names]
    doubles = sorted({name for name in spellings if spellings.count(name) > 1})
    if doubles:
        raise ValueError(f"it names {', '.join(doubles)} twice")
    return names


def _read_duration(value: object) -> object:
    """Return seconds for a text such as 90, 15m, 6h or 1d."""
    if not isinstance(value, str):
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", value)
    if not match:
        raise ValueError("use a length of time such as 6h, 1d or a number of seconds")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}[match[2]]


def _read_size(value: object) -> object:
    """Return bytes for a text such as 4096, 256KB or 1MB; None for off."""
    if not isinstance(value, str):
        return value
    if value.strip().lower() == "off":
        return None
    match = re.fullmatch(r"(\d+)\s*(|KB|MB)", value.strip().upper())
    if not match:
        raise ValueError("use off, or a size such as 256KB or 1MB")
    return int(match[1]) * {"": 1, "KB": 1024, "MB": MEGABYTE}[match[2]]


def setting(default: object, check: checks.Check, kind: str = "text") -> Any:
    """Return a setting: its default, what checks and converts a value, and how a file is to write that."""
    return field(default=default, metadata={"check": check, "kind": kind})


def text(default: str | None, check: checks.Check) -> Any:
    """Return a setting that is a text."""
    is_text = checks.text()
    return setting(default, lambda value: check(is_text(value)))


def secret(check: checks.Check = str) -> Any:
    """Return a setting that nobody may see."""

    def read(value: Any) -> object:
        secret = value if hasattr(value, "get_secret_value") else Secret(checks.text()(value))
        check(secret.get_secret_value())
        return secret

    return setting(None, read)


def path() -> Any:
    """Return a setting that names a file or a folder."""
    return setting(None, to_path, "path")


def whole_number(default: int | None, *, least: int = 0, most: int | None = None) -> Any:
    """Return a setting that is a whole number."""
    return setting(default, checks.written_whole_number(least=least, most=most), "number")


def number(default: float | None, *, least: float = 0, most: float | None = None, above: bool = False) -> Any:
    """Return a setting that is a number; with `above`, it is more than `least`."""
    return setting(default, checks.written_number(least=least, most=most, above=above), "number")


def duration(default: float | None, *, least: float) -> Any:
    """Return a setting that is a length of time, in seconds or such as 6h."""
    check = checks.written_number(least=least)
    return setting(default, lambda value: check(_read_duration(value)))


def size(default: int | None, *, least: int) -> Any:
    """Return a setting that is a size, in bytes or such as 256KB; None for off."""
    check = checks.written_whole_number(least=least)

    def read(value: object) -> object:
        size = _read_size(value)
        return size if size is None else check(size)

    return setting(default, read)


def flag(*, default: bool) -> Any:
    """Return a setting that is true or false."""
    return setting(default, checks.written_flag, "flag")
