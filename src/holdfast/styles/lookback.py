"""What the checkpoints before the newest say of agents that failed: how often, and where to go back to."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from holdfast.errors import GatewayError
from holdfast.format.checkpoint import Envelope
from holdfast.jsontext.encode import encode_exact
from holdfast.jsontext.members import join_members, parse_document
from holdfast.jsontext.parse import parse_exact, parse_value
from holdfast.styles.agents import count_recoveries, failed_agents, has_stepped_back, most_recoveries
from holdfast.styles.known import plan_style
from holdfast.styles.opened import OpenedCheckpoint, open_saved
from holdfast.styles.style import ResumePoint, Saved, Today
from holdfast.styles.values import name_all

LOOK_BACK = 20
"""How many earlier checkpoints are looked at, at most, for how often an agent was restarted."""


class Lookback:
    """The checkpoints before the newest, read when they are looked at, and only once.

    Where GitHub does not answer, or does not answer any more, `is_cut_off` says that there may be others.
    """

    def __init__(self, earlier: Iterable[Envelope], *, is_cut_off: bool) -> None:
        self._rest = islice(earlier, LOOK_BACK)
        self._seen: list[OpenedCheckpoint] = []
        self.is_cut_off = is_cut_off
        self.warnings: list[str] = []

    def __iter__(self) -> Iterator[OpenedCheckpoint]:
        yield from self._seen
        try:
            for envelope in self._rest:
                opened = open_saved(envelope)
                self._seen.append(opened)
                yield opened
        except GatewayError as error:
            self.is_cut_off = True
            self.warnings.append(f"earlier checkpoints could not be read ({error})")


def count_before(saved: Saved, before: Lookback) -> dict[str, int]:
    """Return how often each agent that failed was restarted before, by name."""
    if saved.progress.get("style") != "agents":
        return {}
    failed = failed_agents(saved.progress)
    return count_recoveries(failed, (opened.saved for opened in before)) if failed else {}


def step_back(
    newest: OpenedCheckpoint, point: ResumePoint, before: Lookback, dag: Any
) -> tuple[OpenedCheckpoint, ResumePoint, list[str]]:
    """Go back to the newest checkpoint in which the agents that were given up had not failed.

    The state that is gone back to says so, and a run does not go back twice for the same agent.
    """
    progress = newest.saved.progress
    why = f"{name_all(point.given_up)} failed again after {most_recoveries(progress)} recovery attempts"
    if any(has_stepped_back(agent, progress) for agent in point.given_up):
        return newest, point, [f"{why}, and the run has gone back for that before: a person must decide"]
    for opened in before:
        if not set(point.given_up) & set(failed_agents(opened.saved.progress)):
            number = opened.header.sequence_number
            warning = f"{why}: the plan goes back to checkpoint {number}, the last one before that"
            return _remembering(opened, point.given_up), plan_style(opened.saved, Today(dag=dag)), [warning]
    if before.is_cut_off:
        return newest, point, [f"{why}: resume again once GitHub answers, so that the run can go back"]
    return (
        newest,
        point,
        [f"{why}, and no earlier checkpoint is without that failure: a person must decide"],
    )


def _remembering(opened: OpenedCheckpoint, agents: Sequence[str]) -> OpenedCheckpoint:
    """Return a checkpoint whose progress says that the run has gone back to it because of these agents."""
    members = dict(parse_document(opened.state_text).members)
    progress = parse_exact(members["progress"])
    known = progress.get("stepped_back_for")
    progress["stepped_back_for"] = [*(known if isinstance(known, list) else []), *agents]
    text = join_members({**members, "progress": encode_exact(progress)})
    return replace(opened, state=parse_value(text), state_text=text, is_outlined=False)
