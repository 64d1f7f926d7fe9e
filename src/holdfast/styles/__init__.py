"""The workflow styles: each a small model of progress, and where a run of it goes on."""

from collections.abc import Callable, Mapping

from holdfast.styles import agents, layers, phases, steps, tasks
from holdfast.styles.outlook import Outlook, Saved, Today

DEFAULT_STYLE = "phases"

STYLES: Mapping[str, Callable[[Saved, Today], Outlook]] = {
    "phases": phases.plan,
    "layers": layers.plan,
    "agents": agents.plan,
    "tasks": tasks.plan,
    "steps": steps.plan,
}


def plan_style(saved: Saved, today: Today) -> Outlook:
    """Return where the run goes on. A style that is not known gives back the state, and no place."""
    style = saved.progress.get("style", DEFAULT_STYLE)
    plan = STYLES.get(style) if isinstance(style, str) else None
    if plan is not None:
        return plan(saved, today)
    flaw = f"progress.style {style!r} is not one of {', '.join(STYLES)}: nothing says where the run goes on"
    return Outlook(resume_at=None, completed=(), remaining=None, flaws=(flaw,))
