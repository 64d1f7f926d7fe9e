"""Who is logged in to the dashboard: sessions, one-time links, marks of our own forms, and what was done."""

import hmac
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from http.cookies import CookieError, SimpleCookie

from holdfast.github.tokens import TokenSource

COOKIE = "holdfast_session"
SESSION_S = 12 * 3600.0
LINK_S = 120.0
MOST_SESSIONS = 1000
MOST_SAID = 200
# Wrong tokens within a minute, by whoever it is: nobody guesses a token at this rate.
MOST_FAILURES = 10
FAILURE_WINDOW_S = 60.0


class Sessions:
    """Remembers, in memory alone, who has shown the token of the API. Without a token everyone may look.

    A restart logs everybody out, and so does a new token.
    """

    def __init__(
        self, tokens: TokenSource, *, is_needed: bool, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._tokens = tokens
        self._now = now
        self._secret = secrets.token_bytes(32)
        self._lock = threading.Lock()
        self._sessions: dict[str, tuple[float, bytes]] = {}
        self._links: dict[str, float] = {}
        self._failures: deque[float] = deque(maxlen=MOST_FAILURES)
        self._said: dict[str, str] = {}
        self.is_needed = is_needed

    def is_known(self, cookies: bytes) -> bool:
        """Whether a request with these cookies comes from someone who is logged in."""
        if not self.is_needed:
            return True
        found = self._sessions.get(session_of(cookies))
        return found is not None and found[0] > self._now() and found[1] == self._fingerprint()

    def is_locked(self) -> bool:
        """Whether there were too many wrong tokens lately."""
        failures = self._failures
        return len(failures) == MOST_FAILURES and self._now() - failures[0] < FAILURE_WINDOW_S

    def log_in(self, token: str) -> str | None:
        """Return a new session for whoever shows the right token; None for others."""
        known = self._tokens.token()
        if not known or not hmac.compare_digest(_digest(token.strip()), _digest(known)):
            self._failures.append(self._now())
            return None
        return self._open()

    def make_link(self) -> str:
        """Return a code that logs in once, soon."""
        code = secrets.token_urlsafe(32)
        with self._lock:
            self._links = {each: until for each, until in self._links.items() if until > self._now()}
            self._links[code] = self._now() + LINK_S
        return code

    def redeem(self, code: str) -> str | None:
        """Return a new session for a code that was not used yet; None for others."""
        with self._lock:
            until = self._links.pop(code, 0.0)
        return self._open() if until > self._now() else None

    def say(self, text: str) -> str:
        """Return a code by which the next page shows this text: no address can make a page say its own."""
        code = secrets.token_urlsafe(12)
        with self._lock:
            self._said[code] = text
            while len(self._said) > MOST_SAID:
                del self._said[next(iter(self._said))]
        return code

    def said(self, code: str) -> str:
        """Return the text of a code, empty if it is not known (any more)."""
        return self._said.get(code, "")

    def log_out(self, cookies: bytes) -> None:
        """Forget a session."""
        with self._lock:
            self._sessions.pop(session_of(cookies), None)

    def mark(self, cookies: bytes) -> str:
        """Return what a form must carry so that it is known to be ours."""
        return hmac.new(self._secret, session_of(cookies).encode(), sha256).hexdigest()

    def is_marked(self, cookies: bytes, mark: str) -> bool:
        """Whether a form carries its mark."""
        return hmac.compare_digest(self.mark(cookies).encode(), mark.encode())

    def _open(self) -> str:
        session = secrets.token_urlsafe(32)
        with self._lock:
            if len(self._sessions) >= MOST_SESSIONS:
                del self._sessions[min(self._sessions, key=lambda each: self._sessions[each][0])]
            self._sessions[session] = (self._now() + SESSION_S, self._fingerprint())
        return session

    def _fingerprint(self) -> bytes:
        return _digest(self._tokens.token() or "")


def session_of(cookies: bytes) -> str:
    """Return the session that a Cookie header names; empty if it names none.

    >>> session_of(b"a=1; holdfast_session=xyz"), session_of(b"a=1")
    ('xyz', '')
    """
    try:
        found = SimpleCookie(cookies.decode("latin-1")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""


def cookie_header(session: str, *, is_secure: bool) -> str:
    """Return the Set-Cookie header of a session; an empty session ends it."""
    age_s = int(SESSION_S) if session else 0
    secure = "; Secure" if is_secure else ""
    return f"{COOKIE}={session}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}"


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()
