"""The emulator without a network: requests in, answers out."""

import hashlib
import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from email.utils import formatdate
from typing import Any

from holdfast.emulator import control
from holdfast.emulator.apps import Caller
from holdfast.emulator.distortion import distort, early_answer
from holdfast.emulator.exchange import Answer, Refusal, Request, not_found
from holdfast.emulator.faults import (
    Call,
    Effect,
    Faults,
    HeadMoves,
    LateWrite,
    Stale,
    is_write,
    read_document,
)
from holdfast.emulator.gate import check_request, find_caller
from holdfast.emulator.journal import Journal, JournalEntry
from holdfast.emulator.limits import Cost, Limits
from holdfast.emulator.options import EmulatorOptions, Switches
from holdfast.emulator.routes import Route, find_route
from holdfast.emulator.shelf import ServedRepository, Shelf, Sight, lookup
from holdfast.emulator.visit import StaleView, Visit

_REPOSITORY_PATH = re.compile(r"/repos/(?P<full_name>[^/]+/[^/]+)(?P<rest>/.*)?", re.DOTALL)
_NUMBERED_PATH = re.compile(r"/repositories/(?P<number>\d{1,10})(?P<rest>/.*)?", re.DOTALL)
_CONTENT_MUTATION = re.compile(r"\b(?:createCommitOnBranch|updateRefs)\b")


class Emulator:
    """GitHub over bare repositories. `handle` may be called from many threads."""

    def __init__(self, options: EmulatorOptions) -> None:
        self._options = options
        self._switches = Switches()
        self._shelf = Shelf(options.root)
        self._shelf.create(options.repo)
        self._late: list[tuple[float, Request]] = []
        self._lock = threading.Lock()
        self._requests = 0
        self.limits = Limits()
        self.faults = Faults()
        self.journal = Journal()

    @property
    def options(self) -> EmulatorOptions:
        """The options in force."""
        return self._options

    @property
    def switches(self) -> Switches:
        """The troubles in force."""
        return self._switches

    def change_options(self, **changes: Any) -> None:
        """Replace some options from the next request on."""
        self._options = replace(self._options, **changes)

    def switch(self, **changes: Any) -> None:
        """Turn troubles on or off from the next request on."""
        self._switches = replace(self._switches, **changes)

    def create_repository(self, full_name: str) -> None:
        """Make another empty repository, unless it exists."""
        self._shelf.create(full_name)

    def close(self) -> None:
        """Close the repositories; the emulator answers no more."""
        self._shelf.close()

    def handle(self, request: Request) -> Answer:
        """Answer one request, as faults allow."""
        if request.path.startswith(control.PREFIX):
            return control.handle(self, request)
        request = self._in_usual_form(request)
        self._land_late_writes()
        effects = self.faults.effects_for(request)
        for effect in effects:
            if isinstance(effect, LateWrite):
                self._put_off(request, effect.seconds)
            elif isinstance(effect, Call) and effect.before:
                effect.before(request)
        return self._exchange(request, effects)

    def _exchange(self, request: Request, effects: Sequence[Effect]) -> Answer:
        options, now = self._options, self._options.now()
        request_id = self._next_request_id()
        found = find_route(request.method, request.decoded_path)
        cost = _cost_of(request, found[0] if found else None)
        caller = find_caller(request, options)
        answer = early_answer(effects) or self._admit(request, cost, request_id, caller)
        if answer is None:
            answer = self._serve(request, effects, found, cost, caller)
        for effect in effects:
            if isinstance(effect, Call) and effect.after:
                effect.after(request)
        answer = answer.with_headers(
            {
                **self.limits.headers(options, now, cost.resource, caller),
                "x-github-request-id": request_id,
                "x-github-media-type": "github.v3; format=json",
                "date": formatdate(now, usegmt=True),
                "server": "holdfast-emulator",
            }
        )
        if options.token_expires and answer.status != 401:
            answer = answer.with_headers({"github-authentication-token-expiration": options.token_expires})
        answer = distort(answer, effects)
        self._note(request, answer, cost, now, caller)
        return answer

    def _admit(self, request: Request, cost: Cost, request_id: str, caller: Caller) -> Answer | None:
        """Return the answer to a request that gets no further than the door; None for others."""
        try:
            check_request(request, self._options, self._switches)
        except Refusal as refusal:
            return refusal.answer()
        return self.limits.admit(self._options, self._options.now(), cost, request_id, caller)

    def _serve(
        self,
        request: Request,
        effects: Sequence[Effect],
        found: tuple[Route, dict[str, str]] | None,
        cost: Cost,
        caller: Caller,
    ) -> Answer:
        options, now = self._options, self._options.now()
        sight = Sight(self._shelf, caller.account)
        try:
            served = self._find_repository(request, sight)
            if found is None:
                raise not_found()
            route, params = found
            visit = Visit(
                request=request,
                options=options,
                switches=self._switches,
                shelf=sight,
                now=now,
                rate_overview=lambda: self.limits.overview(options, now, caller),
                params=params,
                served=served,
                stale=_stale_view(effects),
                head_moves=any(isinstance(effect, HeadMoves) for effect in effects),
            )
            answer = route.handler(visit)
        except Refusal as refusal:
            return refusal.answer()
        return self._conditional(request, answer, cost, caller)

    def _find_repository(self, request: Request, sight: Sight) -> ServedRepository | None:
        """Return the repository that a path names, None if it names none; may refuse or redirect."""
        named = _REPOSITORY_PATH.fullmatch(request.decoded_path)
        if named is None:
            return None
        full_name, renamed = named.group("full_name"), self._switches.renamed
        served = sight.find(full_name, renamed)
        if served is None or self._switches.repository_gone:
            raise not_found()
        if lookup(renamed, full_name):
            raise _moved(request, served)
        return served

    def _in_usual_form(self, request: Request) -> Request:
        """Accept the addresses of GitHub Enterprise Server, and repositories by number."""
        path = request.path
        if path == "/api/graphql":
            path = "/graphql"
        if path == "/api/v3" or path.startswith("/api/v3/"):
            path = path.removeprefix("/api/v3") or "/"
        if numbered := _NUMBERED_PATH.fullmatch(path):
            served = self._shelf.find_number(int(numbered.group("number")), self._switches.renamed)
            path = f"/repos/{served.full_name}{numbered.group('rest') or ''}" if served else path
        return request if path == request.path else replace(request, path=path)

    def _conditional(self, request: Request, answer: Answer, cost: Cost, caller: Caller) -> Answer:
        """Add an ETag to what was read, and answer 304 if the caller has it already, at no charge."""
        if request.method not in {"GET", "HEAD"} or answer.status != 200:
            return answer
        # Bound to media type and token, as GitHub's are.
        bound = f"{request.accept}\n{request.headers.get('authorization', '')}\n".encode()
        digest = hashlib.sha1(bound + answer.body, usedforsecurity=False).hexdigest()
        headers = {
            "etag": f'W/"{digest}"',
            "cache-control": "private, max-age=60, s-maxage=60",
            "vary": "Accept, Authorization, Cookie, X-GitHub-OTP",
        }
        known = [tag.strip() for tag in request.headers.get("if-none-match", "").split(",")]
        if headers["etag"] in known or f'"{digest}"' in known:
            if not cost.is_free:
                self.limits.refund(cost.resource, caller)
            return Answer(304, b"", headers)
        return answer.with_headers(headers)

    def _put_off(self, request: Request, seconds: float) -> None:
        with self._lock:
            self._late.append((self._options.now() + seconds, request))

    def _land_late_writes(self) -> None:
        if not self._late:
            return
        now = self._options.now()
        with self._lock:
            due = [request for when, request in self._late if when <= now]
            self._late = [(when, request) for when, request in self._late if when > now]
        for request in due:
            self._exchange(request, [])

    def _next_request_id(self) -> str:
        with self._lock:
            self._requests += 1
            return f"EMU0:{self._requests:08X}"

    def _note(self, request: Request, answer: Answer, cost: Cost, now: float, caller: Caller) -> None:
        self.journal.add(
            JournalEntry(
                time=now,
                method=request.method,
                path=request.target,
                status=answer.status,
                resource=cost.resource,
                is_content=cost.is_content,
                bytes_in=len(request.body),
                bytes_out=len(answer.sent_body),
                ending=answer.ending,
                caller=caller.name,
            )
        )


def _cost_of(request: Request, route: Route | None) -> Cost:
    points = 5 if is_write(request) else 1
    if request.path == "/graphql":
        is_content = points == 5 and _CONTENT_MUTATION.search(read_document(request)) is not None
        return Cost("graphql", points, is_content)
    if route is None:
        return Cost("core", points)
    return Cost("core", points, route.is_content, route.is_free)


def _stale_view(effects: Sequence[Effect]) -> StaleView:
    for effect in effects:
        if isinstance(effect, Stale):
            return StaleView(effect.commits, effect.hidden)
    return StaleView()


def _moved(request: Request, served: ServedRepository) -> Refusal:
    is_read = request.method in {"GET", "HEAD"}
    rest = request.path.split("/", 4)[4:]
    query = request.target.removeprefix(request.path)
    location = "/".join([f"{request.base_url}/repositories/{served.number}", *rest]) + query
    return Refusal(
        301 if is_read else 307,
        "Moved Permanently" if is_read else "Temporary Redirect",
        extra={"url": location},
        headers={"location": location},
    )
