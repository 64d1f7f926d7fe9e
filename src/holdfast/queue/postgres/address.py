"""The address of the shared database: what it means, and what is wrong with it."""

import re
from typing import Any

import psycopg
from psycopg import conninfo

from holdfast.errors import InvalidSettings

# A caller is not to wait long for a server that is away: its checkpoint goes to the local disk instead.
CONNECT_TIMEOUT_S = 4
# What a wrong address or a wrong password leads to, and what a server says that is merely busy.
_WRONG = (
    "authentication",
    "password",
    "does not exist",
    "no pg_hba.conf entry",
    "pg_hba.conf rejects",
    "not permitted to log in",
    "permission denied for database",
    "certificate",
    "does not support ssl",
)
_BUSY = ("authentication due to timeout",)
_NAMES = re.compile(r'"[^"]*"|host \'[^\']*\'')
_INVALID_OPTION = re.compile(r"(^|: )(invalid|weak) \S* ?\S* ?(value|sslmode)")
_GIVEN_VALUE = re.compile(r"""( value(?: for \w+)?):? ["'][^"']*["']""")
_HIGHEST_PORT = 65_535
_USAGE = (
    "HOLDFAST_DATABASE_URL: use a URL such as postgresql://user:password@host:5432/database; in user and "
    "password, write @ as %40, / as %2F and % as %25"
)

_OPTIONS: dict[str, Any] = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 6000,
    "application_name": "holdfast",
}


def describe(url: str) -> str:
    """Return which database a URL means, without user and password.

    >>> describe("postgresql://me:secret@db.example.com:5433/work")
    'PostgreSQL at db.example.com:5433, database work'
    """
    parts = _parse(url)
    host = parts.get("host") or parts.get("hostaddr") or "the usual socket"
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"PostgreSQL at {host}{port}, database {parts.get('dbname') or parts.get('user') or 'by default'}"


def explain(error: psycopg.Error) -> str:
    """Return what a failure says, in one line. Nothing of a password is in it, nor what was given by mistake.

    >>> explain(psycopg.OperationalError('connection is bad: invalid sslmode value: "s3cret"'))
    'connection is bad: invalid sslmode value'
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return _GIVEN_VALUE.sub(r"\1", lines[0]) if lines else type(error).__name__


def is_wrong(error: psycopg.Error) -> bool:
    """Whether a connection failed because of what the address says, in contrast to a server that is away.

    The driver knows no code of such a failure, so its words tell, without the names and addresses in them.

    >>> is_wrong(psycopg.OperationalError('connection to server at "password-db", port 1 failed: timeout'))
    False
    >>> is_wrong(psycopg.OperationalError('… failed: FATAL:  password authentication failed for user "me"'))
    True
    """
    said = _NAMES.sub("", explain(error)).lower()
    return (
        isinstance(error, psycopg.ProgrammingError)  # an option that is none was found before any server
        or _INVALID_OPTION.search(said) is not None
        or (any(words in said for words in _WRONG) and not any(words in said for words in _BUSY))
    )


def _parse(url: str) -> dict[str, Any]:
    try:
        parts = dict(conninfo.conninfo_to_dict(url))
    except psycopg.ProgrammingError:
        raise InvalidSettings([_USAGE]) from None
    # A password that is not encoded would be taken for a host, a port or a database, and be shown as such.
    ports = str(parts.get("port") or "").split(",")
    if not all(map(_is_port, ports)) or not _is_clear(url):
        raise InvalidSettings([_USAGE])
    return parts


def _is_port(text: str) -> bool:
    return not text or (text.isdecimal() and 0 < int(text) <= _HIGHEST_PORT)


def _is_clear(url: str) -> bool:
    """Whether the first @ ends user and password, as it does for PostgreSQL, and not one behind it.

    >>> _is_clear("postgresql://me:s%40cret@db/work"), _is_clear("postgresql://me:s@cret@db/work")
    (True, False)
    """
    _, is_url, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    user, at, host = authority.partition("@")
    return not is_url or not any("@" in each.partition("?")[0] for each in (host if at else user, path))


def complete(url: str) -> str:
    """Return the address with what we ask of every connection, unless it says otherwise itself."""
    given = _parse(url)
    return conninfo.make_conninfo(**{**_OPTIONS, **given})
