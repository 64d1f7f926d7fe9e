"""The pages that only show: overview, runs, a run, a checkpoint, a comparison, retention, settings."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.errors import DatabaseAway, HoldfastError, UnknownRun
from holdfast.format.checkpoint import Envelope
from holdfast.format.index import Index
from holdfast.format.receipt import Receipt
from holdfast.presentation.documents import run_document, settings_rows
from holdfast.presentation.sweeps import sweep_document
from holdfast.repository.catalog import RunLine
from holdfast.sidecar import parameters
from holdfast.sidecar.dashboard import tree, views
from holdfast.sidecar.dashboard.rendering import HEADERS, MEDIA_TYPE, page, render, static_file
from holdfast.sidecar.problems import Problem
from holdfast.sidecar.service import Service
from holdfast.styles.resume import ResumePlan

MOST_CHANGES = 500
MOST_REVIEWS = 20
# A value that is shown whole; what is larger can be downloaded.
MOST_SHOWN_BYTES = 512 * 1024

# Pages that follow along ask for the same thing at the same time.
FRAGMENT_S = 2.0
# Long enough for the pauses between two writes.
RATE_OVER_S = 300.0

Handler = Callable[[Request], Awaitable[Response]]


class DashboardPages:
    """Renders what the library tells, and asks GitHub no more than the command of that name would."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._holdfast = service.holdfast
        self._settings = service.assembly.settings
        self._fragment: asyncio.Task[str] | None = None
        self._fragment_at = 0.0

    def routes(self) -> list[Route]:
        """Return the routes."""
        run = "/ui/runs/{run_id}"
        shown: list[tuple[str, Handler]] = [
            ("/", self.overview),
            ("/ui/fragments/overview", self.overview_fragment),
            ("/ui/runs", self.runs),
            (run, self.run),
            (f"{run}/checkpoints/{{at}}", self.checkpoint),
            (f"{run}/checkpoints/{{at}}/raw", self.raw),
            (f"{run}/diff", self.compare),
            ("/ui/retention", self.retention),
            ("/ui/settings", self.settings),
        ]
        routes = [Route(path, handler, methods=["GET"]) for path, handler in shown]
        return [*routes, Route("/ui/static/{name}", self.static, methods=["GET"])]

    def frame(self, request: Request, title: str, *, is_stranger: bool = False) -> dict[str, Any]:
        """Return what every page has around it; a stranger is told nothing."""
        cookies = request.headers.get("cookie", "").encode("latin-1")
        sessions = self._service.sessions
        return {
            "is_known": not is_stranger and sessions.is_known(cookies),
            "title": title,
            "repository": self._service.assembly.repository,
            "branch": self._settings.branch,
            "web": self._web,
            "mark": sessions.mark(cookies),
            "has_login": sessions.is_needed,
            "path": request.url.path,
            "said": sessions.said(request.query_params.get("said", "")),
        }

    @property
    def _web(self) -> str | None:
        """Return where people look at the repository; nothing where there are several."""
        shards = self._service.assembly.shards
        return self._web_of(shards[0].repository) if len(shards) == 1 else None

    def _web_of(self, repository: str) -> str | None:
        settings = self._settings
        return views.web_address(settings.api_url, repository, is_embedded=settings.is_embedded)

    async def overview(self, request: Request) -> Response:
        """Show how things stand, what waits for a person first."""
        values = {**self.frame(request, "Overview"), **await self._now()}
        try:
            waiting = await self._service.call(self._holdfast.waiting)
        except HoldfastError as error:
            return page("overview.html", {**values, **_tell_waiting([]), "reviews_unknown": str(error)})
        return page("overview.html", {**values, **_tell_waiting(waiting)})

    async def overview_fragment(self, _request: Request) -> Response:
        """Show what this machine knows by itself, for pages that follow along: one answer for all of them."""
        made = self._fragment
        is_old = self._service.assembly.clock.now() - self._fragment_at >= FRAGMENT_S
        if made is None or (made.done() and is_old):
            self._fragment_at = self._service.assembly.clock.now()
            self._fragment = made = asyncio.create_task(self._render_fragment())
        return Response(await asyncio.shield(made), headers=HEADERS, media_type=MEDIA_TYPE)

    async def _render_fragment(self) -> str:
        waiting = await self._service.call_local(self._holdfast.waiting, ask=False)
        return render("overview_now.html", {**await self._now(), **_tell_waiting(waiting)})

    async def _now(self) -> dict[str, Any]:
        status = await self._service.call_local(self._holdfast.status)
        limits = {"minute": self._settings.content_per_minute, "hour": self._settings.content_per_hour}
        return {
            "status": status,
            "depth": views.draw_depth(list(self._service.watch.samples)),
            "is_shared": self._settings.database_url is not None,
            "rate": await self._service.call_local(self._verified_per_minute),
            "gauges": views.budget_gauges(status["budget"], limits),
        }

    def _verified_per_minute(self) -> float | None:
        """Return how many checkpoints a minute were verified lately, by whichever process; None if unknown.

        The spool is asked, and not what this process has counted: another one may drain.
        """
        now = self._service.assembly.clock.now()
        try:
            count = self._service.assembly.spool.verified_between(now - RATE_OVER_S, now)
        except DatabaseAway:
            return None
        return count / RATE_OVER_S * 60

    async def runs(self, request: Request) -> Response:
        """Show the runs, page by page."""
        query = views.parse_query(request.query_params)
        runs = await self._service.call(
            self._holdfast.runs, review=query.is_review, archived=query.is_archived
        )
        selected = views.select_runs(runs, query)
        return page("runs.html", {**self.frame(request, "Runs"), "query": query, "selected": selected})

    async def run(self, request: Request) -> Response:
        """Show the way that a run went, and where it goes on."""
        run_id = parameters.run_id_of(request)
        try:
            index, plan, no_plan = await self._service.call(self._look, run_id)
        except UnknownRun as error:
            return await self._archived(request, run_id, error)
        entries = list(index.entries)
        spooled = await self._service.call_local(self._spooled, run_id)
        is_preserved = await self._service.call(self._holdfast.is_preserved, run_id)
        values = {**self.frame(request, run_id), "run_id": run_id, "index": index}
        values |= {"status": run_document(index).status, "is_preserved": is_preserved}
        values |= {"plan": plan, "way": views.draw_way(plan) if plan else None, "no_plan": no_plan}
        selected = views.select_entries(run_id, entries, views.parse_page(request.query_params))
        dots = views.draw_timeline(run_id, entries, spooled)
        return page("run.html", values | {"selected": selected, "dots": dots, "spooled": spooled})

    def _look(self, run_id: str) -> tuple[Index, ResumePlan | None, str]:
        """Return a run's checkpoints and its plan, or why it has none. Raises UnknownRun."""
        try:
            return *self._holdfast.look_at(run_id), ""
        except UnknownRun:
            raise
        except HoldfastError as error:
            return self._holdfast.checkpoints(run_id), None, str(error)

    async def _archived(self, request: Request, run_id: str, unknown: UnknownRun) -> Response:
        """Show what is left of a run that retention has archived. Raises `unknown` if nothing is."""
        try:
            summary = await self._service.call(self._holdfast.summary, run_id)
        except UnknownRun:
            raise unknown from None
        values = {**self.frame(request, run_id), "run_id": run_id}
        return page("archived.html", {**values, "root": tree.build_tree(tree.parse(summary))})

    def _spooled(self, run_id: str) -> set[str]:
        pending = self._service.assembly.spool.pending()
        return {item.checkpoint_id for item in pending if item.run_id == run_id}

    async def checkpoint(self, request: Request) -> Response:
        """Show a checkpoint: its state as a tree, what was searched in it, or one value whole."""
        run_id, envelope = await self._read(request)
        receipt = await self._service.call_local(self._holdfast.receipt, envelope.checkpoint_id)
        words = request.query_params.get("q", "")[:200]
        pointer = request.query_params.get("at", "")
        made = await self._service.call_local(_show_state, envelope, words, pointer)
        values = self.frame(request, f"{run_id} #{envelope.sequence}")
        values |= {"run_id": run_id, "header": envelope.header, "size": len(envelope.content)}
        values |= {
            "receipt": receipt,
            "links": await self._links(receipt),
            "words": words,
            "pointer": pointer,
        }
        return page("checkpoint.html", values | made)

    async def _links(self, receipt: Receipt | None) -> dict[str, str]:
        if not (receipt and receipt.commit_sha):
            return {"commit": "", "file": ""}
        home = await self._service.call(self._service.assembly.home, receipt.run_id)
        web = self._web_of(home.repository)
        return {
            "commit": f"{web}/commit/{quote(receipt.commit_sha)}" if web else "",
            "file": f"{web}/blob/{quote(self._settings.branch)}/{quote(receipt.file_path)}" if web else "",
        }

    async def raw(self, request: Request) -> Response:
        """Return a checkpoint's bytes, or those of one value in it, to look at or to keep."""
        run_id, envelope = await self._read(request)
        content = envelope.content
        if pointer := request.query_params.get("at", ""):
            content = await self._service.call_local(_read_value, envelope, pointer)
        headers = {}
        if request.query_params.get("download"):
            headers["Content-Disposition"] = f'attachment; filename="{run_id}-{envelope.sequence}.json"'
        return Response(content, headers=headers, media_type="application/json")

    async def _read(self, request: Request) -> tuple[str, Envelope]:
        run_id = parameters.run_id_of(request)
        at = parameters.place_of(request.path_params["at"])
        return run_id, await self._service.call(self._holdfast.checkpoint, run_id, at)

    async def compare(self, request: Request) -> Response:
        """Show what changed from one checkpoint of a run to another."""
        run_id = parameters.run_id_of(request)
        first, second = (parameters.needed_place(request, name) for name in ("from", "to"))
        patch = await self._service.call(self._holdfast.diff, run_id, first, second)
        changes = [
            {
                "operation": change.operation,
                "pointer": change.pointer,
                "before": _brief(change.before),
                "value": _brief(change.value),
            }
            for change in patch.changes[:MOST_CHANGES]
        ]
        values = self.frame(request, f"{run_id}: {first} to {second}")
        values |= {"run_id": run_id, "first": first, "second": second}
        return page("diff.html", values | {"changes": changes, "total": len(patch.changes)})

    async def retention(self, request: Request) -> Response:
        """Show what a clean-up would do, and why."""
        report = await self._service.call(self._holdfast.cleanup, dry_run=True)
        document = sweep_document(report, self._service.assembly.layout, is_dry_run=True)
        values = {"sweep": asdict(document), "cleanups": list(self._service.cleanups)}
        return page("retention.html", {**self.frame(request, "Retention"), **values})

    async def settings(self, request: Request) -> Response:
        """Show the settings in force."""
        rows = settings_rows(self._settings)
        return page("settings.html", {**self.frame(request, "Settings"), "rows": rows})

    async def static(self, request: Request) -> Response:
        """Return a file that pages need."""
        found = static_file(request.path_params["name"])
        if found is None:
            raise Problem(404, "no_such_address", "There is no such file.")
        content, media_type = found
        return Response(content, media_type=media_type)


def _tell_waiting(waiting: Sequence[RunLine]) -> dict[str, Any]:
    return {"reviews": waiting[:MOST_REVIEWS], "review_count": len(waiting), "reviews_unknown": ""}


def _show_state(envelope: Envelope, words: str, pointer: str) -> dict[str, Any]:
    """Return the tree of a checkpoint's state, or what was found in it, or one value of it."""
    value = tree.parse(envelope.content)
    state = value.get("state_snapshot")
    nothing: dict[str, Any] = {"root": None, "found": None, "whole": None, "whole_size": 0}
    if words:
        return {**nothing, "found": list(tree.find(state, words))}
    if pointer:
        text = tree.write(_value_at(state, pointer))
        shown = text[:MOST_SHOWN_BYTES].decode(errors="ignore")
        return {**nothing, "whole": shown, "whole_size": len(text)}
    return {**nothing, "root": tree.build_tree(state)}


def _read_value(envelope: Envelope, pointer: str) -> bytes:
    return tree.write(_value_at(tree.parse(envelope.content).get("state_snapshot"), pointer))


def _value_at(state: Any, pointer: str) -> Any:
    try:
        return tree.read_pointer(state, pointer)
    except (LookupError, ValueError):
        raise Problem(404, "no_such_value", f"The state has nothing at {pointer[:200]}.") from None


def _brief(value: Any) -> str:
    text = tree.write(value).decode()
    return text if len(text) <= tree.LONGEST_TEXT else f"{text[: tree.LONGEST_TEXT]}…"
