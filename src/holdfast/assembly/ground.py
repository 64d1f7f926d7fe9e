"""What an assembly stands on: settings, credentials, keys, the queue, the cache, the embedded GitHub."""

import hashlib
import os
import random
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.clock import Clock, SystemClock
from holdfast.disk import make_private_folder
from holdfast.errors import InvalidSettings, Refused, SpoolError
from holdfast.format.paths import Layout
from holdfast.github.tokens import TokenSource
from holdfast.queue import Queue, QueueLimits, SqliteQueue
from holdfast.security.redaction import Redactor
from holdfast.security.sealing import Keyring
from holdfast.security.signatures import Signatures
from holdfast.settings import EMBEDDED_REPOSITORY, Settings
from holdfast.settings.key_files import load_keys, read_local_secret
from holdfast.tracing import traces

if TYPE_CHECKING:
    from holdfast.assembly import Assembly
    from holdfast.cache.local_copy import RepositoryCache
    from holdfast.drain.chunks import DrainPolicy
    from holdfast.emulator import EmulatorServer
    from holdfast.github.calls import Gateway, Meter
    from holdfast.github.client import GitHubApp
    from holdfast.github.patience import Patience
    from holdfast.queue.postgres import Database
    from holdfast.ratelimit.limits import Limits

ACTIONS_REQUESTS_PER_HOUR = 1000


class Ground(ABC):
    """Whatever is there without a word to GitHub, made on first use and closed together."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock | None = None,
        gateway: "Gateway | None" = None,
        stop: threading.Event | None = None,
        meter: "Meter | None" = None,
        give_way: Callable[[], None] = lambda: None,
        breathe: Callable[[], None] = lambda: None,
        read_attempts: int | None = None,
        jitter: Callable[[], float] = random.random,
        patience: "Patience | None" = None,
    ) -> None:
        traces.join_program()
        self.settings = settings
        self.meter = meter
        self.give_way = give_way
        self.breathe = breathe
        self.stop = stop or threading.Event()
        self.clock = clock or SystemClock(self.stop)
        self.layout = Layout(settings.base_path)
        self._given_gateway = gateway
        self._read_attempts = read_attempts
        self._jitter = jitter
        self._patience = patience
        self._open = ExitStack()
        self._pid = os.getpid()

    def close(self) -> None:
        """Close whatever was opened. A forked process closes its queue; all else is its parent's."""
        if os.getpid() == self._pid:
            self._open.close()
            return
        if "spool" in self.__dict__:
            self.spool.close()
        if "database" in self.__dict__:
            self.database.close()

    @property
    @abstractmethod
    def shards(self) -> "Sequence[Assembly]":
        """Return every repository that runs are divided among: one, unless HOLDFAST_SHARDS names several."""

    @abstractmethod
    def home(self, run_id: str, /) -> "Assembly":
        """Return the repository that a run is stored in, or will be. GitHub may be asked for it."""

    @abstractmethod
    def intake(self, run_id: str, /) -> "Assembly":
        """Return the repository whose spool takes a checkpoint of this run in. Nobody is asked."""

    @property
    def policy(self) -> "DrainPolicy":
        """Return how the spool is to be drained."""
        from holdfast.drain.chunks import DrainPolicy

        return DrainPolicy(mode=self.settings.write_mode, max_file_bytes=self.settings.max_checkpoint_bytes)

    @property
    def repository(self) -> str:
        """Return the repository's full name."""
        return self.settings.repo or EMBEDDED_REPOSITORY

    @cached_property
    def folder(self) -> Path:
        """Return the folder of this repository, branch and base path; checkpoints never stray to another."""
        settings = self.settings
        digest = hashlib.sha256(self._target.encode()).hexdigest()[:8]
        name = "embedded" if settings.is_embedded else self.repository.replace("/", "--")
        return settings.data_dir / "targets" / f"{name}-{digest}"

    @property
    def _target(self) -> str:
        settings = self.settings
        return "\n".join((self._api_name, self.repository, settings.branch, settings.base_path))

    @property
    def _api_name(self) -> str:
        return "embedded" if self.settings.is_embedded else self.settings.api_url

    @property
    def limits(self) -> "Limits":
        """Return the limits that hold for this token on this server."""
        from holdfast.ratelimit.limits import Limits

        settings = self.settings
        return Limits(
            write_interval_s=settings.write_interval_s,
            content_per_minute=settings.content_per_minute,
            content_per_hour=settings.content_per_hour,
            low_budget=settings.low_budget,
            requests_per_hour=ACTIONS_REQUESTS_PER_HOUR if self._is_actions_token() else None,
        )

    def _is_actions_token(self) -> bool:
        """Whether the token is an Actions job's: those come as GITHUB_TOKEN and begin with ghs_."""
        if self.settings.app_id or self.settings.sources.get("token") != "GITHUB_TOKEN":
            return False
        return (self.tokens.token() or "").startswith("ghs_")

    @cached_property
    def tokens(self) -> TokenSource:
        """Return where the token comes from."""
        if self.settings.app_id:
            return self._app_tokens(self.settings.app_id)
        token = self.settings.token
        return TokenSource(token.get_secret_value() if token else None, self.settings.token_file)

    def _app_tokens(self, app_id: str) -> TokenSource:
        from holdfast.github.app import AppTokenSource

        account = self.repository.partition("/")[0]
        return AppTokenSource(app_id, account, lambda: self._app.fetch(), self.clock.now)

    @cached_property
    def _app(self) -> "GitHubApp":
        from holdfast.github.app import make_signer, read_private_key
        from holdfast.github.client import GitHubApp

        settings = self.settings
        given = settings.app_private_key.get_secret_value() if settings.app_private_key else None
        private_key = read_private_key(given, settings.app_private_key_file)
        app = GitHubApp(
            self.repository,
            sign=make_signer(settings.app_id or "", private_key, self.clock.now),
            installation_id=settings.app_installation_id,
            api_url=self.embedded.url if settings.is_embedded else settings.api_url,
        )
        self._open.callback(app.close)
        return app

    @cached_property
    def api_tokens(self) -> TokenSource:
        """Return where the token of the sidecar's own HTTP API comes from."""
        token = self.settings.api_token
        return TokenSource(token.get_secret_value() if token else None, self.settings.api_token_file)

    def secrets(self) -> list[str]:
        """Return every token that is in force now: none of them is ever stored or shown."""
        held = (self.tokens.known(), self.api_tokens.token())
        return [*self._lasting_secrets, *(token for token in held if token)]

    @cached_property
    def _lasting_secrets(self) -> tuple[str, ...]:
        """Return those that stay as they are, made once: every save asks for them."""
        keys = (*self.keyring.keys, *self.signatures.keys)
        return (*self.settings.secrets(), *(secret for key in keys for secret in key.secrets))

    @cached_property
    def signatures(self) -> Signatures:
        """Return the keys that sign checkpoints and verify them. Raises InvalidSettings."""
        settings = self.settings
        keys = load_keys("signing", settings.signing_key, settings.signing_key_file)
        return Signatures(keys, settings.allow_unsigned)

    @cached_property
    def keyring(self) -> Keyring:
        """Return the keys that seal and open states. Raises InvalidSettings."""
        settings = self.settings
        keys = load_keys("encryption", settings.encryption_key, settings.encryption_key_file)
        is_writer_only = bool(keys) and not keys[0].is_private
        return Keyring(
            keys,
            read_local_secret(self.folder) if is_writer_only else b"",
            self.least_part_bytes(settings.write_mode) if keys else None,
        )

    def least_part_bytes(self, mode: str) -> int | None:
        """Return the size of the smallest member of a state that is stored once; None if none is."""
        from holdfast.drain.stamper import LEAST_BYTES

        wish = self.settings.incremental
        return LEAST_BYTES[mode] if wish == "on" or (wish == "auto" and mode == "commit") else None

    @cached_property
    def redactor(self) -> Redactor:
        """Return what takes credentials out of checkpoints."""
        mode = self.settings.redact
        is_lax = bool(self.keyring.keys) and mode == "off"
        return Redactor(mode, self.secrets, "known" if is_lax else None)

    @cached_property
    def spool(self) -> Queue:
        """Return the durable queue."""
        settings = self.settings
        limits = QueueLimits(
            max_bytes=settings.max_spool_bytes,
            max_items=settings.max_spool_items,
            min_free_bytes=settings.min_free_bytes,
        )
        if settings.database_url:
            return self._open_shared_queue(limits)
        return self._open_local_queue(limits)

    def _open_local_queue(self, limits: QueueLimits) -> SqliteQueue:
        spool = SqliteQueue.open(self.folder / "spool", limits=limits, clock=self.clock, layout=self.layout)
        self._open.callback(spool.close)
        return spool

    def _open_shared_queue(self, limits: QueueLimits) -> Queue:
        database = self.database  # first, as it says what to do where its driver is not installed
        from holdfast.queue.postgres.opening import open_with_fallback

        spool = open_with_fallback(
            database,
            self._target,
            local=self._open_local_queue(limits),
            folder=self.folder,
            limits=limits,
            clock=self.clock,
            layout=self.layout,
        )
        self._open.callback(spool.close)
        return spool

    @cached_property
    def database(self) -> "Database":
        """Return the PostgreSQL that several machines share. Raises InvalidSettings without its driver."""
        url = self.settings.database_url
        database = load_database(url.get_secret_value() if url else "", is_embedded=self.settings.is_embedded)
        self._open.callback(database.close)
        return database

    @cached_property
    def cache(self) -> "RepositoryCache":
        """Return the local copy of what was seen of the repository."""
        from holdfast.cache.local_copy import RepositoryCache

        shutil.rmtree(self.folder / "mirror", ignore_errors=True)  # a copy in an earlier format
        cache = RepositoryCache(
            self.folder / "cache",
            min_free_bytes=self.settings.min_free_bytes,
            is_sealed_only=self._drop_old_copies(),
        )
        self._open.callback(cache.close)
        return cache

    def _drop_old_copies(self) -> bool:
        """Delete what was kept before the key that seals was in force; return whether there is such a key.

        It counts here for those without it as well: they must not keep what is in the clear.
        """
        note = self.folder / "cache-key"
        known = note.read_text() if note.exists() else ""
        newest = self.keyring.keys[0].kid if self.keyring.keys else known
        if newest != known:
            shutil.rmtree(self.folder / "cache", ignore_errors=True)
            make_private_folder(self.folder)
            note.write_text(newest)
        return bool(newest)

    @property
    def _embedded_root(self) -> Path:
        return self.settings.data_dir / "github"

    @cached_property
    def embedded(self) -> "EmulatorServer":
        """Return the embedded GitHub, started."""
        from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer, RepositoryUnusable

        root = self._embedded_root
        options = EmulatorOptions(root=root, repo=EMBEDDED_REPOSITORY, is_hour_fixed=True)
        try:
            make_private_folder(root)
            emulator = Emulator(options)
        except (RepositoryUnusable, SpoolError, OSError) as error:
            raise Refused(
                "",
                f"the embedded GitHub cannot be opened: {error}",
                kind="invalid",
                advice=f"Make {root} a folder that you may write to, or set HOLDFAST_DATA_DIR.",
            ) from error
        self._open.callback(emulator.close)
        return self._open.enter_context(EmulatorServer(emulator))


def load_database(url: str, *, is_embedded: bool) -> "Database":
    """Return the database at `url`; nothing is connected yet. Raises InvalidSettings with what to do."""
    if is_embedded:
        raise InvalidSettings(
            ["HOLDFAST_DATABASE_URL: set HOLDFAST_REPO, too: each machine has an embedded GitHub of its own"]
        )
    try:
        from holdfast.queue.postgres import Database
    except ImportError:
        from holdfast.extras import how_to_install

        advice = f"run {how_to_install('postgres')}"
        raise InvalidSettings([f"HOLDFAST_DATABASE_URL: its driver is not installed: {advice}"]) from None
    return Database(url)
