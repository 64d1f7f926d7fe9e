"""Who decides which process drives a run, and what this machine knows of it."""

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from holdfast.assembly.way_to_github import WayToGitHub

if TYPE_CHECKING:
    from holdfast.claims.desk import ClaimDesk
    from holdfast.claims.github_judge import GitHubJudge
    from holdfast.claims.known import KnownClaims
    from holdfast.claims.lease import Judge
    from holdfast.github.calls import Answer, Gateway


class Exclusion(WayToGitHub):
    """Claims, and the judge of them: GitHub, or the shared database where there is one."""

    @cached_property
    def known_claims(self) -> "KnownClaims":
        """Return what this machine knows of claims, without asking anyone."""
        from holdfast.claims.known import KnownClaims

        return KnownClaims(self.spool, lambda: self._server_clock.now())

    @cached_property
    def claims(self) -> "ClaimDesk":
        """Return where claims are taken."""
        from holdfast.claims.desk import ClaimDesk

        return ClaimDesk(self._judge(), self.known_claims)

    def _judge(self) -> "Judge":
        judge = self._github_judge()
        if not self.settings.database_url:
            return judge
        database = self.database  # first, as it says what to do where its driver is not installed
        from holdfast.claims.database_judge import DatabaseJudge
        from holdfast.queue.postgres.claim_table import ClaimTable

        return DatabaseJudge(ClaimTable(database, self._target), self.clock, judge.highest_fence)

    def _github_judge(self) -> "GitHubJudge":
        from holdfast.claims.github_judge import GitHubJudge
        from holdfast.claims.server_time import DatedGateway

        def open_client(look: "Callable[[Answer], None]") -> "Gateway":
            def observe(answer: "Answer") -> None:
                self.rate_limiter.observe(answer)
                look(answer)

            return self._open_client(observe)

        dated = DatedGateway(open_client, self.clock)
        # A claim that is not renewed stops a workflow, so it may use what is kept for critical checkpoints.
        gateway = self._gateway(self._deadline, may_use_reserve=True, client=dated)
        return GitHubJudge(gateway, dated, self.layout, self.settings.branch, self._deadline)
