"""The workflow styles that there are, by their names."""

from collections.abc import Mapping

from holdfast.styles import agents, layers, phases, steps, tasks
from holdfast.styles.style import DEFAULT_STYLE, ResumePoint, Saved, Style, Today

STYLES: Mapping[str, Style] = {
    module.STYLE.name: module.STYLE for module in (phases, layers, agents, tasks, steps)
}


def plan_style(saved: Saved, today: Today) -> ResumePoint:
    """Return where the run goes on. A style that is not known gives back the state, and no place."""
    name = saved.progress.get("style", DEFAULT_STYLE)
    style = STYLES.get(name) if isinstance(name, str) else None
    if style is not None:
        return style.plan(saved, today)
    flaw = f"progress.style {name!r} is not one of {', '.join(STYLES)}: nothing says where the run goes on"
    return ResumePoint(resume_at=None, completed=(), remaining=None, flaws=(flaw,))
