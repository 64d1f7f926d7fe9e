"""One HTTP answer of GitHub, as a value that no library owns."""

from collections.abc import Callable
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import orjson


class Reply(NamedTuple):
    """An answer's status, its headers with lower-case names, and its body.

    A server or a proxy may echo our token in an error: `hide` takes it out of what may be shown.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    hide: Callable[[str], str] = str

    @property
    def is_success(self) -> bool:
        """Whether GitHub did what was asked."""
        return 200 <= self.status < 300

    @property
    def is_unchanged(self) -> bool:
        """Whether GitHub says that we have what was asked for already."""
        return self.status == 304

    def json(self) -> Any:
        """Return the body as JSON, or raise ValueError."""
        return orjson.loads(self.body)

    def members(self) -> dict[str, Any]:
        """Return the body's members, without our token, if it is a JSON object, else none."""
        try:
            content = self.json()
        except ValueError:
            return {}
        found: dict[str, Any] = hide_in(content, self.hide) if isinstance(content, dict) else {}
        return found

    def sent_at(self, otherwise: float) -> float:
        """Return when the server says it answered, in epoch seconds: the clock its limits go by."""
        return _parse_http_date(self.headers.get("date", "")) or otherwise

    def retry_after_s(self, now: float) -> float | None:
        """Return how long the server asks us to stay away, given as seconds or as a date."""
        value = self.headers.get("retry-after", "").strip()
        if value.isdecimal():
            return float(value)
        until = _parse_http_date(value)
        return None if until is None else max(0.0, until - self.sent_at(otherwise=now))


def hide_in(value: Any, hide: Callable[[str], str]) -> Any:
    """Return a JSON value with `hide` applied to every text in it."""
    if isinstance(value, str):
        return hide(value)
    if isinstance(value, list):
        return [hide_in(item, hide) for item in value]
    if isinstance(value, dict):
        return {hide(name): hide_in(item, hide) for name, item in value.items()}
    return value


def _parse_http_date(value: str) -> float | None:
    try:
        return parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None
