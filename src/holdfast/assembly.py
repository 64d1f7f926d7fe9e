"""Builds the object graph from the settings. Nothing is opened before it is needed."""

import hashlib
import os
import random
import shutil
import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.clock import SHORT_PAUSE_S, Clock, Deadline, SystemClock
from holdfast.disk import make_private_folder
from holdfast.drain.chunks import DrainPolicy
from holdfast.errors import Refused, SpoolError
from holdfast.format.part_files import MAX_FILE_BYTES
from holdfast.format.paths import Layout
from holdfast.github.tokens import TokenSource
from holdfast.key_files import load_keys, read_local_secret
from holdfast.queue import Queue, QueueLimits, SqliteQueue
from holdfast.ratelimit.limits import Limits
from holdfast.retention.rules import RetentionRules
from holdfast.security.redaction import Redactor
from holdfast.security.sealing import Keyring
from holdfast.security.signatures import Signatures
from holdfast.security.trust import Trust
from holdfast.settings import EMBEDDED_REPOSITORY, OWN_BRANCH, Settings

if TYPE_CHECKING:
    from holdfast.cache.local_copy import RepositoryCache
    from holdfast.decisions.deletion import Deletion
    from holdfast.drain.stamper import Stamper
    from holdfast.drain.worker import Worker
    from holdfast.emulator import EmulatorServer
    from holdfast.github.calls import Answer, Gateway, Meter
    from holdfast.github.client import GitHubApp
    from holdfast.github.presence import GraphqlPresence
    from holdfast.queue.postgres import Database
    from holdfast.ratelimit.limiter import RateLimiter
    from holdfast.repository.reader import Reader
    from holdfast.repository.runs import Runs
    from holdfast.retention import Squash, Sweeper
    from holdfast.retention.preserved import PreservedRuns
    from holdfast.retention.rotation import Rotator
    from holdfast.retention.schedule import Schedule

ACTIONS_REQUESTS_PER_HOUR = 1000
REQUEST_TIMEOUT_S = 30.0
INSPECTION_TIMEOUT_S = 2.0
# A sweep is in no hurry: it waits until the next minute's limits hold.
PATIENCE_OF_A_SWEEP_S = 65.0


class Assembly:
    """Everything that works on one repository, made on first use and closed together.

    Saving needs the spool alone; githubkit and the embedded GitHub are loaded only by what talks to GitHub.
    `clock` and `gateway` take the place of the machine's clock and of the client; all else stays as it is.
    """

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
    ) -> None:
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
        self._open = ExitStack()
        self._pid = os.getpid()

    def close(self) -> None:
        """Close whatever was opened. A forked process closes its queue; all else is its parent's."""
        if os.getpid() == self._pid:
            self._open.close()
        elif "spool" in self.__dict__:
            self.spool.close()

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
    def policy(self) -> DrainPolicy:
        """Return how the spool is to be drained."""
        return DrainPolicy(mode=self.settings.write_mode, max_file_bytes=self.settings.max_checkpoint_bytes)

    @cached_property
    def tokens(self) -> TokenSource:
        """Return where the token comes from."""
        if self.settings.app_id:
            return self._app_tokens(self.settings.app_id)
        token = self.settings.token
        return TokenSource(token.get_secret_value() if token else None, self.settings.token_file)

    def _app_tokens(self, app_id: str) -> TokenSource:
        from holdfast.github.app_tokens import AppTokenSource

        account = self.repository.partition("/")[0]
        return AppTokenSource(app_id, account, lambda: self._app.fetch(), self.clock.now)

    @cached_property
    def _app(self) -> "GitHubApp":
        from holdfast.github.app_refusals import read_private_key
        from holdfast.github.app_signature import make_signer
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
        keys = (*self.keyring.keys, *self.signatures.keys)
        of_keys = (secret for key in keys for secret in key.secrets)
        return [*self.settings.secrets(), *(token for token in held if token), *of_keys]

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
        return Keyring(keys, read_local_secret(self.folder) if is_writer_only else b"")

    @cached_property
    def redactor(self) -> Redactor:
        """Return what takes credentials out of checkpoints."""
        return Redactor(self.settings.redact, self.secrets)

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
        from holdfast.queue.postgres.opening import open_with_fallback

        spool = open_with_fallback(
            self.database,
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
        from holdfast.queue.opening import load_database

        url = self.settings.database_url
        database = load_database(url.get_secret_value() if url else "", is_embedded=self.settings.is_embedded)
        self._open.callback(database.close)
        return database

    @cached_property
    def rate_limiter(self) -> "RateLimiter":
        """Return what is known of GitHub's limits; all that use the same token share it.

        All on this machine, that is, or all that use the same database.
        """
        from holdfast.ratelimit.shared_file import FileRateLimiter, rate_limiter_path

        identity = self._api_name, self.tokens.fingerprint()
        path = rate_limiter_path(self.settings.data_dir / "budgets", *identity)
        rate_limiter: RateLimiter
        if self.settings.database_url:
            from holdfast.queue.postgres.budget_table import TableRateLimiter

            rate_limiter = TableRateLimiter(self.database, path.stem, self.limits, self.clock)
        else:
            rate_limiter = FileRateLimiter(path, self.limits, self.clock)
        self._open.callback(rate_limiter.close)
        return rate_limiter

    @cached_property
    def cache(self) -> "RepositoryCache":
        """Return the local copy of what was seen of the repository."""
        from holdfast.cache.local_copy import RepositoryCache

        shutil.rmtree(self.folder / "mirror", ignore_errors=True)  # a copy in an earlier format
        cache = RepositoryCache(self.folder / "cache", min_free_bytes=self.settings.min_free_bytes)
        self._open.callback(cache.close)
        return cache

    @cached_property
    def embedded(self) -> "EmulatorServer":
        """Return the embedded GitHub, started."""
        from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer, RepositoryUnusable

        root = self.settings.data_dir / "github"
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

    @cached_property
    def client(self) -> "Gateway":
        """Return what talks to GitHub."""
        return self._open_client(self.rate_limiter.observe)

    def _open_client(
        self, observe: "Callable[[Answer], None]", timeout_s: float = REQUEST_TIMEOUT_S
    ) -> "Gateway":
        if self._given_gateway:
            return self._given_gateway
        from holdfast.github.client import GitHubClient

        api_url = self.embedded.url if self.settings.is_embedded else self.settings.api_url
        client = GitHubClient(
            self.repository,
            token=self.tokens.token,
            api_url=api_url,
            clock=self.clock,
            observe=observe,
            meter=self.meter,
            timeout_s=timeout_s,
        )
        self._open.callback(client.close)
        return client

    def open_inspection(self, observe: "Callable[[Answer], None]") -> "Gateway":
        """Return a way to GitHub that is as impatient as a person. `observe` sees each answer."""
        from holdfast.github.wrappers.budgeted import BudgetedGateway

        def look(answer: "Answer") -> None:
            self.rate_limiter.observe(answer)
            observe(answer)

        client = self._open_client(look, timeout_s=INSPECTION_TIMEOUT_S)
        return BudgetedGateway(client, self.rate_limiter, self.clock.sleep, patience_s=0)

    def _gateway(
        self,
        deadline: Deadline,
        *,
        may_use_reserve: bool = False,
        patience_s: float = SHORT_PAUSE_S,
        attempts: int | None = None,
        give_way: Callable[[], None] = lambda: None,
    ) -> "Gateway":
        """Return the way to GitHub. From the outside in:

        1. `CachingGateway`, for who writes: keeps a local copy of what GitHub has taken.
        2. `LowPriorityGateway`, for clean-ups: leaves the last of the budget to checkpoints.
        3. `RetryingGateway`: repeats reads that have no answer.
        4. `DeadlineGateway`: ends that at the deadline, and everything after the grace of a stop.
        5. `BudgetedGateway`: each attempt waits for its turn, and spends budget.
        6. `SkipCiGateway`, on a branch that may hold code: our commits start no workflows.

        Then the client. The first two are put around by who needs them; for readers all of it is made on
        first use (`DeferredGateway`).
        """
        from holdfast.github.wrappers.budgeted import BudgetedGateway
        from holdfast.github.wrappers.deadline import DeadlineGateway
        from holdfast.github.wrappers.retrying import READ_ATTEMPTS, RetryingGateway
        from holdfast.github.wrappers.skip_ci import SkipCiGateway

        gateway = self.client
        if self.settings.branch != OWN_BRANCH:
            gateway = SkipCiGateway(gateway)
        gateway = BudgetedGateway(
            gateway,
            self.rate_limiter,
            deadline.wait_for_room,
            may_use_reserve=may_use_reserve,
            patience_s=patience_s,
            give_way=give_way,
        )
        gateway = DeadlineGateway(gateway, deadline)
        pause = self._pause_before_repeating(deadline)
        attempts = attempts or self._read_attempts or READ_ATTEMPTS
        return RetryingGateway(gateway, sleep=pause, attempts=attempts, random_share=self._jitter)

    def _caching(self, gateway: "Gateway") -> "Gateway":
        from holdfast.cache.gateway import CachingGateway

        return CachingGateway(gateway, self.cache, self.layout)

    def _low_priority(self, deadline: Deadline) -> "Gateway":
        """Return a way to GitHub that waits for a minute's limits, and leaves the hour's last calls alone."""
        from holdfast.github.wrappers.low_priority import LowPriorityGateway

        gateway = self._gateway(deadline, patience_s=PATIENCE_OF_A_SWEEP_S)
        return LowPriorityGateway(gateway, self.rate_limiter, self.clock)

    def _pause_before_repeating(self, deadline: Deadline) -> Callable[[float], None]:
        def pause(seconds: float) -> None:
            if self.meter:
                self.meter.call_repeated()
            deadline.wait(seconds)

        return pause

    @cached_property
    def _deadline(self) -> Deadline:
        """Return when everything but the worker's drain ends: when we are asked to stop."""
        return Deadline(self.clock, self.stop, random_share=self._jitter)

    @cached_property
    def _drain_deadline(self) -> Deadline:
        """Return when the worker's drain ends, which may be given a time."""
        return Deadline(self.clock, self.stop, random_share=self._jitter)

    def _runs(self, gateway: "Gateway") -> "Runs":
        from holdfast.repository.runs import Runs

        return Runs(gateway, self.cache, self.layout, self.settings.branch)

    @cached_property
    def worker(self) -> "Worker":
        """Return what drains the spool."""
        from holdfast.drain.commits import CommitWriter
        from holdfast.drain.contents import ContentsWriter
        from holdfast.drain.worker import Worker
        from holdfast.github.wrappers.budgeted import BudgetedGateway
        from holdfast.repository.branch import check_repository

        deadline, give_way = self._drain_deadline, self.give_way
        # The planner keeps the reserve for critical checkpoints, so the way must let them use it.
        gateway = self._caching(self._gateway(deadline, may_use_reserve=True, give_way=give_way))
        probed = BudgetedGateway(self.client, self.rate_limiter, self.clock.sleep)
        parts = (gateway, self.spool, self._runs(gateway), self.layout, self.settings.branch, deadline)
        return Worker(
            spool=self.spool,
            contents=ContentsWriter(*parts, self._stamper("contents"), self.breathe),
            commits=CommitWriter(*parts, self._stamper("commit"), self.breathe),
            rate_limiter=self.rate_limiter,
            policy=self.policy,
            layout=self.layout,
            deadline=deadline,
            credentials=self.tokens.fingerprint,
            probe=lambda: check_repository(probed),
            jitter=self._jitter,
            after_drain=self._prune,
            clean_up=self._clean_up,
        )

    def _stamper(self, mode: str) -> "Stamper":
        """Return what decides which members of a state become parts, for writing in this mode."""
        from holdfast.drain.stamper import LEAST_BYTES, PartPolicy, Stamper

        settings = self.settings
        is_incremental = settings.incremental == "on" or (settings.incremental == "auto" and mode == "commit")
        least_bytes = LEAST_BYTES[mode] if is_incremental else None
        policy = PartPolicy(settings.max_checkpoint_bytes, least_bytes, settings.compress)
        return Stamper(self.layout, self.cache, policy, self.signatures.sign)

    @cached_property
    def reader(self) -> "Reader":
        """Return what reads the repository and the spool as one."""
        from holdfast.github.wrappers.deferred import DeferredGateway
        from holdfast.repository.reader import Reader

        # What is spooled is read without githubkit, which takes longer to load than the rest together.
        gateway = DeferredGateway(lambda: self._gateway(self._deadline))
        hasty = DeferredGateway(lambda: self._gateway(self._deadline, attempts=1))
        # Some room above what our own writers put into one file; more is not parsed, whoever wrote it.
        largest = 2 * max(self.settings.max_checkpoint_bytes, MAX_FILE_BYTES)
        return Reader(
            gateway,
            self.spool,
            self.cache,
            self.layout,
            self.settings.branch,
            largest,
            hasty,
            self._graphql,
            self.clock.now,
            self.settings.warn_age,
            Trust(self.keyring, self.signatures),
        )

    @property
    def rules(self) -> RetentionRules:
        """Return how much is kept."""
        settings = self.settings
        return RetentionRules(
            full_runs=settings.keep_full_runs,
            latest_runs=settings.keep_latest_runs,
            checkpoints=settings.keep_checkpoints,
            per_phase=settings.keep_per_phase,
            days=settings.keep_days,
            deletes_completed=settings.delete_completed,
            abandoned_days=settings.abandoned_after_days,
        )

    @cached_property
    def sweeper(self) -> "Sweeper":
        """Return what cleans up the repository."""
        return self._make_sweeper(self._deadline)

    @cached_property
    def _graphql(self) -> "GraphqlPresence":
        from holdfast.github.presence import GraphqlPresence

        return GraphqlPresence(self.clock)

    def _make_sweeper(self, deadline: Deadline) -> "Sweeper":
        from holdfast.retention import Sweeper
        from holdfast.retention.commit import Committer
        from holdfast.retention.scan import Scanner

        gateway = self._low_priority(deadline)
        branch = self.settings.branch
        return Sweeper(
            scanner=Scanner(gateway, self.cache, self.layout, branch, self._graphql),
            committer=Committer(self._caching(gateway), branch, self._graphql),
            spool=self.spool,
            cache=self.cache,
            layout=self.layout,
            rules=self.rules,
            clock=self._server_clock,
            deadline=deadline,
            lock_folder=self.folder,
        )

    @cached_property
    def rotator(self) -> "Rotator":
        """Return what seals stored checkpoints with the newest key."""
        from holdfast.retention.commit import Committer
        from holdfast.retention.rotation import Rotator

        gateway = self._low_priority(self._deadline)
        return Rotator(
            gateway=gateway,
            runs=self._runs(gateway),
            committer=Committer(self._caching(gateway), self.settings.branch, self._graphql),
            layout=self.layout,
            branch=self.settings.branch,
            trust=Trust(self.keyring, self.signatures),
            limit_bytes=self.settings.max_checkpoint_bytes,
            deadline=self._deadline,
        )

    @property
    def deletion(self) -> "Deletion":
        """Return what deletes single runs."""
        from holdfast.decisions.deletion import Deletion
        from holdfast.retention.commit import Committer
        from holdfast.retention.scan import Scanner

        gateway, branch = self._gateway(self._deadline), self.settings.branch
        return Deletion(
            scanner=Scanner(gateway, self.cache, self.layout, branch, self._graphql),
            committer=Committer(self._caching(gateway), branch, self._graphql),
            spool=self.spool,
            cache=self.cache,
            layout=self.layout,
            deadline=self._deadline,
            orphans=lambda: self.worker.contents.orphans,
        )

    @property
    def schedule(self) -> "Schedule | None":
        """Return what cleans up from time to time while a service runs, if the settings ask for it."""
        from holdfast.retention.schedule import Schedule

        every_s = self.settings.cleanup_every
        if every_s is None:
            return None
        return Schedule(self.sweeper, self.spool, self._deadline, every_s)

    def _clean_up(self) -> None:
        from holdfast.retention.sweep import try_sweep

        try_sweep(self._make_sweeper(self._drain_deadline))

    def _prune(self, run_ids: Collection[str]) -> None:
        from holdfast.retention.prune import Pruner

        def open_sweeper() -> "Sweeper":
            return self._make_sweeper(self._drain_deadline)

        Pruner(open_sweeper, self.cache, self.layout, self.rules).prune(run_ids)

    @property
    def squash(self) -> "Squash":
        """Return what rewrites the branch's history, anew each time."""
        from holdfast.retention import Squash

        gateway = self._low_priority(self._deadline)
        return Squash(gateway, self.settings.branch, self._server_clock, self._deadline)

    @cached_property
    def _server_clock(self) -> Clock:
        """Return the clock by which anything is old."""
        from holdfast.ratelimit.limiter import ServerClock

        return ServerClock(self.clock, self.rate_limiter)

    @cached_property
    def preserved(self) -> "PreservedRuns":
        """Return the list of runs that are never cleaned up."""
        from holdfast.retention.preserved import PreservedRuns

        gateway = self._gateway(self._deadline)
        return PreservedRuns(gateway, self.layout, self.settings.branch, self._deadline)

    @property
    def _api_name(self) -> str:
        return "embedded" if self.settings.is_embedded else self.settings.api_url

    @property
    def limits(self) -> Limits:
        """Return the limits that hold for this token on this server."""
        settings = self.settings
        return Limits(
            write_interval_s=settings.write_interval_s,
            content_per_minute=settings.content_per_minute,
            content_per_hour=settings.content_per_hour,
            low_budget=settings.low_budget,
            requests_per_hour=ACTIONS_REQUESTS_PER_HOUR if self._is_actions_token() else None,
        )

    def _is_actions_token(self) -> bool:
        """Return whether the token is an Actions job's: those come as GITHUB_TOKEN and begin with ghs_."""
        if self.settings.app_id or self.settings.sources.get("token") != "GITHUB_TOKEN":
            return False
        return (self.tokens.token() or "").startswith("ghs_")
