"""A PgBouncer in transaction mode before a PostgreSQL; TEST_WITH_PGBOUNCER=1 puts it before all tests."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from uuid import uuid4

import psycopg

_START_TIMEOUT_S = 30.0


def is_wanted() -> bool:
    return bool(os.environ.get("TEST_WITH_PGBOUNCER"))


class PgBouncer:
    """Pools transactions to one server. A URL of it has no schema: each gets a database of its own."""

    def __init__(self, server_url: str, server_folder: Path, server_port: int) -> None:
        program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        self._server_url = server_url
        self.folder = Path(tempfile.mkdtemp(prefix="holdfast-pgbouncer-"))
        user = None if os.getuid() else "nobody"
        (self.folder / "users").write_text('"holdfast" ""\n', encoding="utf-8")
        (self.folder / "pgbouncer.ini").write_text(
            f"""[databases]
* = host={server_folder} port={server_port}
[pgbouncer]
listen_addr =
unix_socket_dir = {self.folder}
auth_type = trust
auth_file = {self.folder}/users
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
max_db_connections = 8
server_idle_timeout = 5
""",
            encoding="utf-8",
        )
        if user:
            for path in (self.folder, *self.folder.iterdir()):
                shutil.chown(path, user)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, str(self.folder / "pgbouncer.ini")], user=user, stdout=log, stderr=log, cwd="/"
            )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self._url("postgres")).close()
                break
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (self.folder / "log").read_text()
                time.sleep(0.02)

    def _url(self, database: str) -> str:
        return f"postgresql://holdfast@/{database}?host={self.folder}&port=6432"

    def new_url(self) -> str:
        """Return the address of an empty database, through the pooler."""
        name = f"t{uuid4().hex[:12]}"
        with psycopg.connect(self._server_url, autocommit=True) as connection:
            connection.execute(f"create database {name}".encode())
        return self._url(name)

    def close(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(_START_TIMEOUT_S)
        shutil.rmtree(self.folder, ignore_errors=True)
