"""What a failure to connect says: whether the address is wrong, or the server is away."""

import psycopg
import pytest

from holdfast.queue.postgres.address import explain, is_wrong

HOST = "password-role-certificate.example"
AT = f'connection failed: connection to server at "{HOST}" (10.0.0.1), port 5432 failed: '


@pytest.mark.parametrize(
    "said",
    [
        AT + 'FATAL:  password authentication failed for user "me"',
        AT + 'FATAL:  database "work" does not exist',
        AT + 'FATAL:  role "me" does not exist',
        AT + 'FATAL:  role "me" is not permitted to log in',
        AT + 'FATAL:  no pg_hba.conf entry for host "10.0.0.2", user "me", database "work", no encryption',
        AT + "fe_sendauth: no password supplied",
        AT + "server does not support SSL, but SSL was required",
        AT + "SSL error: certificate verify failed",
        AT + 'root certificate file "/nowhere" does not exist',
        AT + 'invalid integer value "x" for connection option "keepalives"',
        'connection is bad: weak sslmode "require" may not be used with sslrootcert=system',
    ],
)
def test_what_a_person_must_mend_is_told_from_an_outage(said: str) -> None:
    assert is_wrong(psycopg.OperationalError(said))


@pytest.mark.parametrize(
    "said",
    [
        AT + "Connection refused",
        AT + "timeout expired",
        AT + "FATAL:  the database system is starting up",
        AT + "FATAL:  canceling authentication due to timeout",
        AT + "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
        AT + 'FATAL:  too many connections for role "password"',
        AT + "received invalid response to SSL negotiation: H",
        "failed to resolve host 'role.password.example': [Errno -2] Name or service not known",
        "connection timeout expired",
    ],
)
def test_an_outage_is_none_whatever_the_names_in_it_are(said: str) -> None:
    assert not is_wrong(psycopg.OperationalError(said))


def test_failure_without_words_is_told_by_its_kind() -> None:
    assert explain(psycopg.OperationalError("")) == "OperationalError"
