"""What the pages show, as values: rows, stages, links. Nothing is read or asked here."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from holdfast.format.index import IndexEntry
from holdfast.repository.catalog import RunSummary
from holdfast.sidecar.dashboard.drawings import Dot, Gauge, Line, draw_line, place_dots
from holdfast.sidecar.watch import Sample
from holdfast.styles.resume import ResumePlan, style_of

PER_PAGE = 50
# A timeline of more is drawn for its newest.
MOST_DOTS = 200
MOST_LINES = 12
_SORTS = ("last_updated", "run_id", "checkpoint_count", "status")
Row = TypeVar("Row")
_PUBLIC_API = "https://api.github.com"


@dataclass(frozen=True, slots=True)
class RunQuery:
    """What a reader wants to see of the runs."""

    words: str = ""
    status: str = ""
    workflow: str = ""
    is_review: bool = False
    is_archived: bool = False
    sort: str = "last_updated"
    page: int = 1

    def link(self, **changes: object) -> str:
        """Return the address of the page with something changed."""
        values = {
            "q": self.words,
            "status": self.status,
            "workflow": self.workflow,
            "review": "true" if self.is_review else "",
            "archived": "true" if self.is_archived else "",
            "sort": self.sort if self.sort != _SORTS[0] else "",
            "page": "" if self.page == 1 else str(self.page),
        } | {name: str(value) for name, value in changes.items()}
        given = "&".join(f"{name}={quote(value, safe='')}" for name, value in values.items() if value)
        return f"/ui/runs?{given}" if given else "/ui/runs"


def parse_query(values: Mapping[str, str]) -> RunQuery:
    """Return what an address asks for; what makes no sense is taken as not asked for."""
    sort = values.get("sort", "")
    return RunQuery(
        words=values.get("q", "").strip()[:200],
        status=values.get("status", "")[:40],
        workflow=values.get("workflow", "")[:1024],
        is_review=values.get("review") == "true",
        is_archived=values.get("archived") == "true",
        sort=sort if sort in _SORTS else _SORTS[0],
        page=parse_page(values),
    )


def parse_page(values: Mapping[str, str]) -> int:
    """Return the page that an address asks for, the first if it makes no sense."""
    page = values.get("page", "1")
    return int(page) if page.isascii() and page.isdigit() and 0 < len(page) < 7 and int(page) else 1


@dataclass(frozen=True, slots=True)
class RunsPage:
    """One page of the runs, and how many there are in all."""

    rows: Sequence[RunSummary]
    total: int
    page: int
    pages: int
    workflows: Sequence[str]


def select_runs(runs: Sequence[RunSummary], query: RunQuery) -> RunsPage:
    """Return the rows of one page."""
    workflows = sorted({run.workflow for run in runs if run.workflow})
    words = query.words.casefold()
    chosen = [
        run
        for run in runs
        if (not words or words in run.run_id.casefold() or words in (run.workflow or "").casefold())
        and (not query.status or run.status == query.status)
        and (not query.workflow or run.workflow == query.workflow)
    ]
    is_newest_first = query.sort in ("last_updated", "checkpoint_count")
    chosen.sort(key=lambda run: getattr(run, query.sort), reverse=is_newest_first)
    page, pages, rows = _cut(chosen, query.page)
    return RunsPage(rows, len(chosen), page, pages, workflows)


@dataclass(frozen=True, slots=True)
class EntriesPage:
    """One page of the checkpoints of a run, newest first, and how many there are in all."""

    run_id: str
    rows: Sequence[IndexEntry]
    total: int
    page: int
    pages: int

    def link(self, page: int) -> str:
        """Return the address of another page."""
        return f"{run_link(self.run_id)}?page={page}"


def select_entries(run_id: str, entries: Sequence[IndexEntry], page: int) -> EntriesPage:
    """Return the checkpoints of one page."""
    page, pages, rows = _cut(entries[::-1], page)
    return EntriesPage(run_id, rows, len(entries), page, pages)


def _cut(rows: Sequence[Row], page: int) -> tuple[int, int, Sequence[Row]]:
    """Return the page that there is, how many there are, and its rows."""
    pages = max(1, -(-len(rows) // PER_PAGE))
    page = min(page, pages)
    return page, pages, rows[(page - 1) * PER_PAGE : page * PER_PAGE]


@dataclass(frozen=True, slots=True)
class Stage:
    """One part of a run. Its state is done, current, waiting or failed; `share` is its confidence."""

    name: str
    state: str
    note: str = ""
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """How far a run is: its parts in rows, one row for most styles, one for each layer of a DAG."""

    style: str
    rows: Sequence[tuple[str, Sequence[Stage]]]
    confidence: Sequence[tuple[str, Line]] = ()
    cost: Line | None = None


def draw_way(plan: ResumePlan) -> Way:
    """Return how far a run is, drawn as fits its style."""
    style = style_of(plan.state)
    progress = _mapping(_mapping(plan.state).get("progress"))
    rows = {"layers": _layers, "agents": _agents, "tasks": _tasks, "steps": _steps}.get(style, _phases)
    return Way(
        style,
        rows(plan, progress),
        confidence=_confidences(_list(progress.get("confidence_history"))),
        cost=_history(_list(_mapping(plan.state).get("cost_history")), "total"),
    )


def _phases(plan: ResumePlan, _progress: Mapping[str, Any]) -> list[tuple[str, Sequence[Stage]]]:
    history = [_mapping(gate) for gate in _list(_mapping(plan.state).get("gate_history"))]
    gates = {str(gate.get("phase") or gate.get("gate")): str(gate.get("decision", "")) for gate in history}
    stages = [Stage(str(name), "done", _gate(gates, str(name))) for name in plan.completed]
    waiting = [name for name in plan.remaining or [] if name not in plan.completed]
    state = "failed" if plan.status == "failed" else "current"
    if plan.resume_at is not None and plan.resume_at not in waiting:
        stages.append(Stage(str(plan.resume_at), state, _gate(gates, str(plan.resume_at))))
    stages += [Stage(str(name), state if name == plan.resume_at else "waiting") for name in waiting]
    return [("", stages)]


def _gate(gates: Mapping[str, str], phase: str) -> str:
    return f"gate: {gates[phase]}" if phase in gates else ""


def _layers(plan: ResumePlan, progress: Mapping[str, Any]) -> list[tuple[str, Sequence[Stage]]]:
    done = {str(name) for name in plan.completed}
    records = {str(_mapping(task).get("task_id")): _mapping(task) for task in _list(progress.get("tasks"))}
    rows: list[tuple[str, Sequence[Stage]]] = []
    for number, layer in enumerate(_list(_mapping(progress.get("dag_structure")).get("layers"))):
        tasks = [str(task) for task in _list(layer)]
        is_past = isinstance(plan.resume_at, int) and number < plan.resume_at
        is_now = number == plan.resume_at
        stages = [
            Stage(
                task,
                "failed"
                if str(records.get(task, {}).get("status", "")) in ("failed", "error")
                else "done"
                if is_past or task in done
                else "current"
                if is_now
                else "waiting",
                _seconds(records.get(task, {}).get("duration")),
            )
            for task in tasks
        ]
        rows.append((f"layer {number}", stages))
    return rows or _phases(plan, progress)


_AGENT_STATES = {"completed": "done", "failed": "failed", "active": "current", "running": "current"}


def _agents(plan: ResumePlan, progress: Mapping[str, Any]) -> list[tuple[str, Sequence[Stage]]]:
    stages = []
    for name, agent in _mapping(progress.get("agents")).items():
        values = _mapping(agent)
        status = str(values.get("status", ""))
        confidence = values.get("confidence")
        share = float(confidence) if isinstance(confidence, int | float) and 0 <= confidence <= 1 else None
        stages.append(Stage(str(name), _AGENT_STATES.get(status, "waiting"), status, share))
    return [(f"phase {plan.resume_at}", stages)]


_TASK_STATES = {"completed": "done", "failed": "failed", "in_progress": "current"}


def _tasks(_plan: ResumePlan, progress: Mapping[str, Any]) -> list[tuple[str, Sequence[Stage]]]:
    stages = [
        Stage(
            str(name),
            _TASK_STATES.get(str(_mapping(task).get("status", "")), "waiting"),
            str(_mapping(task).get("error") or ""),
        )
        for name, task in _mapping(progress.get("tasks")).items()
    ]
    return [("", stages)]


def _steps(plan: ResumePlan, progress: Mapping[str, Any]) -> list[tuple[str, Sequence[Stage]]]:
    stages = [
        Stage(
            str(_mapping(step).get("command") or f"step {_mapping(step).get('step_index')}"),
            "done",
            _seconds(_mapping(step).get("duration_s")),
        )
        for step in _list(progress.get("completed_steps"))
    ]
    if plan.resumable:
        state = _mapping(progress.get("state"))
        name = state.get("command") or f"step {plan.resume_at}"
        kind = "failed" if state.get("kind") == "failed" else "current"
        stages.append(Stage(str(name), kind, str(state.get("error") or "")))
    return [("", stages)]


def _confidences(history: list[Any]) -> list[tuple[str, Line]]:
    """Return a line for each agent, and one for the run itself, whose entries name no agent."""
    agents = dict.fromkeys(_mapping(entry).get("agent") for entry in history)
    lines = []
    for agent in list(agents)[:MOST_LINES]:
        of_agent = [entry for entry in history if _mapping(entry).get("agent") == agent]
        if line := _history(of_agent, "confidence", most=1.0):
            lines.append((f"Confidence of {'the run' if agent is None else agent}", line))
    return lines


def _history(entries: list[Any], name: str, *, most: float | None = None) -> Line | None:
    values = []
    for number, entry in enumerate(entries):
        amount = _mapping(entry).get(name)
        if isinstance(amount, int | float) and not isinstance(amount, bool):
            moment = parse_moment(str(_mapping(entry).get("timestamp", "")))
            values.append((float(number) if moment is None else moment, float(amount)))
    return draw_line(values, most=most) if len({at for at, _ in values}) > 1 else None


def draw_timeline(run_id: str, entries: Sequence[IndexEntry], spooled: Iterable[str]) -> list[Dot]:
    """Return a dot for each of the newest checkpoints of a run, by time."""
    shown = entries[-MOST_DOTS:]
    waiting = set(spooled)
    places = place_dots([parse_moment(entry.timestamp) for entry in shown])
    return [
        Dot(
            x=x,
            label=f"#{entry.sequence} {entry.trigger} {entry.timestamp}",
            kind="spooled" if entry.checkpoint_id in waiting else entry.status,
            href=checkpoint_link(run_id, entry.sequence),
        )
        for x, entry in zip(places, shown, strict=True)
    ]


def draw_depth(samples: Sequence[Sample]) -> Line | None:
    """Return the queue's depth over the last hour."""
    return draw_line([(sample.at, float(sample.depth)) for sample in samples])


def budget_gauges(budget: Mapping[str, Any], limits: Mapping[str, int]) -> list[Gauge]:
    """Return what is left of each limit of GitHub; `limits` are those that GitHub does not announce."""
    gauges = []
    if (left := budget["last_remaining"]) is not None:
        gauges.append(Gauge("calls this hour", left, budget["limit"], budget["resets_at"]))
    for name, label in (("minute", "writes this minute"), ("hour", "writes this hour")):
        left = budget[f"content_left_{name}"]
        if left is not None:
            gauges.append(Gauge(label, left, limits.get(name)))
    return gauges


def run_link(run_id: str) -> str:
    """Return the address of a run's page."""
    return f"/ui/runs/{quote(run_id, safe='')}"


def checkpoint_link(run_id: str, at: object) -> str:
    """Return the address of a checkpoint's page."""
    return f"{run_link(run_id)}/checkpoints/{quote(str(at), safe='')}"


def web_address(api_url: str, repository: str, *, is_embedded: bool) -> str | None:
    """Return where people see the repository; None for the embedded GitHub, which has no pages.

    >>> web_address("https://api.github.com", "you/x", is_embedded=False)
    'https://github.com/you/x'
    >>> web_address("https://github.example.com/api/v3", "you/x", is_embedded=False)
    'https://github.example.com/you/x'
    """
    if is_embedded:
        return None
    root = "https://github.com" if api_url == _PUBLIC_API else api_url.removesuffix("/api/v3")
    return f"{root}/{repository}"


def parse_moment(text: str) -> float | None:
    """Return a time in epoch seconds; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None


def _seconds(value: object) -> str:
    return f"{value:g} s" if isinstance(value, int | float) and not isinstance(value, bool) else ""


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
