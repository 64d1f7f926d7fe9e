"""Runs as Holdfast stores them, made directly: many of them in no time."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pygit2

from holdfast.format.checkpoint import Envelope, draft_from_mapping, stamp
from holdfast.format.index import Index
from holdfast.format.moments import format_moment
from holdfast.format.paths import Layout, format_checkpoint_name
from holdfast.format.stored_file import entry_of

LAYOUT = Layout()
NOON = 1_800_000_000.0
DAY_S = 86_400.0
SOMEONE = pygit2.Signature("Someone", "someone@example.com", int(NOON), 0)


def make_envelope(run_id: str, number: int, *, at: float = NOON, **fields: Any) -> Envelope:
    """Return a checkpoint as the repository would hold it; its id is made of its run and number."""
    identity = UUID(int=abs(hash((run_id, number))) | 1 << 127)
    checkpoint = {
        "checkpoint_id": str(identity),
        "run_id": run_id,
        "trigger": "manual",
        "timestamp": format_moment(at),
        "state": {"n": number},
        **fields,
    }
    draft = draft_from_mapping(checkpoint, now=format_moment(at), new_id=str)
    return stamp(draft.body(number))


def make_run(
    run_id: str, count: int = 3, *, at: float = NOON, status: str = "completed", **fields: Any
) -> dict[str, bytes]:
    """Return the files of a run of `count` checkpoints, a second apart, the last of them made at `at`."""
    envelopes = [
        make_envelope(
            run_id,
            number,
            at=at - (count - number),
            **{**fields, "status": status if number == count else "in_progress"},
        )
        for number in range(1, count + 1)
    ]
    return run_files(run_id, envelopes, last_updated=format_moment(at))


def run_files(run_id: str, envelopes: Sequence[Envelope], *, last_updated: str) -> dict[str, bytes]:
    """Return files, index and latest of a run, by name."""
    names = [format_checkpoint_name(each.sequence, each.header.trigger) for each in envelopes]
    entries = [
        entry_of(envelope, LAYOUT.path(run_id, name)) for envelope, name in zip(envelopes, names, strict=True)
    ]
    index = Index(run_id).with_entries(entries, workflow=None, now=last_updated)
    return {
        **{name: envelope.content for envelope, name in zip(envelopes, names, strict=True)},
        "index.json": index.to_bytes(),
        "latest.json": envelopes[-1].content,
    }


def with_paths(runs: Mapping[str, Mapping[str, bytes]]) -> dict[str, bytes]:
    """Return the files of many runs by their whole paths."""
    return {
        LAYOUT.path(run_id, name): content
        for run_id, files in runs.items()
        for name, content in files.items()
    }


def commit_runs_over_time(
    repository: Path, runs: Mapping[str, Mapping[str, bytes]], written_at: Mapping[str, float]
) -> None:
    """Commit runs to a new branch, the oldest first, each when it was written."""
    there: dict[str, Mapping[str, bytes]] = {}
    parents: list[str] = []
    for run_id in sorted(runs, key=lambda each: written_at[each]):
        there[run_id] = runs[run_id]
        person = pygit2.Signature(SOMEONE.name, SOMEONE.email, int(written_at[run_id]), 0)
        parents = [commit_runs(repository, there, person=person, parents=parents)]


def commit_runs(
    repository: Path,
    runs: Mapping[str, Mapping[str, bytes]],
    branch: str = "checkpoints",
    *,
    person: pygit2.Signature = SOMEONE,
    parents: Sequence[str] = (),
) -> str:
    """Commit runs to a branch of a bare repository, new without parents, and return the commit."""
    git = pygit2.Repository(str(repository))
    base = git.TreeBuilder()
    for run_id, files in runs.items():
        folder = git.TreeBuilder()
        for name, content in files.items():
            folder.insert(name, git.create_blob(content), pygit2.enums.FileMode.BLOB)
        base.insert(run_id, folder.write(), pygit2.enums.FileMode.TREE)
    root = git.TreeBuilder()
    root.insert("checkpoints", base.write(), pygit2.enums.FileMode.TREE)
    return str(git.create_commit(f"refs/heads/{branch}", person, person, "Runs", root.write(), list(parents)))
