"""Who may call: the address that is bound, the Host and Origin of a request, and its token."""

import hmac
import ipaddress
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from urllib.parse import quote

from holdfast.errors import InvalidSettings
from holdfast.github.tokens import TokenSource
from holdfast.settings import Settings
from holdfast.sidecar.problems import Doorway, LostForm, Problem
from holdfast.sidecar.sessions import Sessions

LOOPBACK_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
OPEN_PATHS = frozenset({"/healthz"})
EVENTS = "/v1/events"
LOGIN, LOGOUT = "/ui/login", "/ui/logout"
OPEN_PAGES = (LOGIN, "/ui/static/")
# The codes of those to whom not even the name of the repository is told.
STRANGERS = frozenset({"several_hosts", "foreign_host", "foreign_origin"})
# What a browser says of a request that its user typed in, or that one of our own pages made.
OWN_SITES = frozenset({b"none", b"same-origin"})

_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::[0-9]{1,5})?", re.IGNORECASE)


def check_binding(settings: Settings, tokens: TokenSource) -> None:
    """Refuse to listen where others can reach us without a token. Raises InvalidSettings."""
    has_token = bool(tokens.token())
    if settings.api_token_file and not has_token:
        raise InvalidSettings([f"HOLDFAST_API_TOKEN_FILE: {settings.api_token_file} holds no token"])
    if not has_token and not is_loopback(settings.host):
        problem = f"HOLDFAST_API_TOKEN: it is needed to listen on {settings.host}, where others can reach it"
        advice = "set it (or HOLDFAST_API_TOKEN_FILE), or stay with --host 127.0.0.1"
        raise InvalidSettings([f"{problem}; {advice}"])


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`.

    >>> is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port; nothing if it is not exactly a name and a port.

    >>> host_name("holdfast:8723"), host_name("[::1]:8723"), host_name("[::1]")
    ('holdfast', '::1', '::1')
    >>> host_name("[::1].evil"), host_name("127.0.0.1:80.evil")
    ('', '')
    """
    match = _HOST.fullmatch(host)
    return (match[1] or match[2]).lower() if match else ""


class Access:
    """Judges each request by its headers.

    A page in a browser chooses neither Host nor Origin nor Sec-Fetch-Site. An image of another site has no
    Origin, but it has the last.
    """

    def __init__(self, settings: Settings, tokens: TokenSource, sessions: Sessions | None = None) -> None:
        self._names = {*LOOPBACK_NAMES, host_name_of_address(settings.host), *settings.allowed_hosts}
        self._tokens = tokens
        self._sessions = sessions
        self._needs_token = settings.api_token is not None or settings.api_token_file is not None

    def check(
        self,
        path: str,
        hosts: Sequence[bytes],
        headers: dict[bytes, bytes],
        *,
        query: bytes = b"",
        is_form: bool = False,
    ) -> None:
        """Raise the Problem of a request that may not be answered. `hosts` are all its Host headers."""
        if len(hosts) > 1:
            raise Problem(400, "several_hosts", "Send one Host header.")
        host = hosts[0].decode("latin-1") if hosts else ""
        if host_name(host) not in self._names:
            raise Problem(
                403,
                "foreign_host",
                f"This sidecar is not known as {host[:80]!r}; if it should be, add that name to "
                "HOLDFAST_ALLOWED_HOSTS, else call it by 127.0.0.1.",
            )
        origin = headers.get(b"origin")
        # A proxy in front of us may speak TLS.
        own = (f"http://{host.lower()}", f"https://{host.lower()}")
        if origin is not None and origin.decode("latin-1").lower() not in own:
            raise Problem(403, "foreign_origin", "Pages of other origins may not call this sidecar.")
        if _header(headers, b"sec-fetch-site", b"none") not in OWN_SITES:
            if is_page(path) and _header(headers, b"sec-fetch-dest") == b"document":
                raise Doorway()
            raise Problem(403, "foreign_origin", "Pages of other sites may not call this sidecar.")
        if path in OPEN_PATHS or path.startswith(OPEN_PAGES) or self.is_known(path, headers):
            return
        if is_page(path) and self._sessions is not None:
            raise _lead_to_login(path, query, is_form=is_form)
        raise Problem(
            401,
            "token_needed",
            "Send the sidecar's token (HOLDFAST_API_TOKEN) as Authorization: Bearer …",
            headers={"WWW-Authenticate": "Bearer"},
        )

    def is_known(self, path: str, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a request comes from someone who may look: by the token, or for pages by a session.

        The API itself is for those who send the token with each request.
        """
        if not self._needs_token or self._has_token(headers):
            return True
        if self._sessions is None or not (is_page(path) or path == EVENTS):
            return False
        return self._sessions.is_known(headers.get(b"cookie", b""))

    def _has_token(self, headers: Mapping[bytes, bytes]) -> bool:
        scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
        token = self._tokens.token()
        if not token or scheme.lower() != b"bearer":
            return False
        return hmac.compare_digest(_digest(given.strip()), _digest(token.encode()))


def is_page(path: str) -> bool:
    """Whether a person looks at this address."""
    return path == "/" or path.startswith("/ui/")


def _lead_to_login(path: str, query: bytes, *, is_form: bool) -> Problem:
    if is_form and path != LOGOUT:
        lost = "Your session has ended, so nothing was done. Log in, then do it again."
        return LostForm(401, "session_ended", lost)
    asked = f"{path}?{query.decode('latin-1')}" if query else path
    wanted = f"?next={quote(asked)}" if asked.startswith("/ui/") and not is_form else ""
    return Problem(303, "login_needed", "Log in first.", headers={"Location": LOGIN + wanted})


def _header(headers: dict[bytes, bytes], name: bytes, default: bytes = b"") -> bytes:
    return headers.get(name, default).strip().lower()


def host_name_of_address(address: str) -> str:
    """Return by which name a bound address is called; an address that means "all" is no name."""
    try:
        is_all = ipaddress.ip_address(address).is_unspecified
    except ValueError:
        is_all = False
    return "127.0.0.1" if is_all else address.lower()


def _digest(text: bytes) -> bytes:
    return sha256(text).digest()
