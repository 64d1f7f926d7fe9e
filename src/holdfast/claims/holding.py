"""A claim in the hands of a program: renewed in the background, released at the end."""

import os
import threading
from collections.abc import Callable
from typing import Self

from holdfast.claims.decide import RENEWALS_IN_TTL
from holdfast.claims.desk import ClaimDesk, TakenClaim
from holdfast.errors import Fenced, HoldfastError
from holdfast.logs import log

# After a renewal that failed it is tried again this often until the next one is due.
_TRIES_BETWEEN = 5.0

Pause = Callable[[threading.Event, float], bool]
"""Waits for the event, that long at most, and returns whether it is set."""


class HeldClaim:
    """The right to drive a run, until it is released or lost. Use it with `with`, or release it.

    While it is held, what this program saves for the run carries its fence. `check` and every save raise
    Fenced once it is lost: because someone else has taken the run, or because it could not be renewed in
    time, so that someone else may have.
    """

    def __init__(
        self,
        desk: ClaimDesk,
        taken: TakenClaim,
        *,
        on_end: Callable[["HeldClaim"], None] = lambda _: None,
        pause: Pause = threading.Event.wait,
    ) -> None:
        self.token = taken.token
        self._desk = desk
        self._lease = taken.lease
        self._on_end = on_end
        self._pause = pause
        self._process = os.getpid()
        self._ended = threading.Event()
        self._lost: Fenced | None = None
        self._thread = threading.Thread(target=self._keep_renewing, name="holdfast-claim", daemon=True)

    @property
    def run_id(self) -> str:
        """Return the run."""
        return self._lease.claim.run_id

    @property
    def owner(self) -> str:
        """Return who holds it, as it was named when it was taken."""
        return self._lease.claim.owner

    @property
    def fence(self) -> int:
        """Return the number that tells this claim from all before it."""
        return self._lease.claim.fence

    @property
    def expires_at(self) -> float:
        """Return when it ends unless it is renewed, by the judge's time, in seconds since the epoch."""
        return self._lease.claim.expires_at

    @property
    def is_held(self) -> bool:
        """Whether nobody else can be driving the run."""
        return self._lost is None and not self._ended.is_set() and self._lease.is_alive

    def check(self) -> None:
        """Raise Fenced unless the run is still ours."""
        if self._lost is not None:
            raise self._lost
        if self._ended.is_set():
            raise Fenced(self.run_id, "its claim was released", fence=self.fence, current=self.fence)
        if not self._lease.is_alive:
            reason = "its claim could not be renewed in time, so that someone else may have taken it"
            raise Fenced(self.run_id, reason, fence=self.fence)

    def start(self) -> Self:
        """Begin to renew it in the background."""
        self._thread.start()
        return self

    def renew(self) -> None:
        """Renew it now. Raises Fenced if it is lost, GatewayError if the judge does not answer."""
        try:
            self._lease = self._desk.renew(self.run_id, self.token, known=self._lease)
        except Fenced as error:
            self._lost = error
            raise

    def release(self) -> None:
        """Let go of the run, once. If that cannot be told to the judge, the claim ends by itself.

        In a forked process nothing happens: the claim is its parent's.
        """
        if self._ended.is_set() or os.getpid() != self._process:
            return
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._on_end(self)
        if self._lost is not None:
            return
        try:
            self._desk.release(self.run_id, self.token, self._lease)
        except HoldfastError as error:
            log.warning("claim_not_released", run_id=self.run_id, cause=str(error))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _keep_renewing(self) -> None:
        every_s = self._lease.claim.ttl_s / RENEWALS_IN_TTL
        wait_s = every_s
        while not self._pause(self._ended, wait_s):
            try:
                self.renew()
                wait_s = every_s
            except Fenced as error:
                log.error("claim_lost", run_id=self.run_id, cause=str(error))
                return
            except HoldfastError as error:
                wait_s = every_s / _TRIES_BETWEEN
                log.warning("claim_not_renewed", run_id=self.run_id, cause=str(error))
