"""The way to GitHub: the client, and the wrappers around it in their order."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.assembly.ground import Ground
from holdfast.clock import SHORT_PAUSE_S, Clock, Deadline
from holdfast.settings import EMBEDDED_REPOSITORY, OWN_BRANCH

if TYPE_CHECKING:
    from holdfast.github.calls import Answer, Gateway
    from holdfast.github.client import GitHubClient
    from holdfast.github.light_client import LightClient
    from holdfast.github.patience import Patience
    from holdfast.github.presence import GraphqlPresence
    from holdfast.ratelimit.limiter import RateLimiter
    from holdfast.repository.runs import Runs

REQUEST_TIMEOUT_S = 30.0
INSPECTION_TIMEOUT_S = 3.0
# A sweep is in no hurry: it waits until the next minute's limits hold.
LONGEST_WAIT_OF_A_SWEEP_S = 65.0


def _client_class(*, is_light: bool) -> "type[GitHubClient | LightClient]":
    if is_light:
        from holdfast.github.light_client import LightClient

        return LightClient
    from holdfast.github.client import GitHubClient

    return GitHubClient


class WayToGitHub(Ground):
    """Ways to GitHub, for those who drain, read, clean up or look after."""

    @cached_property
    def rate_limiter(self) -> "RateLimiter":
        """Return what is known of GitHub's limits; all that use the same token share it.

        All on this machine, that is, or all that use the same database.
        """
        rate_limiter = self._open_rate_limiter(self._budget_path)
        self._open.callback(rate_limiter.close)
        return rate_limiter

    @property
    def _budget_path(self) -> Path:
        """Return where the budget of our token is kept; its name is that of the budget in a database, too."""
        from holdfast.ratelimit.shared_file import rate_limiter_path

        identity = self._api_name, self.tokens.fingerprint()
        return rate_limiter_path(self.settings.data_dir / "budgets", *identity)

    def _open_rate_limiter(self, path: Path) -> "RateLimiter":
        if self.settings.database_url:
            database = self.database  # first, as it says what to do where its driver is not installed
            from holdfast.queue.postgres.budget_table import TableRateLimiter

            return TableRateLimiter(database, path.stem, self.limits, self.clock)
        from holdfast.ratelimit.shared_file import FileRateLimiter

        return FileRateLimiter(path, self.limits, self.clock)

    def peek(self, run_id: str) -> "tuple[str, dict[str, str]] | None":
        """Return the newest commit of the embedded GitHub, and the files of a run in it: name to blob SHA.

        None if that does not show without starting it. The commit is "" as long as nothing was ever stored.
        """
        if not self.settings.is_embedded or self._given_gateway:
            return None
        if not self._embedded_root.exists():
            return "", {}
        from holdfast.emulator.peek import peek_folder, peek_head

        place = (self._embedded_root, EMBEDDED_REPOSITORY)
        head = peek_head(*place, self.settings.branch)
        files = peek_folder(*place, head, self.layout.run_folder(run_id)) if head else None
        return (head, files) if head and files is not None else None

    @cached_property
    def client(self) -> "Gateway":
        """Return what talks to GitHub."""
        return self._open_client(self.rate_limiter.observe)

    @cached_property
    def reading_client(self) -> "Gateway":
        """Return what readers talk to GitHub with: what is loaded already, else what is loaded soonest."""
        if "client" in self.__dict__ or not self._is_light_enough():
            return self.client
        return self._open_client(self.rate_limiter.observe, is_light=True)

    def _is_light_enough(self) -> bool:
        if self._given_gateway or self.settings.app_id:  # an App's tokens are fetched with githubkit
            return False
        from holdfast.github.light_client import can_reach

        return can_reach(self._api_url)

    @property
    def _api_url(self) -> str:
        return self.embedded.url if self.settings.is_embedded else self.settings.api_url

    def _open_client(
        self,
        observe: "Callable[[Answer], None]",
        timeout_s: float = REQUEST_TIMEOUT_S,
        *,
        closing: ExitStack | None = None,
        is_light: bool = False,
    ) -> "Gateway":
        """Return a client that is closed with `closing`, or with everything else."""
        if self._given_gateway:
            # One that stands for GitHub may have answers with headers, too.
            observed_by = getattr(self._given_gateway, "observed_by", None)
            return observed_by(observe) if observed_by else self._given_gateway
        client = _client_class(is_light=is_light)(
            self.repository,
            token=self.tokens.token,
            api_url=self._api_url,
            clock=self.clock,
            observe=observe,
            meter=self.meter,
            timeout_s=timeout_s,
        )
        (closing or self._open).callback(client.close)
        return client

    @contextmanager
    def open_inspection(self, observe: "Callable[[Answer], None]") -> "Iterator[Gateway]":
        """Give a way to GitHub that waits for nothing, for a while. `observe` sees each answer."""
        from holdfast.github.wrappers.budgeted import BudgetedGateway

        def look(answer: "Answer") -> None:
            self.rate_limiter.observe(answer)
            observe(answer)

        with ExitStack() as closing:
            client = self._open_client(look, INSPECTION_TIMEOUT_S, closing=closing)
            yield BudgetedGateway(client, self.rate_limiter, self.clock.sleep, longest_wait_s=0)

    def _gateway(
        self,
        deadline: Deadline,
        *,
        may_use_reserve: bool = False,
        longest_wait_s: float = SHORT_PAUSE_S,
        attempts: int | None = None,
        give_way: Callable[[], None] = lambda: None,
        client: "Gateway | None" = None,
        patience: "Callable[[], Patience] | None" = None,
    ) -> "Gateway":
        """Return the way to GitHub. From the outside in:

        1. `CachingGateway`, for who writes: keeps a local copy of what GitHub has taken.
        2. `LowPriorityGateway`, for clean-ups: leaves the last of the budget to checkpoints.
        3. `RetryingGateway`: repeats reads that have no answer, as long as there is patience.
        4. `DeadlineGateway`: ends that, and waits, at the deadline, and everything after the grace of a stop.
        5. `BudgetedGateway`: each attempt waits for its turn, and spends budget.
        6. `SkipCiGateway`, on a branch that may hold code: our commits start no workflows.

        Then the client. The first two are put around by who needs them; for readers all of it is made on
        first use (`DeferredGateway`).
        """
        from holdfast.github.wrappers.budgeted import BudgetedGateway
        from holdfast.github.wrappers.deadline import DeadlineGateway
        from holdfast.github.wrappers.retrying import READ_ATTEMPTS, RetryingGateway

        gateway = client or self.client
        if self.settings.branch != OWN_BRANCH:
            from holdfast.github.wrappers.skip_ci import SkipCiGateway

            gateway = SkipCiGateway(gateway)
        gateway = BudgetedGateway(
            gateway,
            self.rate_limiter,
            deadline.wait_for_room,
            may_use_reserve=may_use_reserve,
            longest_wait_s=longest_wait_s,
            give_way=give_way,
        )
        gateway = DeadlineGateway(gateway, deadline)
        pause = self._pause_before_repeating(deadline)
        attempts = attempts or self._read_attempts or READ_ATTEMPTS
        return RetryingGateway(
            gateway,
            sleep=pause,
            attempts=attempts,
            random_share=self._jitter,
            patience=patience or self._shared_patience,
        )

    def _shared_patience(self) -> "Patience":
        """Return the patience of the command that this was opened for; else each question has its own."""
        return self._patience or self._fresh_patience()

    def _fresh_patience(self) -> "Patience":
        from holdfast.github.patience import Patience

        return Patience(self.clock)

    def _caching(self, gateway: "Gateway") -> "Gateway":
        from holdfast.cache.gateway import CachingGateway

        return CachingGateway(gateway, self.cache, self.layout)

    def _low_priority(self, deadline: Deadline) -> "Gateway":
        """Return a way to GitHub that waits for a minute's limits, and leaves the hour's last calls alone."""
        from holdfast.github.wrappers.low_priority import LowPriorityGateway

        gateway = self._gateway(deadline, longest_wait_s=LONGEST_WAIT_OF_A_SWEEP_S)
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

    @cached_property
    def _graphql(self) -> "GraphqlPresence":
        from holdfast.github.presence import GraphqlPresence

        return GraphqlPresence(self.clock)

    def _runs(self, gateway: "Gateway") -> "Runs":
        from holdfast.repository.runs import Runs

        return Runs(gateway, self.cache, self.layout, self.settings.branch)

    @cached_property
    def _server_clock(self) -> Clock:
        """Return the clock by which anything is old."""
        from holdfast.ratelimit.limiter import ServerClock

        return ServerClock(self.clock, self.rate_limiter)
