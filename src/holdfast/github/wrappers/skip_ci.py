"""A gateway whose commits start no workflows."""

from dataclasses import dataclass, replace
from typing import cast

from holdfast.github.calls import Call, Gateway, ResultT
from holdfast.github.write_calls import CommitFiles, DeleteFile, WriteCommit, WriteFile

# Stands in the body, so that the subject stays what it is. See
# https://docs.github.com/actions/how-tos/manage-workflow-runs/skip-workflow-runs.
MARK = "[skip ci]"


@dataclass(frozen=True, slots=True)
class SkipCiGateway:
    """Performs calls through `inner` with a mark in every commit message that keeps pushes from starting CI.

    It is for branches that may hold code: on a branch of our own there are no workflows to start.
    """

    inner: Gateway

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers, or raise its GatewayError."""
        return self.inner.perform(_mark(call))


def _mark(call: Call[ResultT]) -> Call[ResultT]:
    if isinstance(call, WriteFile | DeleteFile | WriteCommit):
        return cast(Call[ResultT], replace(call, message=_add_mark(call.message)))
    if isinstance(call, CommitFiles):
        return cast(Call[ResultT], replace(call, body=_add_mark(call.body).lstrip("\n")))
    return call


def _add_mark(message: str) -> str:
    return message if MARK in message else f"{message}\n\n{MARK}"
