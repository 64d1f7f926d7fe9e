"""The emulator without a network: requests in, answers out."""

import hashlib
import re
import threading
from collections.abc import Sequence
from dataclasses import replace
from email.utils import formatdate
from typing import Any

from holdfast.emulator import control
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
from holdfast.emulator.gate import check_request
from holdfast.emulator.journal import Journal, JournalEntry
from holdfast.emulator.limits import Cost, Limits
from holdfast.emulator.options import EmulatorOptions, Switches
from holdfast.emulator.routes import Route, find_route
from holdfast.emulator.shelf import ServedRepository, Shelf, lookup
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
        request = _without_prefix(request)
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
        route, params = find_route(request.method, request.decoded_path) or (None, {})
        cost = _cost_of(request, route)
        answer = early_answer(effects)
        if answer is None:
            answer = self._serve(request, effects, route, params, cost, request_id)
        for effect in effects:
            if isinstance(effect, Call) and effect.after:
                effect.after(request)
        answer = answer.with_headers(
            {
                **self.limits.headers(options, now, cost.resource),
                "x-github-request-id": request_id,
                "x-github-media-type": "github.v3; format=json",
                "date": formatdate(now, usegmt=True),
                "server": "holdfast-emulator",
            }
        )
        answer = distort(answer, effects)
        self._note(request, answer, cost, now)
        return answer

    def _serve(
        self,
        request: Request,
        effects: Sequence[Effect],
        route: Route | None,
        params: dict[str, str],
        cost: Cost,
        request_id: str,
    ) -> Answer:
        options, switches = self._options, self._switches
        now = options.now()
        try:
            check_request(request, options, switches)
            limited = self.limits.admit(options, now, cost, request_id)
            if limited is not None:
                return limited
            served, path = self._find_repository(request)
            if served is not None and path != request.decoded_path:
                route, params = find_route(request.method, path) or (None, {})
            if route is None:
                raise not_found()
            visit = Visit(
                request=request,
                options=options,
                switches=switches,
                shelf=self._shelf,
                now=now,
                rate_overview=lambda: self.limits.overview(options, now),
                params=params,
                served=served,
                stale=_stale_view(effects),
                head_moves=any(isinstance(effect, HeadMoves) for effect in effects),
            )
            answer = route.handler(visit)
        except Refusal as refusal:
            return refusal.answer()
        return self._conditional(request, answer, cost)

    def _find_repository(self, request: Request) -> tuple[ServedRepository | None, str]:
        """Return the repository that a path names, and the path in its usual form; may refuse or redirect."""
        path, renamed = request.decoded_path, self._switches.renamed
        if numbered := _NUMBERED_PATH.fullmatch(path):
            served = self._shelf.find_number(int(numbered.group("number")), renamed)
            path = f"/repos/{served.full_name}{numbered.group('rest') or ''}" if served else path
        elif named := _REPOSITORY_PATH.fullmatch(path):
            served = self._shelf.find(named.group("full_name"), renamed)
            if served is not None and lookup(renamed, named.group("full_name")):
                raise _moved(request, served, named.group("rest") or "")
        else:
            return None, path
        if served is None or self._switches.repository_gone:
            raise not_found()
        return served, path

    def _conditional(self, request: Request, answer: Answer, cost: Cost) -> Answer:
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
                self.limits.refund(cost.resource)
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

    def _note(self, request: Request, answer: Answer, cost: Cost, now: float) -> None:
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
            )
        )


def _without_prefix(request: Request) -> Request:
    """Accept the addresses of GitHub Enterprise Server too."""
    if request.path == "/api/graphql":
        return replace(request, path="/graphql")
    if request.path == "/api/v3" or request.path.startswith("/api/v3/"):
        return replace(request, path=request.path.removeprefix("/api/v3") or "/")
    return request


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


def _moved(request: Request, served: ServedRepository, rest: str) -> Refusal:
    is_read = request.method in {"GET", "HEAD"}
    quoted = request.path.split("/", 4)[4:] if rest else []
    query = request.target.removeprefix(request.path)
    location = "/".join([f"{request.base_url}/repositories/{served.number}", *quoted]) + query
    return Refusal(
        301 if is_read else 307,
        "Moved Permanently" if is_read else "Temporary Redirect",
        extra={"url": location},
        headers={"location": location},
    )
