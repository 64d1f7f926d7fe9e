"""What stands for the parts that a reader has: a GitHub with an App, and a PostgreSQL."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.emulator import AppRegistration, Emulator, EmulatorOptions, EmulatorServer
from tests.fakes.app import key_pair
from tests.fakes.postgres import own_server

TOKEN = "github_pat_of_a_reader"
APP = AppRegistration(123456, key_pair()[1], {"acme": 1, "umbrella": 2, "initech": 3})
REPOSITORIES = [f"{owner}/checkpoints" for owner in APP.installations]
DATABASE_URL = "postgresql://holdfast:password@db:5432/holdfast"
SECRETS = "/run/secrets"


@dataclass
class Parts:
    """What a page says, with what is meant by it here, and what the environment of its reader has."""

    real: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)


@contextmanager
def real_parts(folder: Path) -> Iterator[Parts]:
    """Give a GitHub with a few repositories, secrets for it, and a database that syncs to its disk."""
    secrets = folder / "secrets"
    secrets.mkdir()
    (secrets / "token").write_text(TOKEN)
    (secrets / "app.pem").write_text(key_pair()[0])
    with ExitStack() as stack:
        emulator = Emulator(EmulatorOptions(folder / "github", REPOSITORIES[0], token=TOKEN, app=APP))
        stack.callback(emulator.close)
        for repository in REPOSITORIES[1:]:
            emulator.create_repository(repository)
        github = stack.enter_context(EmulatorServer(emulator))
        database = own_server(is_durable=True)
        stack.callback(database.close)
        yield Parts(
            {SECRETS: str(secrets), DATABASE_URL: f"'{database.url}'"},
            {"HOLDFAST_API_URL": github.url, "HOLDFAST_WRITE_INTERVAL_S": "0"},
        )
