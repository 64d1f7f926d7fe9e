"""The one door to structlog: events on standard error, for people or as JSON lines, without secrets.

structlog brings much with it, a third of the time that a command takes to start: it is loaded with the first
event, and most commands that go well have none.
"""

import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Literal

from holdfast.tracing import ExtraMissing, traces

if TYPE_CHECKING:
    from structlog.typing import Processor, WrappedLogger

LogFormat = Literal["console", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]
_LEVELS: tuple[LogLevel, ...] = ("debug", "info", "warning", "error")
Secrets = Callable[[], Iterable[str]]

MASK = "[secret]"
# A shorter one, as tests have, may be part of other words: it is masked only where it stands alone.
SHORTEST_SECRET = 8

# What could move a terminal's cursor, change its colours or forge a second line.
_CONTROLS = {code: f"\\x{code:02x}" for code in [*range(0x20), *range(0x7F, 0xA0)]}
_CONTROLS |= {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
# Separators of lines, and what turns the direction of a text around.
_TURNS = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_CONTROLS |= {code: f"\\u{code:04x}" for code in _TURNS}
_CONTROLS_IN_JSON = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_TURNS)}
_CONTROLS_IN_TRACE = {code: text for code, text in _CONTROLS.items() if code not in (0x09, 0x0A)}


class Log:
    """Where all events go."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._set_up: Callable[[], None] | None = None
        self._level: LogLevel | None = None

    def debug(self, event: str, **fields: object) -> None:
        """Log what helps to find a fault."""
        self._write("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """Log what goes as it should."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Log what someone should look at."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Log what has failed."""
        self._write("error", event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """Log what has failed, with the traceback of the exception that is being handled."""
        self._write("exception", event, fields)

    def wants(self, level: LogLevel) -> bool:
        """Whether events of this level are asked for. Where there are many, ask first: it is cheaper."""
        return self._level is not None and _LEVELS.index(level) >= _LEVELS.index(self._level)

    def bind(self, **fields: object) -> None:
        """Add `fields` to every event of this task, or thread, from now on."""
        import structlog

        structlog.contextvars.bind_contextvars(**fields)

    def set_up_with(self, set_up: Callable[[], None], level: LogLevel = "warning") -> None:
        """Have structlog set up by `set_up`: now if it is there already, else before the first event."""
        self._level = level
        is_there = "structlog" in sys.modules
        self._set_up = None if is_there else set_up
        if is_there:
            set_up()

    def _write(self, method: str, event: str, fields: dict[str, object]) -> None:
        import structlog

        with self._lock:
            set_up, self._set_up = self._set_up, None
            if set_up is not None:
                set_up()
        getattr(structlog.get_logger(), method)(event, **fields)


log = Log()


def configure_logs(
    log_format: LogFormat,
    level: LogLevel,
    *,
    secrets: Secrets,
    has_colour: bool = False,
    is_default: bool = False,
) -> None:
    """Send events from `level` on to standard error; no text that `secrets` gives ever gets there.

    `secrets` is asked at each event, because a token may change while we run. If this `is_default`, a program
    that has set up structlog itself is left alone.
    """

    def set_up() -> None:
        import structlog

        if not (is_default and structlog.is_configured()):
            _configure(log_format, level, Scrubber(secrets), has_colour=has_colour)

    log.set_up_with(set_up, level)


def configure_traces(environment: Mapping[str, str]) -> None:
    """Trace if the standard variables ask for it; say so if that cannot be done, and go on without."""
    try:
        traces.set_up(environment)
    except ExtraMissing as error:
        log.warning("traces_unavailable", cause=str(error))


def _configure(log_format: LogFormat, level: LogLevel, scrubber: "Scrubber", *, has_colour: bool) -> None:
    import logging

    import structlog

    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        _add_trace,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="timestamp"),
        structlog.processors.format_exc_info,
        scrubber,
        escape_event,
        _renderer(log_format, has_colour=has_colour),
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=_stderr_logger,
        # Standard error may be replaced, by a progress bar for example: it is looked up at each event.
        cache_logger_on_first_use=False,
    )


def _add_trace(_logger: "WrappedLogger", _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """Return the event with the ids of the span that it happened in."""
    return {**event, **traces.ids()} if traces.is_on else event


def escape_controls(text: str) -> str:
    """Return `text` with every control character spelled out, so that it stays on its line.

    >>> print(escape_controls("one\\ntwo\\x1b[31m"))
    one\\ntwo\\x1b[31m
    """
    return text.translate(_CONTROLS)


def escape_json(text: str) -> str:
    """Return JSON `text` with what a terminal would obey spelled out; it means the same as before.

    >>> print(escape_json('{"a": "\\u202e\\u009b"}'))
    {"a": "\\u202e\\u009b"}
    """
    return text.translate(_CONTROLS_IN_JSON)


class Scrubber:
    """A processor that replaces the live secrets in every key and value of an event."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._known: tuple[str, ...] = ()
        self._asking = threading.local()

    def __call__(
        self,
        _logger: "WrappedLogger",
        _method: str,
        event: MutableMapping[str, Any],
    ) -> Mapping[str, Any]:
        """Return the event without secrets."""
        known = self._current()
        return {
            scrub(key, known): _map_text(value, lambda text: scrub(text, known))
            for key, value in event.items()
        }

    def _current(self) -> tuple[str, ...]:
        """Return the secrets, the longest first: one may be the beginning of another.

        Asking for a secret may itself be logged; within that, those known before are used.
        """
        if not getattr(self._asking, "is_under_way", False):
            self._asking.is_under_way = True
            try:
                self._known = tuple(
                    sorted({*self._known, *filter(None, self._secrets())}, key=len, reverse=True)
                )
            finally:
                self._asking.is_under_way = False
        return self._known


def escape_event(
    _logger: "WrappedLogger",
    _method: str,
    event: MutableMapping[str, Any],
) -> Mapping[str, Any]:
    """Return the event with the control characters of its texts spelled out; a traceback keeps its lines."""
    return {
        escape_controls(key): value.translate(_CONTROLS_IN_TRACE)
        if key == "exception" and isinstance(value, str)
        else _map_text(value, escape_controls)
        for key, value in event.items()
    }


def _map_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return `value` with `change` applied to every text in it; what is no plain value becomes text first."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {change(str(key)): _map_text(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_map_text(item, change) for item in value]
    return change(value if isinstance(value, str) else repr(value))


def scrub(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with a mask for each of the secrets in it.

    >>> scrub("Bad credentials: ghp_0123456789", ["ghp_0123456789"])
    'Bad credentials: [secret]'
    """
    for secret in secrets:
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, MASK)
        elif secret in text:
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", MASK, text)
    return text


def _renderer(log_format: LogFormat, *, has_colour: bool) -> "Processor":
    import structlog

    if log_format == "json":
        return structlog.processors.JSONRenderer(ensure_ascii=False)
    return structlog.dev.ConsoleRenderer(colors=has_colour, exception_formatter=structlog.dev.plain_traceback)


def _stderr_logger(*_: object) -> Any:
    import structlog

    return structlog.WriteLogger(sys.stderr)
