"""GitHub Apps: a signed word of the App's own, its installations, and the tokens that these are given.

See https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app
"""

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

from holdfast.emulator.exchange import Answer, Refusal, Request, json_answer, not_found
from holdfast.emulator.shapes import format_time

if TYPE_CHECKING:
    from holdfast.emulator.visit import Visit

TOKEN_LASTS_S = 3600
LONGEST_JWT_S = 600
CLOCK_DRIFT_S = 60
_APP_PATH = re.compile(r"/app(?:/.*)?|/repos/[^/]+/[^/]+/installation", re.DOTALL)
_BEARER = re.compile(r"bearer\s+(?P<jwt>\S+)", re.IGNORECASE)
_TOKEN = re.compile(r"ghs_(?P<installation>\d+)_(?P<expires>\d+)_(?P<proof>[0-9a-f]{32})")


@dataclass(frozen=True)
class Caller:
    """Whose limits a request uses up, and the one account whose repositories it sees, if it is not all.

    `limit` is how many calls an hour it has; None if the options say it.
    """

    name: str
    account: str | None = None
    limit: int | None = None


ANYONE = Caller("user ID 1")


@dataclass(frozen=True)
class AppRegistration:
    """An App: who it is, a key that checks its signature, and the installation in each account.

    `limits` has the calls an hour of the installations that have another number than the options say.
    """

    app_id: int
    public_key: str
    installations: Mapping[str, int]
    limits: Mapping[int, int] = field(default_factory=dict)
    secret: bytes = field(default_factory=lambda: token_bytes(32), repr=False)

    def check_key(self) -> None:
        """Raise ValueError if the key is none; a private one has the public one in it."""
        from joserfc.errors import JoseError
        from joserfc.jwk import RSAKey

        try:
            RSAKey.import_key(self.public_key)
        except (JoseError, ValueError, TypeError) as error:
            raise ValueError(f"this is no RSA key in PEM: {type(error).__name__}") from None

    @property
    def callers(self) -> list[Caller]:
        """Everyone who calls in the name of this App: its installations."""
        return [
            Caller(f"installation ID {number}", account, self.limits.get(number))
            for account, number in self.installations.items()
        ]

    def caller_of(self, token: str, now: float) -> Caller | None:
        """Return the installation that calls with a token; None if it is no token of this App."""
        installation = self.installation_of(token, now)
        numbers = self.installations.values()
        return next(
            (each for each, number in zip(self.callers, numbers, strict=True) if number == installation), None
        )

    def make_token(self, installation: int, expires: int) -> str:
        """Return a token that tells by itself whom it is for, and until when."""
        return f"ghs_{installation}_{expires}_{self._proof(installation, expires)}"

    def installation_of(self, token: str, now: float) -> int | None:
        """Return the installation that a token was given to; None if it is forged or too old."""
        found = _TOKEN.fullmatch(token)
        if found is None:
            return None
        installation, expires = int(found["installation"]), int(found["expires"])
        is_ours = hmac.compare_digest(found["proof"], self._proof(installation, expires))
        return installation if is_ours and now < expires else None

    def _proof(self, installation: int, expires: int) -> str:
        return hmac.new(self.secret, f"{installation} {expires}".encode(), "sha256").hexdigest()[:32]


def is_for_apps(request: Request) -> bool:
    """Whether a request is the App's own, and not one of an installation."""
    return _APP_PATH.fullmatch(request.decoded_path) is not None


def check_jwt(request: Request, app: AppRegistration, now: float) -> None:
    """Refuse a request that is not signed by the App, or not for now."""
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import RSAKey

    found = _BEARER.fullmatch(request.headers.get("authorization", "").strip())
    if found is None:
        raise Refusal(401, "A JSON web token could not be decoded")
    try:
        claims = jwt.decode(found["jwt"], RSAKey.import_key(app.public_key), algorithms=["RS256"]).claims
        issued, expires = float(claims["iat"]), float(claims["exp"])
    except (JoseError, ValueError, KeyError, TypeError):
        raise Refusal(401, "A JSON web token could not be decoded") from None
    if str(claims.get("iss")) != str(app.app_id):
        raise Refusal(401, "Integration not found")
    if expires <= now:
        raise Refusal(
            401, "'Expiration time' claim ('exp') must be a numeric value representing the future time"
        )
    if expires > now + LONGEST_JWT_S:
        raise Refusal(401, "'Expiration time' claim ('exp') is too far in the future")
    if issued > now + CLOCK_DRIFT_S:
        raise Refusal(401, "'Issued at' claim ('iat') must be an Integer representing a time in the past")


def get_app(visit: "Visit") -> Answer:
    """Answer who the App is."""
    app = _app_of(visit)
    return json_answer(
        {"id": app.app_id, "slug": "holdfast", "name": "holdfast", "permissions": _PERMISSIONS}
    )


def get_installation(visit: "Visit") -> Answer:
    """Answer the installation that may work on a repository."""
    app = _app_of(visit)
    owner = visit.repository.full_name.partition("/")[0]
    for account, installation in app.installations.items():
        if account.lower() == owner.lower():
            return json_answer(_installation_shape(app, account, installation))
    raise not_found()


def create_token(visit: "Visit") -> Answer:
    """Answer a new token of an installation, which lasts for an hour."""
    app = _app_of(visit)
    installation = int(visit.params["installation"]) if visit.params["installation"].isdigit() else 0
    if installation not in app.installations.values():
        raise not_found()
    expires = int(visit.now) + TOKEN_LASTS_S
    shape = {
        "token": app.make_token(installation, expires),
        "expires_at": format_time(expires),
        "permissions": _PERMISSIONS,
        "repository_selection": "all",
    }
    return json_answer(shape, status=201)


_PERMISSIONS = {"contents": "write", "metadata": "read"}


def _app_of(visit: "Visit") -> AppRegistration:
    if visit.options.app is None:
        raise not_found()
    return visit.options.app


def _installation_shape(app: AppRegistration, account: str, installation: int) -> dict[str, Any]:
    return {
        "id": installation,
        "app_id": app.app_id,
        "account": {"login": account, "type": "Organization"},
        "target_type": "Organization",
        "repository_selection": "all",
        "permissions": _PERMISSIONS,
    }
