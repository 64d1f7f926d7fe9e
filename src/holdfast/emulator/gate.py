"""What every request must bring before a route looks at it: a user agent, a known version, a good token."""

import re

from holdfast.emulator.apps import check_jwt, is_for_apps
from holdfast.emulator.exchange import Refusal, Request
from holdfast.emulator.options import EmulatorOptions, Switches

_CREDENTIALS = re.compile(r"(?:token|bearer)\s+(?P<token>\S+)", re.IGNORECASE)


def check_request(request: Request, options: EmulatorOptions, switches: Switches) -> None:
    """Refuse what GitHub turns away at the door."""
    if not request.headers.get("user-agent", "").strip():
        raise Refusal(
            403,
            "Request forbidden by administrative rules. "
            "Please make sure your request has a User-Agent header",
        )
    version = request.headers.get("x-github-api-version")
    if version is not None and version not in options.api_versions:
        supported = ", ".join(options.api_versions)
        raise Refusal(400, f'"{version}" is not a supported version. Supported versions are: {supported}.')
    if request.path != "/" and request.path != "/meta":
        _check_token(request, options, switches)


def _check_token(request: Request, options: EmulatorOptions, switches: Switches) -> None:
    if switches.token_revoked:
        raise Refusal(401, "Bad credentials")
    if options.app and is_for_apps(request):
        check_jwt(request, options.app, options.now())
        return
    if options.token is None and options.app is None:
        return
    credentials = request.headers.get("authorization")
    if credentials is None:
        raise Refusal(401, "Requires authentication")
    found = _CREDENTIALS.fullmatch(credentials.strip())
    token = found.group("token") if found else ""
    if options.app and options.app.installation_of(token, options.now()):
        return
    if not token or token != options.token:
        raise Refusal(401, "Bad credentials")
