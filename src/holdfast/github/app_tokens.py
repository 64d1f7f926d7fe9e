"""The tokens of a GitHub App: asked for when they are needed, renewed early, and kept in memory alone."""

import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.errors import GatewayError
from holdfast.github.tokens import TokenSource
from holdfast.logs import log

# A token lasts for an hour. One that ends within this is replaced, so that no request meets its end.
RENEW_BEFORE_S = 300.0
# When a renewal has failed, the old one is used for as long as it lasts, and this is waited in between.
TRY_EVERY_S = 10.0


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
