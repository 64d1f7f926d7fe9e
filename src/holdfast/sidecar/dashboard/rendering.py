"""Templates to HTML: everything that comes from users or the repository is text, whatever it contains."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from holdfast.presentation.render import format_bytes, format_duration
from holdfast.sidecar.dashboard.views import checkpoint_link, run_link

if TYPE_CHECKING:
    from jinja2 import Environment

STATIC = Path(__file__).parent / "static"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
MEDIA_TYPE = "text/html; charset=utf-8"
# No script but our own files, nothing from elsewhere, in nobody's frame.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


@cache
def _environment() -> "Environment":
    """Return the templates, which are loaded when someone looks at the first page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("holdfast.sidecar.dashboard"),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"bytes": format_bytes, "duration": format_duration, "clock": _clock}
    environment.globals |= {"run_link": run_link, "checkpoint_link": checkpoint_link}
    return environment


def render(template: str, values: dict[str, Any]) -> str:
    """Return a page as text."""
    return _environment().get_template(template).render(values)


def page(template: str, values: dict[str, Any], status: int = 200) -> Response:
    """Return a page as an answer."""
    return Response(render(template, values), status, headers=HEADERS, media_type=MEDIA_TYPE)


@cache
def static_file(name: str) -> tuple[bytes, str] | None:
    """Return a file that pages need, and its type; None if there is none of that name."""
    known = {path.name: path for path in STATIC.iterdir()}
    path = known.get(name)
    return (path.read_bytes(), MEDIA_TYPES[path.suffix]) if path and path.suffix in MEDIA_TYPES else None


def _clock(moment: float) -> str:
    """Return a moment as ISO 8601, for the datetime of a <time>."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
