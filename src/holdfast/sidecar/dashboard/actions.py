"""What a person does on a page: logging in, and deciding. Each action says what it did."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from holdfast.errors import HoldfastError
from holdfast.format.receipt import Receipt
from holdfast.sidecar import parameters
from holdfast.sidecar.access import STRANGERS
from holdfast.sidecar.bodies import BodyReader
from holdfast.sidecar.checkpoints import json_response
from holdfast.sidecar.dashboard.pages import DashboardPages
from holdfast.sidecar.dashboard.rendering import HEADERS, page
from holdfast.sidecar.dashboard.views import run_link
from holdfast.sidecar.problems import TITLES, LostForm, Problem, problem_of
from holdfast.sidecar.service import Service
from holdfast.sidecar.sessions import cookie_header

MOST_FORM_BYTES = 64 * 1024
LONGEST_NOTE = 2000
_OWN_PAGE = re.compile(r"/ui/[A-Za-z0-9._~/%-]*(\?[A-Za-z0-9._~/%=&+:@-]*)?")
_OF_A_RUN = re.compile(r"(/ui/runs/[^/]+)/.*")
# What a form has of ours, or must not be shown again.
_UNTYPED = frozenset({"mark", "token", "next"})

Form = dict[str, str]


class DashboardActions:
    """Carries out what forms ask for."""

    def __init__(self, service: Service, pages: DashboardPages) -> None:
        self._service = service
        self._holdfast = service.holdfast
        self._pages = pages
        self._bodies = BodyReader(MOST_FORM_BYTES)

    def routes(self) -> list[Route]:
        """Return the routes."""
        run = "/ui/runs/{run_id}"
        done: dict[str, Callable[[str, Form], str]] = {
            "review": self._review,
            "rollback": self._roll_back,
            "complete": self._complete,
            "preserve": self._preserve,
            "delete": self._delete,
        }
        return [
            Route("/ui/login", self.show_login, methods=["GET"]),
            Route("/ui/login", self.log_in, methods=["POST"]),
            Route("/ui/logout", self.log_out, methods=["POST"]),
            Route("/v1/login-link", self.make_link, methods=["POST"]),
            Route("/ui/retention", self.clean_up, methods=["POST"]),
            *(Route(f"{run}/{name}", self._action(act), methods=["POST"]) for name, act in done.items()),
        ]

    async def show_login(self, request: Request) -> Response:
        """Ask for the token, or take a one-time link."""
        if code := request.query_params.get("once"):
            session = self._service.sessions.redeem(code)
            if session is not None:
                return self._enter(request, session, "/")
            return await self._ask(request, "This link was used before, or is too old.", 401)
        return await self._ask(request)

    async def log_in(self, request: Request) -> Response:
        """Open a session for whoever has the token."""
        sessions = self._service.sessions
        form = await self._form(request)
        if sessions.is_locked():
            return await self._ask(request, "Too many wrong tokens; try again in a minute.", 429, form)
        session = sessions.log_in(form.get("token", ""))
        if session is None:
            return await self._ask(request, "That is not the token.", 401, form)
        return self._enter(request, session, form.get("next", ""))

    async def log_out(self, request: Request) -> Response:
        """End the session."""
        await self._marked_form(request)
        self._service.sessions.log_out(_cookies(request))
        self._service.events.check_followers()
        answer = RedirectResponse("/ui/login", 303, headers=HEADERS)
        answer.headers["Set-Cookie"] = cookie_header("", is_secure=_is_secure(request))
        return answer

    async def make_link(self, _request: Request) -> Response:
        """Answer whoever has the token with a link that logs in once."""
        code = self._service.sessions.make_link()
        return json_response({"path": f"/ui/login?once={code}"}, 201)

    async def clean_up(self, request: Request) -> Response:
        """Clean up by the rules."""
        await self._marked_form(request)
        report = await self._try(self._holdfast.cleanup)
        if isinstance(report, str):
            return self._back("/ui/retention", report)
        self._service.note_cleanup(report, "someone asked for it here")
        files = sum(len(run.delete) for run in report.done)
        rest = f" Left for later: {report.rest_because}." if report.rest_because else ""
        return self._back("/ui/retention", f"Deleted {files} files of {len(report.done)} runs.{rest}")

    def _action(self, act: Callable[[str, Form], str]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            run_id = parameters.run_id_of(request)
            form = await self._marked_form(request)
            said = await self._try(lambda: act(run_id, form))
            self._service.drainer.wake(is_urgent=False)
            is_gone = act == self._delete and said.startswith("Deleted")
            return self._back("/ui/runs" if is_gone else run_link(run_id), said)

        return answer

    async def _try(self, work: Callable[[], Any]) -> Any:
        """Return what `work` returns, or the sentence of its error."""
        try:
            return await self._service.call_saving(work)
        except (HoldfastError, Problem) as error:
            return f"Not done: {problem_of(error).detail}"

    def _review(self, run_id: str, form: Form) -> str:
        decision = form.get("decision", "")
        receipt = self._holdfast.review(
            run_id, decision, note=_note(form), by=form.get("by", "").strip()[:200] or None
        )
        return f"Decided: {decision}. {_saved(receipt)}"

    def _roll_back(self, run_id: str, form: Form) -> str:
        at = parameters.place_of(form.get("at", ""))
        receipt = self._holdfast.rollback(run_id, at, note=_note(form))
        return f"Rolled back to checkpoint {at}. {_saved(receipt)}"

    def _complete(self, run_id: str, form: Form) -> str:
        status = form.get("status", "completed")
        saved = _saved(self._holdfast.complete(run_id, status))
        after = "Once that is stored, a clean-up by the rules follows; Retention will tell what it deleted."
        return f"The run is {status}. {saved} {after}"

    def _preserve(self, run_id: str, form: Form) -> str:
        if form.get("remove"):
            self._holdfast.unpreserve(run_id)
            return "Retention may clean up this run again."
        self._holdfast.preserve(run_id)
        return "Retention will never touch this run."

    def _delete(self, run_id: str, form: Form) -> str:
        if form.get("name", "").strip() != run_id:
            return f"Not deleted: type the name of the run, {run_id}, to delete it."
        self._holdfast.delete(run_id, force=bool(form.get("force")))
        return f"Deleted {run_id}."

    async def _ask(
        self, request: Request, problem: str = "", status: int = 200, form: Form | None = None
    ) -> Response:
        wanted = (form or request.query_params).get("next", "")
        values = {**self._pages.frame(request, "Log in"), "problem": problem, "next": wanted}
        return page("login.html", values, status)

    async def refuse(self, request: Request, problem: Problem) -> Response:
        """Show a problem as a page: a person reads it. What was typed into a form is not lost."""
        is_stranger = problem.code in STRANGERS
        values = self._pages.frame(request, TITLES[problem.status], is_stranger=is_stranger)
        typed: Mapping[str, str] = {}
        if isinstance(problem, LostForm):
            typed = await self._typed(request) if problem.typed is None else problem.typed
        of_run = _OF_A_RUN.fullmatch(request.url.path)
        values |= {
            "detail": problem.detail,
            "typed": {name: text for name, text in typed.items() if text and name not in _UNTYPED},
            "back": (of_run[1] if of_run else request.url.path) if isinstance(problem, LostForm) else "",
        }
        answer = page("problem.html", values, problem.status)
        answer.headers.update(problem.headers)
        return answer

    async def _typed(self, request: Request) -> Form:
        """Return what is in a form that nobody carries out."""
        with suppress(Problem):
            return await self._form(request)
        return {}

    def _enter(self, request: Request, session: str, wanted: str) -> Response:
        # Only to pages of ours, whatever the address of the login said.
        page_after = wanted if _OWN_PAGE.fullmatch(wanted) else "/"
        answer = RedirectResponse(page_after, 303, headers=HEADERS)
        answer.headers["Set-Cookie"] = cookie_header(session, is_secure=_is_secure(request))
        return answer

    def _back(self, path: str, said: str) -> Response:
        code = self._service.sessions.say(said[:500])
        return RedirectResponse(f"{path}?said={code}", 303, headers=HEADERS)

    async def _form(self, request: Request) -> Form:
        media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/x-www-form-urlencoded":
            raise Problem(415, "not_a_form", "Send a form.")
        body = await self._bodies.read(request.receive)
        try:
            values = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=50)
        except ValueError:
            raise Problem(400, "too_many_fields", "This form is not ours: it has too many fields.") from None
        return {name: found[0] for name, found in values.items()}

    async def _marked_form(self, request: Request) -> Form:
        """Return a form of our own. Raises Problem for one that another page has made."""
        form = await self._form(request)
        if not self._service.sessions.is_marked(_cookies(request), form.get("mark", "")):
            told = "This form is not ours, or too old, so nothing was done. Open the page again."
            raise LostForm(403, "foreign_form", told, form)
        return form


def _saved(receipt: Receipt) -> str:
    return f"Checkpoint {receipt.sequence_number} is {receipt.status}."


def _note(form: Form) -> str | None:
    return form.get("note", "").strip()[:LONGEST_NOTE] or None


def _cookies(request: Request) -> bytes:
    return request.headers.get("cookie", "").encode("latin-1")


def _is_secure(request: Request) -> bool:
    """Whether the reader reaches us by TLS, through a proxy in front of us."""
    is_told = request.headers.get("x-forwarded-proto", "").lower() == "https"
    return is_told or request.headers.get("origin", "").startswith("https://")
