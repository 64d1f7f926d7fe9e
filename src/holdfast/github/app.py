"""What makes us a GitHub App: the word that it signs, its tokens, and what is wrong with it, for a person.

See https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app
"""

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.errors import GatewayError, InvalidSettings, Refused, Throttled, Unavailable
from holdfast.github.tokens import TokenSource
from holdfast.logs import log

# GitHub allows ten minutes, and advises to begin a minute ago, for clocks that differ.
_BEGINS_BEFORE_S = 60
_LASTS_S = 540
# A token lasts for an hour. One that ends within this is replaced, so that no request meets its end.
RENEW_BEFORE_S = 300.0
# When a renewal has failed, the old one is used for as long as it lasts, and this is waited in between.
TRY_EVERY_S = 10.0
_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class InstallationToken:
    """A token and when it ends, in epoch seconds."""

    token: str
    expires_at: float

    def is_due(self, now: float) -> bool:
        """Whether it is time for another.

        >>> [InstallationToken("t", 3600.0).is_due(now) for now in (0.0, 3299.0, 3300.0)]
        [False, False, True]
        """
        return now >= self.expires_at - RENEW_BEFORE_S


class AppTokenSource(TokenSource):
    """Gives the token of an App's installation. `fetch` asks GitHub for one and may raise a GatewayError.

    An App has one installation in each account, and `account` is whose limits it uses up.
    """

    def __init__(
        self, app_id: str, account: str, fetch: Callable[[], InstallationToken], now: Callable[[], float]
    ) -> None:
        super().__init__(None, None)
        self._identity = f"app {app_id} in {account.lower()}"
        self._fetch = fetch
        self._now = now
        self._held: InstallationToken | None = None
        self._tried_at = float("-inf")
        self._lock = threading.Lock()

    @property
    def is_set(self) -> bool:
        """Whether there is one; here there always can be."""
        return True

    def known(self) -> str | None:
        """Return the token that is held, without asking for one."""
        return self._held.token if self._held else None

    def token(self) -> str | None:
        """Return a token that lasts for a while. Raises GatewayError if there is none."""
        with self._lock:
            if self._held is None or self._held.is_due(self._now()):
                self._renew()
            return self.known()

    def fingerprint(self) -> str:
        """Return what tells one installation from another: its tokens come and go."""
        return hashlib.sha256(self._identity.encode()).hexdigest()[:16]

    def _renew(self) -> None:
        now, held = self._now(), self._held
        is_usable = held is not None and now < held.expires_at
        if is_usable and now - self._tried_at < TRY_EVERY_S:
            return
        self._tried_at = now
        try:
            self._held = self._fetch()
        except GatewayError as error:
            if not is_usable:
                self._held = None
                raise
            log.warning("app_token_not_renewed", cause=str(error))


def make_signer(app_id: str, private_key: str, now: Callable[[], float]) -> Callable[[], str]:
    """Return what makes such a word, valid from now on. It raises Refused where the key cannot be used."""

    def sign() -> str:
        from joserfc import jwt
        from joserfc.errors import JoseError
        from joserfc.jwk import RSAKey

        issued = int(now()) - _BEGINS_BEFORE_S
        claims = {"iss": app_id, "iat": issued, "exp": issued + _LASTS_S}
        try:
            key = RSAKey.import_key(private_key)
            return jwt.encode({"alg": "RS256"}, claims, key, algorithms=["RS256"])
        except (JoseError, ValueError, TypeError) as error:
            raise _refuse_key(error) from None

    return sign


def refuse_app(path: str, status: int, content: Any) -> GatewayError:
    """Return the error for GitHub's answer to what an App has asked."""
    said = str(content.get("message", "")) if isinstance(content, Mapping) else ""
    reason = f"GitHub answered {status} to the App: {said}"
    if status == 401:
        advice = "Check HOLDFAST_APP_ID, its private key, and this machine's clock."
        return Refused(path, reason, kind="auth", advice=advice)
    if status == 404:
        advice = "Install the App on this repository, or correct HOLDFAST_APP_INSTALLATION_ID."
        return Refused(path, reason, kind="not_found_or_no_access", advice=advice)
    if status == 429 or "rate limit" in said.lower():
        return Throttled(path, reason, kind="secondary", retry_after_s=_WAIT_S)
    if status in (403, 422):
        advice = "The App may be suspended there; look at the account's installed GitHub Apps."
        return Refused(path, reason, kind="permission", advice=advice)
    return Unavailable(path, reason)


def _refuse_key(cause: object) -> Refused:
    """Return the error for a key that signs nothing. The cause may quote it, so only its kind is told."""
    return Refused(
        "",
        f"the App's private key cannot be used ({type(cause).__name__})",
        kind="auth",
        advice="Give the whole PEM file that GitHub made for the App, in HOLDFAST_APP_PRIVATE_KEY_FILE.",
    )


def read_private_key(given: str | None, file: Path | None) -> str:
    r"""Return the key, of the file before the other. Raises InvalidSettings.

    >>> read_private_key("-----BEGIN-----\\nabc", None)
    '-----BEGIN-----\nabc'
    """
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            problem = f"HOLDFAST_APP_PRIVATE_KEY_FILE: {file} cannot be read: {type(error).__name__}"
            raise InvalidSettings([problem]) from None
    if not given:
        raise InvalidSettings(["HOLDFAST_APP_ID: set HOLDFAST_APP_PRIVATE_KEY_FILE to the App's key, too"])
    # Where a variable cannot hold lines, they are usually written so.
    return given.replace("\\n", "\n")
