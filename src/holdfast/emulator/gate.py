"""What every request must bring before a route looks at it: a user agent, a known version, a good token."""

import re

from holdfast.emulator.apps import ANYONE, Caller, check_jwt, is_for_apps
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


def find_caller(request: Request, options: EmulatorOptions) -> Caller:
    """Return who calls, as far as the request says it truly; whether it may is another question."""
    app = options.app
    if app is None:
        return ANYONE
    if is_for_apps(request):
        return Caller(f"app ID {app.app_id}")
    return app.caller_of(_token_of(request), options.now()) or ANYONE


def _token_of(request: Request) -> str:
    found = _CREDENTIALS.fullmatch(request.headers.get("authorization", "").strip())
    return found.group("token") if found else ""


def _check_token(request: Request, options: EmulatorOptions, switches: Switches) -> None:
    if switches.token_revoked:
        raise Refusal(401, "Bad credentials")
    if options.app and is_for_apps(request):
        check_jwt(request, options.app, options.now())
        return
    if options.token is None and options.app is None:
        return
    if "authorization" not in request.headers:
        raise Refusal(401, "Requires authentication")
    token = _token_of(request)
    if options.app and options.app.caller_of(token, options.now()):
        return
    if not token or token != options.token:
        raise Refusal(401, "Bad credentials")
